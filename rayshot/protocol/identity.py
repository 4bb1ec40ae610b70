"""Names of processes, channels and snapshots: the words that every room shares."""

import re
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

NAME_LENGTH_MAX = 128
SHOWN_MAX = 200
"""So much of what is no snapshot id is repeated."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
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

    `incarnation` counts the lives of the system from 1, `initiator` is who asked (a process or COORDINATOR),
    `counter` counts that initiator's snapshots from 1. Ids order nothing: cuts are compared by their counters.
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
        if match is None or len(match[2]) > NAME_LENGTH_MAX or not _NAME.fullmatch(match[2]):
            raise ConfigError(f"{text[:SHOWN_MAX]!r} is not a snapshot id; one looks like 1-coordinator-3")
        return cls(int(match[1]), match[2], int(match[3]))


def is_driver(process: str) -> bool:
    """Whether `process` is a driver: part of the environment, which never records."""
    return process.startswith(DRIVER_PREFIX)


def check_name(name: str, what: str, reserved: Collection[str] = ()) -> str:
    """Return `name` if it can serve as the name of a system or an actor, else raise ConfigError.

    Names become parts of object keys and of Ray's actor names: letters, digits, `_`, `.`, `-`, at most
    NAME_LENGTH_MAX characters, the first a letter or digit. `reserved` names have a meaning of their own.
    """
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name {what}: use letters, digits, '_', '.', '-', the first a letter or digit, "
            f"at most {NAME_LENGTH_MAX} characters"
        )
    if name in reserved:
        raise ConfigError(f"{name!r} cannot name {what}: snapshots of the system itself have that initiator")
    return name
