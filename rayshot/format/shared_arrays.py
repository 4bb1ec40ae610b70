"""Arrays of one state that share memory: numpy pickles each alone, so without this they come apart.

Theory of operation. The first pickling of a state notes its arrays. Where some of them overlap in memory, the state is
pickled once more: the memory that they share is a `MemorySpan`, which the pickle holds once; each of these arrays is
`view(...)` on it. If they lie in a bytearray or an `array.array` of the state, that is the memory. Arrays that overlap
with nothing are pickled as numpy does it.

What is not kept: arrays of objects, whose elements are no bytes; arrays so far apart that their span would hold mostly
nothing; arrays of other classes than `ndarray`, which numpy pickles by rules of their own. They come back as copies.
Arrays that nobody may write need not share.
"""

import array
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

SPARSE_BYTES_MIN = 1 << 20
SPARSE_RATIO = 4
"""A span of more than so many bytes is not recorded if it has more than so many for each byte of its arrays."""
_HOLDERS = (bytearray, array.array)
"""Values whose memory an array may use, and which a pickle holds by their content."""
_Memo = Callable[[], Mapping[int, Any]]
"""Returns what a pickling has met, by identity."""


def view(
    shape: tuple[int, ...],
    dtype: Any,
    memory: Any,
    offset: int,
    strides: tuple[int, ...],
    writeable: bool,  # noqa: FBT001 - a pickle gives no keywords
) -> Any:
    """An array on memory that it shares with others. Snapshots hold this function by name: keep it here."""
    import numpy as np  # noqa: PLC0415 - late: most states hold no arrays

    made = np.ndarray(shape, dtype, memory, offset, strides)
    if not writeable:
        made.flags.writeable = False
    return made


class MemorySpan:
    """The memory from the address `low` to `high`, which `arrays` share; that of `holder` if the state holds it."""

    def __init__(self, low: int, high: int, arrays: list[Any], holder: Any = None) -> None:
        self.low, self.high = low, high
        self._arrays = arrays  # they keep the memory
        self._memory = holder

    @property
    def is_sound(self) -> bool:
        """Whether bytes can stand for it, and not many more than its arrays have."""
        if self._memory is not None:
            return True
        size = self.high - self.low
        dense = size <= SPARSE_BYTES_MIN or size <= SPARSE_RATIO * sum(min(one.nbytes, size) for one in self._arrays)
        return dense and not any(one.dtype.hasobject for one in self._arrays)

    def reduce(self, found: Any, address: int) -> Any:
        """What stands in a pickle for an array whose first element is at `address`."""
        if self._memory is None:
            self._memory = self._gathered()
        if found is self._memory:
            return found.__reduce_ex__(5)
        return view, (found.shape, found.dtype, self._memory, address - self.low, found.strides, found.flags.writeable)

    def _gathered(self) -> Any:
        """The bytes of the arrays, with zeros between them: what lies there belongs to nothing in the state."""
        size = self.high - self.low
        if any(one.nbytes == size and one.flags.forc for one in self._arrays):
            return _bytes_at(self.low, size, self._arrays)
        import numpy as np  # noqa: PLC0415 - it is loaded, as there are arrays

        gathered = np.zeros(size, "u1")
        for one in self._arrays:
            np.ndarray(one.shape, one.dtype, gathered, _address(one) - self.low, one.strides)[...] = one
        return gathered


