"""Values whose content is outside of them: in a file, in a block of shared memory, behind a descriptor.

Picklers accept them, but they come back as something else: an open file as its content in memory, a block as its name,
a connection as the number of a descriptor, an array of ctypes not at all, a temporary folder as one that is gone. So
rayshot refuses them. Every pickler refuses an event loop; the error here names the loop, not one of its parts.
"""

import asyncio
import io
import sys
import tempfile
import weakref
from typing import Any

_FILE = "it is a file, which no pickle can hold"
_BLOCK = "it is a block of shared memory, of which a pickle would hold the name alone"
_NUMBER = "it is a connection, of which a pickle would hold the number of a descriptor alone"
_ARRAY = "it is an array of ctypes, which nobody could unpickle: keep list() or bytes() of it"
_FOLDER = (
    "it is a temporary folder, which its finalizer deletes, also while the actor lives and another one dies: keep its "
    "name, and remove it when you need it no more, or make a new one in on_restore and clean it up in on_rollback"
)
_FINALIZER = (
    "it is a finalizer of an object of this process, and its copy would never run: make it in __init__ and on_restore, "
    "and detach it in on_rollback"
)
_LOOP = "it is an event loop, or holds one, and belongs to this process alone"
_ELSEWHERE = {
    ("multiprocessing.shared_memory", "SharedMemory"): _BLOCK,
    ("multiprocessing.shared_memory", "ShareableList"): _BLOCK,
    ("multiprocessing.connection", "_ConnectionBase"): _NUMBER,
}
_ARMED: dict[type, str] = {tempfile.TemporaryDirectory: _FOLDER, weakref.finalize: _FINALIZER}
"""Types with something to do when an object ends; a class that is derived from them may say how it is pickled."""
_MODULES = tuple({module for module, _ in _ELSEWHERE})


def outside_types() -> frozenset[type]:
    """The types that `refuse_outside` refuses, as far as this process has imported them."""
    arrays = [type(sys.modules["_ctypes"].Array)] if "_ctypes" in sys.modules else []
    return frozenset((io.TextIOWrapper, *arrays, *_ARMED, *_elsewhere(), *_derived(asyncio.AbstractEventLoop)))


def refuse_outside(value: Any) -> None:
    """Raise TypeError with the reason if this value of an outside type would not survive a pickle."""
    why = _elsewhere().get(type(value), "")
    if type(value) is io.TextIOWrapper and value is not sys.stdout and value is not sys.stderr:  # which go by name
        why = _FILE
    elif isinstance(value, asyncio.AbstractEventLoop):
        why = _LOOP
    elif type(value) in _ARMED and getattr(value, "_finalizer", value).alive:
        why = _ARMED[type(value)]
    elif isinstance(value, type) and getattr(sys.modules.get(value.__module__), value.__qualname__, None) is not value:
        why = _ARRAY
    if why:
        raise TypeError(why)


def may_be_outside(pickled: bytes) -> bool:
    """Whether a plain pickle may hold a value to refuse. False is certain."""
    if b"weakref" in pickled:  # a finalizer, of a temporary folder too
        return True
    if sys.modules.keys().isdisjoint(_MODULES):
        return False
    return any(module.encode() in pickled for module in {found.__module__ for found in _elsewhere()})


def _elsewhere() -> dict[type, str]:
    """The imported classes of `_ELSEWHERE` and their subclasses, each with the reason of its refusal."""
    found: dict[type, str] = {}
    for (module, name), why in _ELSEWHERE.items():
        if module in sys.modules:
            found |= dict.fromkeys(_derived(getattr(sys.modules[module], name)), why)
    return found


def _derived(kind: type) -> list[type]:
    """The class and its subclasses."""
    found = [kind]
    for one in found:  # which grows
        found += one.__subclasses__()
    return found
