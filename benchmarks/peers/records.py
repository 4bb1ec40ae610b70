"""The records that all engines count, and what the counts must be.

Record number i, from 0, is (key, value): with j = i mod PERIOD, the key is the upper part of a multiplicative hash of
j, scaled to the number of keys, and the value is j mod VALUES. So a source goes on from any offset, an engine written
in Java computes the same records in SQL, and one written in Python looks them up in a table.
"""

from collections.abc import Mapping

PERIOD = 1 << 18
VALUES = 100
MULTIPLIER = 2_654_435_761
SEED = 1985
BATCH = 4096
"""Records that a source hands on at once, in every engine that lets a source choose. Divides PERIOD."""

SQL_KEY = f"((n % {PERIOD} + {SEED}) * {MULTIPLIER} % 4294967296 * {{keys}} / 4294967296)"
SQL_VALUE = f"(n % {PERIOD} % {VALUES})"
"""The same in SQL, of the number `n`, with Java's whole numbers of 64 bits."""


def keys_and_values(keys: int) -> tuple[list[int], list[int]]:
    """The first PERIOD records, as columns; after them they repeat. `keys` is how many keys there are."""
    found = [(j + SEED) * MULTIPLIER % (1 << 32) * keys >> 32 for j in range(PERIOD)]
    return found, [j % VALUES for j in range(PERIOD)]


def expected(records: int, keys: int) -> dict[int, tuple[int, int]]:
    """For each key that occurs in the first `records` records its count and its sum."""
    column, values = keys_and_values(keys)
    periods, rest = divmod(records, PERIOD)
    totals: dict[int, tuple[int, int]] = {}
    for j, (key, value) in enumerate(zip(column, values, strict=True)):
        times = periods + (j < rest)
        if times:
            count, total = totals.get(key, (0, 0))
            totals[key] = count + times, total + times * value
    return totals


def check(found: Mapping[int, tuple[int, int]], records: int, keys: int) -> None:
    """Raise WrongCount unless `found` is exactly what `expected` says."""
    right = expected(records, keys)
    wrong = [key for key in right.keys() | found.keys() if found.get(key) != right.get(key)]
    if wrong:
        key = min(wrong)
        raise WrongCount(
            f"{len(wrong)} of {len(right)} keys are wrong after {records} records; "
            f"key {key} has {found.get(key)} and should have {right.get(key)}"
        )


class WrongCount(Exception):
    """An engine counted wrong: its speed is of no interest."""
