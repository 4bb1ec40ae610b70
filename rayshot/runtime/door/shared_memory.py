"""Memory that an actor's process shares with others: a fork does not copy it, and it can change after the fork.

Ray gives large values out without a copy. They are in the memory of its object store. When this process does not read a
value any more, the store gives its memory to others, even if a forked child still reads it. So the buffers that live at
a fork are held until the child has ended: their bytes never change.

Other shared memory is a mapped file or a block of `multiprocessing`: its writers may change it at any time. It is taken
away from the child: the kernel ends a child that reads it, and the state is captured inline.
"""

import ctypes
import os
import signal
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rayshot.runtime.door.private_names import UNPACK, replace, unpack_buffers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Buffer: TypeAlias = "NDArray[np.uint8]"
_PROT_NONE = 0
_PR_SET_DUMPABLE = 4
_PAGE = os.sysconf("SC_PAGE_SIZE")
_process = ctypes.PyDLL(None, use_errno=True)
_process.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_read: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()


class _Mapping(NamedTuple):
    """A part of this process's memory; see proc(5)."""

    start: int
    end: int
    flags: str
    path: str


def note_buffers() -> None:
    """From now on note the buffers that this process reads from Ray's object store."""
    replace(UNPACK, _unpack_noted)


def held_buffers() -> list[Buffer]:
    """The buffers that this process reads from Ray's object store. They stay there while they are in this list."""
    return [buffer for reference in _read.valuerefs() if (buffer := reference()) is not None]


def maps_data() -> bool:
    """Whether a state could be in memory that others can change, besides Ray's. Takes half a millisecond."""
    return any(not _is_of_ray(mapping.path) and not _is_device(mapping.path) for mapping in _changeable())


def take_shared_memory_away(held: Sequence[Buffer]) -> None:
    """In a forked child: take away all memory that others can change, except `held`. Reading it then causes SIGSEGV.

    A system call that reads it fails with EFAULT. Raises OSError if the kernel does not take it away.
    """
    mappings, kept = _changeable(), sorted(map(_pages, held))
    if not mappings:
        return
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # otherwise Ray and `faulthandler` would report a crash
    _process.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # otherwise the kernel would write a core file
    for mapping in mappings:
        for start, end in _without(mapping, kept):
            if _process.mprotect(start, end - start, _PROT_NONE):
                error = ctypes.get_errno()
                raise OSError(error, f"{mapping.path} cannot be taken away: {os.strerror(error)}")


def _unpack_noted(data: Any) -> Any:
    """As Ray's function. All buffers of the value keep `whole`, which, unlike Ray's types, can have weak references."""
    stream, buffers = unpack_buffers(data)
    if not buffers:
        return stream, buffers
    import numpy as np  # noqa: PLC0415 - it takes as long to import as all of rayshot, and most actors have no buffers

    whole = np.frombuffer(data, np.uint8)
    stream, buffers = unpack_buffers(whole)
    _read[id(whole)] = whole
    return stream, buffers


def _changeable() -> list[_Mapping]:
    """Memory that others can change: shared memory, and files that are mapped for this process only.

    In such a file, a page that this process has not written shows later changes of the file. Code and locales do not
    count, as they do not change.
    """
    mappings = list(_mappings())
    code = {mapping.path for mapping in mappings if "x" in mapping.flags}
    return [
        mapping
        for mapping in mappings
        if (mapping.flags.endswith("s") or (mapping.path.startswith("/") and mapping.path not in code))
        and not ("x" in mapping.flags or _is_of_the_system(mapping.path))
    ]


def _mappings() -> Iterator[_Mapping]:
    for line in Path("/proc/self/maps").read_bytes().splitlines():
        addresses, flags, _, _, _, *path = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in addresses.split(b"-"))
        yield _Mapping(start, end, flags.decode(), os.fsdecode(b"".join(path)))


def _is_of_ray(path: str) -> bool:
    return Path(path).name.startswith("plasma")


def _is_device(path: str) -> bool:
    return path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/zero"))  # noqa: S108 - it is Linux's


def _is_of_the_system(path: str) -> bool:
    return path.endswith((".so", "/gconv-modules.cache")) or ".so." in path or "/lib/locale/" in path


def _pages(buffer: Buffer) -> tuple[int, int]:
    start = buffer.__array_interface__["data"][0]
    return start // _PAGE * _PAGE, -(-(start + buffer.nbytes) // _PAGE) * _PAGE


def _without(mapping: _Mapping, kept: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a mapping outside the `kept` ranges, which are sorted."""
    start = mapping.start
    for kept_start, kept_end in kept:
        if kept_end <= start:
            continue
        if kept_start >= mapping.end:
            break
        if start < kept_start:
            yield start, kept_start
        start = kept_end
    if start < mapping.end:
        yield start, mapping.end
