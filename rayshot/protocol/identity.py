"""Names of processes, channels and snapshots: the words that every room shares."""

import hashlib
import re
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

from rayshot.errors import ConfigError

COORDINATOR = "coordinator"
"""The initiator of the snapshots that nobody inside the system asked for."""

ALIGNED = "aligned"
"""The initiator of the coordinator's aligned snapshots: whoever hears of one knows by its id what to do."""

STOPPED = "stopped"
"""The initiator of the coordinator's stop-the-world snapshots."""

RESERVED = (COORDINATOR, ALIGNED, STOPPED)
"""What no process may be called."""

DRIVER_PREFIX = "driver:"
"""Senders outside the system (the environment of the 1985 paper) carry names that start so."""
GUEST_PREFIX = f"{DRIVER_PREFIX}task-"
"""So those of plain tasks and plain actors."""

NAME_LENGTH_MAX = 128
SHOWN_MAX = 200
"""So much of what is not a snapshot id is repeated."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_INITIATOR = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NOT_AS_IT_IS = re.compile(rb"[^A-Za-z0-9.-]")
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of Unicode that no actor's name holds: control characters, halves of pairs, and ends of lines."""
_SNAPSHOT = re.compile(r"(0|[1-9][0-9]{0,18})-(.+)-(0|[1-9][0-9]{0,18})")
"""With numbers of as many digits as a counter in a manifest can have."""


class Channel(NamedTuple):
    """An ordered pair of processes; its messages are numbered 1, 2, 3 ... in the order of sending."""

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}"


class SnapshotId(NamedTuple):
    """Which snapshot: unique for ever within one system.

    `incarnation` counts the lives of the system from 1, `initiator` says who asked (COORDINATOR, or for a process what
    `initiator_of` makes of its name), `counter` counts that initiator's snapshots from 1. Ids order nothing: cuts are
    compared by their counters.
    """

    incarnation: int
    initiator: str
    counter: int

    def __str__(self) -> str:
        return f"{self.incarnation}-{self.initiator}-{self.counter}"

    @property
    def by_coordinator(self) -> bool:
        """Whether a coordinator began it."""
        return self.initiator in RESERVED

    @classmethod
    def parse(cls, text: str) -> "SnapshotId":
        """Read what `str` wrote, so that one id has one spelling; raises ConfigError on anything else."""
        match = _SNAPSHOT.fullmatch(text)
        if match is None or not is_initiator(match[2]):
            raise ConfigError(f"{text[:SHOWN_MAX]!r} is not a snapshot id; one looks like 1-coordinator-3")
        return cls(int(match[1]), match[2], int(match[3]))


def initiator_of(process: str) -> str:
    """What stands for a process in the ids of its snapshots, which are parts of keys: for no two processes the same.

    Its name, where that can name a system too. Else a `_`, with which no such name begins, and the name in letters,
    digits, `.` and `-`, each other byte of its UTF-8 as `_` and two hexadecimal digits; where that is too long, the
    SHA-256 of the name, which has no second `_`.
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
    """Whether `process` is a driver that lives in a plain task or a plain actor, and may return what it hears."""
    return process.startswith(GUEST_PREFIX)


def check_name(name: str, what: str, reserved: Collection[str] = ()) -> str:
    """Return `name` if it can serve as the name of a system, else raise ConfigError.

    It becomes a part of keys: letters, digits, `_`, `.`, `-`, at most NAME_LENGTH_MAX characters, the first a letter or
    digit. `reserved` names have a meaning of their own.
    """
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name {what}: use letters, digits, '_', '.', '-', the first a letter or digit, "
            f"at most {NAME_LENGTH_MAX} characters"
        )
    return _check_reserved(name, what, reserved)


def check_actor_name(name: str, what: str = "an actor", reserved: Collection[str] = RESERVED) -> str:
    """Return `name` if it can serve as the name of an actor, else raise ConfigError.

    Any text of 1 to NAME_LENGTH_MAX characters without control characters and ends of lines that does not begin as the
    name of a driver does.
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
