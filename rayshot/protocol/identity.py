"""Names of processes, channels and snapshots, which all parts of the project share."""

import hashlib
import re
import unicodedata
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from rayshot.errors import ConfigError

CHANDY_LAMPORT: Final = "chandy-lamport"
ALIGNED: Final = "aligned"
STOP_THE_WORLD: Final = "stop-the-world"
Mode = Literal["chandy-lamport", "aligned", "stop-the-world"]
MODES: tuple[Mode, ...] = (CHANDY_LAMPORT, ALIGNED, STOP_THE_WORLD)
"""The algorithms by which a snapshot is taken."""

COORDINATOR = "coordinator"
"""The initiator of the coordinator's Chandy-Lamport snapshots."""

INITIATORS: Mapping[Mode, str] = {CHANDY_LAMPORT: COORDINATOR, ALIGNED: "aligned", STOP_THE_WORLD: "stopped"}
"""The initiator of the coordinator's snapshots of each mode."""

RESERVED = tuple(INITIATORS.values())
"""Names that no process may have."""

_MODE_OF: Mapping[str, Mode] = {initiator: mode for mode, initiator in INITIATORS.items()}

DRIVER_PREFIX = "driver:"
"""Names of senders outside the system (the environment of the 1985 paper) begin with this."""
GUEST_PREFIX = f"{DRIVER_PREFIX}task-"
"""Names of drivers in plain tasks and plain actors begin with this."""

LABEL_SIGN = "."
"""In the name of a driver whose program attached under a name, this stands before that name, and nowhere before."""

NAME_LENGTH_MAX = 128
SHOWN_MAX = 200
"""An error repeats at most this many characters of a text that is not a snapshot id."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_INITIATOR = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NOT_AS_IT_IS = re.compile(rb"[^A-Za-z0-9.-]")
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that no actor's name may contain: control characters, lone surrogates, and ends of lines."""
_SNAPSHOT = re.compile(r"(0|[1-9][0-9]{0,18})-(.+)-(0|[1-9][0-9]{0,18})")
"""A counter in a manifest has at most as many digits as these numbers."""


class Channel(NamedTuple):
    """An ordered pair of processes; its messages are numbered 1, 2, 3 ... in the order of sending."""

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}"


Owed = Mapping[str, Collection[int]]
"""By receiver: the numbers of calls that it has processed and not answered yet. Another handler will answer them."""

NOTHING_OWED: Owed = MappingProxyType({})


class SnapshotId(NamedTuple):
    """The id of a snapshot: unique for ever within one system.

    `incarnation` counts the lives of the system from 1. `initiator` says who asked: COORDINATOR or another reserved
    name, or the result of `initiator_of` for a process's name. `counter` counts that initiator's snapshots from 1. Ids
    give no order: cuts are compared by their counters.
    """

    incarnation: int
    initiator: str
    counter: int

    def __str__(self) -> str:
        return f"{self.incarnation}-{self.initiator}-{self.counter}"

    @property
    def mode(self) -> Mode:
        """How it is taken: one of MODES. A process that learns only the id, from a marker or an answer, needs this."""
        return _MODE_OF.get(self.initiator, CHANDY_LAMPORT)

    @property
    def by_coordinator(self) -> bool:
        """Whether a coordinator began it."""
        return self.initiator in RESERVED

    @classmethod
    def parse(cls, text: str) -> "SnapshotId":
        """Read what `str` wrote; one id has only one spelling. Raises ConfigError on anything else."""
        match = _SNAPSHOT.fullmatch(text)
        if match is None or not is_initiator(match[2]):
            raise ConfigError(f"{text[:SHOWN_MAX]!r} is not a snapshot id; one looks like 1-coordinator-3")
        return cls(int(match[1]), match[2], int(match[3]))


def initiator_of(process: str) -> str:
    """The text that stands for a process in the ids of its snapshots, which are parts of keys; unique per process.

    It is the process's name if a system could have that name too. Otherwise it is a `_`, with which no such name
    begins, and the name's UTF-8: letters, digits, `.` and `-` unchanged, each other byte as `_` and two hexadecimal
    digits. If that is too long, it is a `_` and the SHA-256 of the name, which contains no second `_`.
    """
    if _NAME.fullmatch(process):
        return process
    name = process.encode()
    spelled = "_" + _NOT_AS_IT_IS.sub(lambda match: b"_%02x" % match[0][0], name).decode()
    return spelled if len(spelled) <= NAME_LENGTH_MAX else f"_{hashlib.sha256(name).hexdigest()}"


def is_initiator(text: str) -> bool:
    """Whether `text` can be the initiator in the id of a snapshot."""
    return len(text) <= NAME_LENGTH_MAX and _INITIATOR.fullmatch(text) is not None


def is_driver(process: str) -> bool:
    """Whether `process` is a driver: part of the environment, which never records."""
    return process.startswith(DRIVER_PREFIX)


def is_guest(process: str) -> bool:
    """Whether `process` is a driver in a plain task or a plain actor, which may return what the driver learns."""
    return process.startswith(GUEST_PREFIX)


def label_of(process: str) -> str:
    """The name under which a driver's program attached; "" for a driver without one, and for an actor."""
    return process.partition(LABEL_SIGN)[2] if is_driver(process) else ""


def check_name(name: str, what: str, reserved: Collection[str] = ()) -> str:
    """Return `name` if it can be the name of a system; raise ConfigError if not.

    The name becomes a part of keys: letters, digits, `_`, `.`, `-`, at most NAME_LENGTH_MAX characters, the first a
    letter or digit. `reserved` names have a special meaning and are refused.
    """
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name {what}: use letters, digits, '_', '.', '-', the first a letter or digit, "
            f"at most {NAME_LENGTH_MAX} characters"
        )
    return _check_reserved(name, what, reserved)


def check_actor_name(name: str, what: str = "an actor", reserved: Collection[str] = RESERVED) -> str:
    """Return `name` if it can be the name of an actor; raise ConfigError if not.

    A name is any text of 1 to NAME_LENGTH_MAX characters, without control characters and ends of lines, that does not
    begin like the name of a driver.
    """
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX:
        raise ConfigError(f"{name!r:.{SHOWN_MAX}} cannot name {what}: give a text of 1 to {NAME_LENGTH_MAX} characters")
    wrong = next((char for char in name if unicodedata.category(char) in _REFUSED), None)
    if wrong is not None:
        raise ConfigError(
            f"{name!r} cannot name {what}: it holds {wrong!a}; leave out control characters, ends of lines and lone "
            "surrogates"
        )
    if is_driver(name):
        raise ConfigError(f"{name!r} cannot name {what}: names of drivers begin with {DRIVER_PREFIX!r}")
    return _check_reserved(name, what, reserved)


def _check_reserved(name: str, what: str, reserved: Collection[str]) -> str:
    if name in reserved:
        raise ConfigError(f"{name!r} cannot name {what}: snapshots of the system itself have that initiator")
    return name
