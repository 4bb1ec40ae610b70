"""A trial: a recorded state that a scratch process loads, and its answer.

There are three answers. Only *refuted* says that a restore fails: the state's own values raise the same error each time
that they are made. An error of the outside says nothing of that kind. A file that the living actor has locked, a server
that refuses a second connection or too little memory here would not stop a restore after the actor's death.
"""

import pickle
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgpack

from rayshot.errors import MigrationFailed, RayshotError, StaleHandle
from rayshot.format.slots import SlotKind

Word = Literal["proved", "refuted", "unproved"]
LOAD_S = 5.0
REASON_LENGTH_MAX = 300
_CHAIN_MAX = 16
_OUTSIDE = (OSError, MemoryError, ImportError, StaleHandle)
_OWN = (TypeError, AttributeError, LookupError, ValueError, RecursionError, pickle.UnpicklingError)
NO_CODE = frozenset({"ImportError", "ModuleNotFoundError", "CodeMismatch"})
"""The errors of a trial where a module or class is not to be found."""
Messages = tuple[tuple[int, tuple[tuple[SlotKind, int], ...]], ...]
"""The number of each message, and of each of its slots the kind and how many parts it has."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Answer(NamedTuple):
    """What a trial came to. `reason` says why a state is not proved; `error` is the type of what it raised.

    `path` leads to the part that does not load, such as `alice['state']['money']` or `message 7`; empty if it is not
    known.
    """

    word: Word
    reason: str = ""
    error: str = ""
    path: str = ""

    def pack(self) -> bytes:
        """The answer as bytes, for the process that asked."""
        packed = msgpack.packb(self)
        assert isinstance(packed, bytes)
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> "Answer":
        """Read what `pack` wrote. Raises ValueError or msgpack.UnpackException for anything else."""
        match msgpack.unpackb(packed):
            case ["proved" | "refuted" | "unproved" as word, str(reason), str(error), str(path)]:
                return cls(word, reason, error, path)
        raise ValueError("not an answer")


PROVED = Answer("proved")


class Trial(NamedTuple):
    """A state to load: that of `actor`, whose packed specification names its class.

    Its stream and buffers lie one after the other in a file, `sizes` bytes each. Loading may take `load_s` seconds.
    With `names` (see `dump_names`) and `version` it is loaded whole, as a restore does: the class migrates it and takes
    it with its `__setstate__`. With `messages` it loads these instead, which were in flight to the actor: the file has
    each message, followed by the parts of its slots.
    """

    actor: str
    specification: bytes
    sizes: tuple[int, ...]
    load_s: float = LOAD_S
    names: bytes | None = None
    version: int = 0
    messages: Messages = ()

    @property
    def is_whole(self) -> bool:
        """Whether the actor's class takes the state too."""
        return self.names is not None

    def pack(self) -> bytes:
        """The trial as bytes, for the process that makes it."""
        packed = msgpack.packb(self)
        assert isinstance(packed, bytes)
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> "Trial":
        """Read what `pack` wrote."""
        actor, specification, sizes, *rest = msgpack.unpackb(packed)
        return cls(actor, specification, tuple(sizes), *rest)


def judge(error: BaseException) -> Answer:
    """What an error says that a state raised when it was loaded."""
    ours = isinstance(error, RayshotError)  # it says that there is no system here, or that a class does not migrate
    own = isinstance(error, MigrationFailed if ours else _OWN)
    outside = any(isinstance(one, _OUTSIDE) for one in _chain(error))
    return Answer("refuted" if own and not outside else "unproved", in_short(error), type(error).__qualname__)


def in_short(error: BaseException) -> str:
    """An error in one line that is the same in each process."""
    try:
        text = _ADDRESS.sub("", " ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - a user's class may raise anything when it is shown
        text = ""
    name = type(error).__name__
    shown = (f"{name}: {text}" if text else name)[:REASON_LENGTH_MAX]
    return shown.encode("utf-8", "backslashreplace").decode()


def _chain(error: Any) -> Iterator[BaseException]:
    """The error, and those behind it."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _CHAIN_MAX:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]
