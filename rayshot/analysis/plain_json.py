"""Arguments of many messages as JSON at once, by a fast writer whose result equals that of `values.as_json`."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from math import isfinite
from typing import Any

try:
    import msgspec
except ModuleNotFoundError as error:
    from rayshot.errors import ConfigError

    raise ConfigError("tables need msgspec: pip install 'rayshot[tables]'") from error

from rayshot.inert.jsonable import TEXT_LENGTH_MAX

_LONG_MAX = 2**63 - 1
_FLOAT_MIN, _FLOAT_MAX = 1e-4, 1e16
"""Between these bounds both writers write a float without an exponent; with one they would write it differently."""
_PLAIN = frozenset({type(None), bool, int, float, str})

_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
# Blanks as Python writes them: `[1, 2]`. The function takes bytes and returns bytes.
_with_blanks: Callable[[bytes], bytes] = partial(msgspec.json.format, indent=0)  # type: ignore[assignment]


def as_json_arrays(
    rows: Sequence[Sequence[Any]], slowly: Callable[[Sequence[Any]], tuple[str, bool]]
) -> tuple[list[bytes | str], set[int]]:
    """Each row as a JSON array, and the places of the rows that are cut; `slowly` writes a row that is not plain.

    Plain values are None, truth values, integers of 64 bits, floats that are numbers, and texts that are not long.
    """
    plain = _are_plain(rows)
    places = [] if all(plain) else [place for place, one in enumerate(plain) if not one]
    quick = map(_with_blanks, map(_encode, compress(rows, plain) if places else rows))
    found: list[bytes | str] = [next(quick) if one else b"" for one in plain] if places else list(quick)
    if max(map(len, found), default=0) > TEXT_LENGTH_MAX:
        places += [place for place, text in enumerate(found) if len(text) > TEXT_LENGTH_MAX]
    cut = set()
    for place in places:
        found[place], is_cut = slowly(rows[place])
        if is_cut:
            cut.add(place)
    return found, cut


def _are_plain(rows: Sequence[Sequence[Any]]) -> list[bool]:
    """Which rows hold only plain values; long texts count as plain here."""
    if len(set(map(len, rows))) == 1 and all(map(_is_plain_column, zip(*rows, strict=True))):
        return [True] * len(rows)
    return [_is_plain_column(row) for row in rows]


def _is_plain_column(values: Sequence[Any]) -> bool:
    """Whether all values are plain; long texts count as plain here."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        return False
    if int in kinds:
        integers = values if kinds == {int} else [value for value in values if type(value) is int]
        if max(integers) > _LONG_MAX:
            return False
    if float in kinds:
        floats = values if kinds == {float} else [value for value in values if type(value) is float]
        if not all(map(isfinite, floats)):
            return False
        sizes = list(map(abs, filter(None, floats)))
        return not sizes or (min(sizes) >= _FLOAT_MIN and max(sizes) < _FLOAT_MAX)
    return True