class SharedArrays:
    """The arrays of one state. Pickle it with the `reducers`, and again with them if `are_found` says so."""

    def __init__(self) -> None:
        self._pickler: Any = None
        self._noted: list[Any] = []
        self._spans: list[MemorySpan] = []
        self.come_apart = False
        """Whether arrays share memory that is not recorded as one."""

    def reducers(self, pickler: Any) -> dict[type, Callable[[Any], Any]]:
        """For the dispatch table of the pickler of a whole state; empty where nobody has imported numpy."""
        self._pickler, self._noted = pickler, []
        numpy = sys.modules.get("numpy")
        return {} if numpy is None else {numpy.ndarray: self._reduce if self._spans else self._note}

    def are_found(self) -> bool:
        """Whether arrays that the last pickling met share memory with each other or with what else it met."""
        noted, self._noted = self._noted, []
        if all(one.base is None for one in noted):
            return False
        spans = list(_spans(noted, cache(self._pickler.memo.copy)))
        self._spans = sorted((span for span in spans if span.is_sound), key=_low)
        self.come_apart = len(self._spans) < len(spans)
        return bool(self._spans)

    def _note(self, found: Any) -> Any:
        self._noted.append(found)
        return found.__reduce_ex__(5)

    def _reduce(self, found: Any) -> Any:
        """An array is known by its place in memory: `__getstate__` may make another view of it at each call."""
        if found.size and not found.dtype.hasobject:
            low, high = _stretch(found)
            at = bisect_right(self._spans, low, key=_low) - 1
            if at >= 0 and high <= self._spans[at].high:
                return self._spans[at].reduce(found, _address(found))
        return found.__reduce_ex__(5)


def _spans(arrays: Iterable[Any], memo: _Memo) -> Iterator[MemorySpan]:
    """The memory that several of these arrays share, or one of them and a value that was pickled too.

    Arrays that live have bytes in common exactly where their addresses meet, whatever they were made by.
    """
    numpy = sys.modules["numpy"]
    of_holders: dict[int, tuple[Any, list[Any]]] = {}
    others: list[Any] = []
    for one in arrays:
        owner = _owner(one)
        if type(owner) in _HOLDERS and id(owner) in memo():
            of_holders.setdefault(id(owner), (owner, []))[1].append(one)
        else:
            others.append(one)
    for owner, sharing in of_holders.values():
        low, high = _stretch(numpy.frombuffer(owner, "u1"))
        yield MemorySpan(low, high, sharing, owner)
    if others:
        yield from _overlapping(others)


def _owner(found: Any) -> Any:
    """The value whose memory an array uses: the array itself, or what its base leads to."""
    while (beneath := _base(found)) is not None:
        found = beneath
    return found


def _base(found: Any) -> Any:
    if type(found) is memoryview:
        return found.obj
    # numpy gives an array new strides by a DummyArray, which holds the array beneath.
    is_array = isinstance(found, sys.modules["numpy"].ndarray) or type(found).__name__ == "DummyArray"
    return getattr(found, "base", None) if is_array else None


def _overlapping(arrays: list[Any]) -> Iterator[MemorySpan]:
    """The stretches of memory that several of these arrays cover, or one of them twice, if one may be written."""
    placed = sorted((*_stretch(one), at) for at, one in enumerate(arrays) if one.size)
    cluster: list[Any] = []
    low = high = 0
    for start, end, at in [*placed, (sys.maxsize, 0, 0)]:
        if start >= high:
            twice = len(cluster) > 1 or any(one.nbytes > high - low for one in cluster)
            if twice and any(one.flags.writeable for one in cluster):
                yield MemorySpan(low, high, cluster)
            cluster, low, high = [], start, start
        cluster.append(arrays[at])
        high = max(high, end)


def _stretch(found: Any) -> tuple[int, int]:
    """The addresses of the first byte of an array with elements, wherever its strides lead, and behind the last one."""
    low = high = _address(found)
    if found.flags.c_contiguous:
        return low, low + found.nbytes
    for extent, stride in zip(found.shape, found.strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + found.itemsize


def _address(found: Any) -> int:
    address: int = found.__array_interface__["data"][0]
    return address


class _Bytes:
    """Memory as numpy takes it over; `keep` owns it."""

    def __init__(self, address: int, size: int, keep: Any) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}
        self._keep = keep


def _bytes_at(address: int, size: int, keep: Any) -> Any:
    return sys.modules["numpy"].asarray(_Bytes(address, size, keep))


def _low(span: MemorySpan) -> int:
    return span.low
