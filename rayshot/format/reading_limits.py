"""How much work one inert reading may do: linear in its bytes, whatever they say."""

from collections.abc import Callable, Sequence
from typing import Any

from rayshot.errors import LimitExceeded

WORK_FREE = 10_000_000
WORK_PER_BYTE = 4
COPY_WORK = 8
"""What one copied item costs, hashing one being 1: copies stay, hashes pass."""

KEY_DEPTH_MAX = 64
ARRAY_DEPTH_MAX = 32

_LIGHT_KEYS = frozenset({str, bytes, float, bool, type(None)})
_WORD_BITS = 64


class ReadingLimits:
    """A budget for all work that a few bytes could ask for again and again.

    A pickle names what it built before in two bytes. Without a budget it could so have one large container copied, or
    one large key hashed, as often as it has bytes: quadratic memory or time.
    """

    def __init__(
        self, size_bytes: int, read_inner: Callable[[bytes], Any] | None = None, slots: Sequence[Any] = ()
    ) -> None:
        self._left = WORK_FREE + WORK_PER_BYTE * size_bytes
        self.read_inner = read_inner
        """Reads a pickle inside of the pickle; None where there may be none."""
        self.slots = slots
        """What the pickle names by its index."""
        self._array_depths: dict[int, tuple[object, int]] = {}

    @property
    def left(self) -> int:
        """What is left of the budget."""
        return self._left

    def charge(self, work: int) -> None:
        """Take `work` from the budget; raises LimitExceeded when it is spent."""
        self._left -= work
        if self._left < 0:
            raise LimitExceeded("the pickle asks for more copies and hashes than a pickle of its size needs")

    def check_key(self, key: Any) -> None:
        """Let `key` be hashed and compared: charge its size as a tree; raises LimitExceeded where it nests too deep.

        Python hashes and compares nested tuples and frozensets by recursion, once for each way that leads to a part.
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
        """Let the object array `array` hold `items`: Python frees such arrays inside one another by recursion in C."""
        depth = 1 + max((self._array_depths.get(id(item), (item, 0))[1] for item in items), default=0)
        if depth > ARRAY_DEPTH_MAX:
            raise LimitExceeded(f"object arrays are nested more than {ARRAY_DEPTH_MAX} deep", limit=ARRAY_DEPTH_MAX)
        self._array_depths[id(array)] = array, depth
