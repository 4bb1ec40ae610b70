"""A limit for the work of one inert reading, linear in the size of the pickle."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from rayshot.errors import LimitExceeded

WORK_FREE = 10_000_000
WORK_PER_BYTE = 4
COPY_WORK = 8
"""The cost of copying one item, if hashing one costs 1. A copy takes memory; a hash does not."""

KEY_DEPTH_MAX = 64
ARRAY_DEPTH_MAX = 32

_RANDOM_HASH = frozenset({str, bytes})
"""Types of keys of which nobody can write many with the same hash, and which are compared at once."""
_WORD_BITS = 64


class _Twins:
    """Looked up in a set or dict, it counts the members that have this hash."""

    __slots__ = ("count", "hash")
    __array_ufunc__ = None
    """numpy leaves the comparison to it."""

    def __init__(self, hash_: int) -> None:
        self.hash = hash_
        self.count = 0

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, _: object) -> bool:
        self.count += 1
        return False


class ReadingLimits:
    """A budget for work that a pickle can repeat with few bytes.

    Two bytes of a pickle can name an earlier object. Without a budget it could copy one large container, or hash one
    large key, as often as it has bytes: quadratic memory or time.
    """

    def __init__(
        self, size_bytes: int, read_inner: Callable[[bytes], Any] | None = None, slots: Sequence[Any] = ()
    ) -> None:
        self._left = WORK_FREE + WORK_PER_BYTE * size_bytes
        self.read_inner = read_inner
        """Reads a pickle inside of the pickle; None if inner pickles are not allowed."""
        self.slots = slots
        """The values that the pickle names by index."""
        self._array_depths: dict[int, tuple[object, int]] = {}

    @property
    def left(self) -> int:
        """The rest of the budget."""
        return self._left

    def charge(self, work: int) -> None:
        """Take `work` from the budget. Raises LimitExceeded if it is spent."""
        self._left -= work
        if self._left < 0:
            raise LimitExceeded("the pickle asks for more copies and hashes than a pickle of its size needs")

    def check_key(self, key: Any, into: Collection[Any]) -> None:
        """Charge for hashing `key` and for comparing it with what has the same hash in `into`, a set or a dict.

        Raises LimitExceeded if it nests too deep: Python hashes and compares nested tuples and frozensets by recursion,
        once for each path to a part. Raises TypeError for what has no hash.
        """
        if type(key) in _RANDOM_HASH:
            return
        before, level = self._left, [key]
        for _ in range(KEY_DEPTH_MAX):
            inner: list[Any] = []
            for item in level:
                if type(item) is tuple or type(item) is frozenset:
                    self.charge(len(item))
                    inner.extend(item)
                elif type(item) is int:
                    self.charge(item.bit_length() // _WORD_BITS)
            if not inner:
                break
            level = inner
        else:
            raise LimitExceeded(f"a key is nested more than {KEY_DEPTH_MAX} deep", limit=KEY_DEPTH_MAX)
        if into:
            twins = _Twins(hash(key))
            _ = twins in into  # it is not, and has counted
            self.charge(twins.count * (1 + before - self._left))

    def charge_copy(self, items: int) -> None:
        """Take the work of copying `items` items from the budget."""
        self.charge(COPY_WORK * items)

    def check_array(self, array: object, items: list[Any]) -> None:
        """Limit the depth of object arrays, before `array` takes `items`: Python frees them by recursion in C."""
        depth = 1 + max((self._array_depths.get(id(item), (item, 0))[1] for item in items), default=0)
        if depth > ARRAY_DEPTH_MAX:
            raise LimitExceeded(f"object arrays are nested more than {ARRAY_DEPTH_MAX} deep", limit=ARRAY_DEPTH_MAX)
        self._array_depths[id(array)] = array, depth


def checked_set(items: Sequence[Any], limits: ReadingLimits) -> set[Any]:
    """A set of these items."""
    made: set[Any] = set()
    for item in items:
        limits.check_key(item, made)
        made.add(item)
    return made
