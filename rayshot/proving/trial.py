"""A trial: a recorded state that a scratch process loads, and its answer.

There are three answers. Only *refuted* says that a restore fails: the state's own values raise the same error each time
that they are made. An error of the outside says nothing of that kind. A file that the living actor has locked, a server
that refuses a second connection or too little memory here would not stop a restore after the actor's death. Nor does an
error where the actor's process has something that a scratch process lacks: Ray, and what a setup hook did.
"""

import os
import re
import traceback
from typing import Literal, NamedTuple

import msgpack

from rayshot.errors import MigrationFailed, RayshotError
from rayshot.format.slots import SlotKind
from rayshot.proving.fault import MISSING, chain, is_of_outside, is_own

Word = Literal["proved", "refuted", "unproved"]
LOAD_S = 5.0
REASON_LENGTH_MAX = 300
NO_CODE = frozenset({"ImportError", "ModuleNotFoundError", "CodeMismatch"})
"""The errors of a trial where a module or class is not to be found."""
Messages = tuple[tuple[int, tuple[tuple[SlotKind, int], ...]], ...]
"""The number of each message, and of each of its slots the kind and how many parts it has."""
SETUP_HOOK = "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"
"""The variable that Ray sets in processes that ran a worker_process_setup_hook."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class TrialAnswer(NamedTuple):
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
    def unpack(cls, packed: bytes) -> "TrialAnswer":
        """Read what `pack` wrote. Raises ValueError or msgpack.UnpackException for anything else."""
        match msgpack.unpackb(packed):
            case ["proved" | "refuted" | "unproved" as word, str(reason), str(error), str(path)]:
                return cls(word, reason, error, path)
        raise ValueError("not an answer")


PROVED = TrialAnswer("proved")


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


def judge(error: BaseException) -> TrialAnswer:
    """What an error says that a state raised when it was loaded."""
    ours = isinstance(error, RayshotError)  # it says that there is no system here, or that a class does not migrate
    own = isinstance(error, MigrationFailed) if ours else is_own(error)
    if not own or is_of_outside(error) or any(isinstance(one, MISSING) for one in chain(error)):
        return TrialAnswer("unproved", in_short(error), type(error).__qualname__)
    lacking = _lacking_here(error)
    reason = f"{in_short(error)}; {lacking}" if lacking else in_short(error)
    return TrialAnswer("unproved" if lacking else "refuted", reason, type(error).__qualname__)


def _lacking_here(error: BaseException) -> str:
    """What the actor's process has and this one lacks, so that the error says nothing; empty if there is nothing."""
    if any(_comes_from_ray(one) for one in chain(error)):
        return "it asks Ray, which is not here"
    return (
        "a worker_process_setup_hook ran where the actor is, and does not run here" if SETUP_HOOK in os.environ else ""
    )


def _comes_from_ray(error: BaseException) -> bool:
    """Whether code of Ray raised it, or called what did."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(str(frame.f_globals.get("__name__")).partition(".")[0] == "ray" for frame, _ in frames)


def in_short(error: BaseException) -> str:
    """An error in one line that is the same in each process."""
    try:
        text = _ADDRESS.sub("", " ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - a user's class may raise anything when it is shown
        text = ""
    name = type(error).__name__
    shown = (f"{name}: {text}" if text else name)[:REASON_LENGTH_MAX]
    return shown.encode("utf-8", "backslashreplace").decode()
