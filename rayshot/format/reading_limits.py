"""A limit for the work of one inert reading, linear in the size of the pickle."""

from collections.abc import Callable, Sequence
from typing import Any

from rayshot.errors import LimitExceeded

WORK_FREE = 10_000_000
WORK_PER_BYTE = 4
COPY_WORK = 8
"""The cost of copying one item, if hashing one costs 1. A copy takes memory; a hash does not."""

KEY_DEPTH_MAX = 64
ARRAY_DEPTH_MAX = 32

_LIGHT_KEYS = frozenset({str, bytes, float, bool, type(None)})
_WORD_BITS = 64


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

    def check_key(self, key: Any) -> None:
        """Charge for hashing and comparing `key`: its size as a tree. Raises LimitExceeded if it nests too deep.

        Python hashes and compares nested tuples and frozensets by recursion, once for each path to a part.
        """
        if type(key) in _LIGHT_KEYS:
            return
        level = [key]
        for _ in range(KEY_DEPTH_MAX):
            inner: list[Any] = []
            for item in level:
                if type(item) is tuple or type(item) is frozenset:
                    self.charge(len(item))
                    inner.extend(item)
                elif type(item) is int:
                    self.charge(item.bit_length() // _WORD_BITS)
            if not inner:
                return
            level = inner
        raise LimitExceeded(f"a key is nested more than {KEY_DEPTH_MAX} deep", limit=KEY_DEPTH_MAX)

    def charge_copy(self, items: int) -> None:
        """Take the work of copying `items` items from the budget."""
        self.charge(COPY_WORK * items)

    def check_array(self, array: object, items: list[Any]) -> None:
        """Limit the depth of object arrays, before `array` takes `items`: Python frees them by recursion in C."""
        depth = 1 + max((self._array_depths.get(id(item), (item, 0))[1] for item in items), default=0)
        if depth > ARRAY_DEPTH_MAX:
            raise LimitExceeded(f"object arrays are nested more than {ARRAY_DEPTH_MAX} deep", limit=ARRAY_DEPTH_MAX)
        self._array_depths[id(array)] = array, depth
