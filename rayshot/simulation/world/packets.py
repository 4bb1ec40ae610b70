"""What travels between processes, and what is stored in the end; messages and states are opaque."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rayshot.protocol.cut import Cut
from rayshot.protocol.events import Marker
from rayshot.protocol.identity import Channel, SnapshotId


class Packet(NamedTuple):
    """A batch on its way. Without messages it brings markers, or says that its sender ends."""

    sender: str
    receiver: str
    incarnation: int
    first: int
    messages: tuple[Any, ...]
    markers: tuple[Marker, ...] = ()
    tags: tuple[SnapshotId, ...] = ()
    closing: bool = False

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.first + len(self.messages) - 1

    def __str__(self) -> str:
        what = f"{self.first}..{self.last}" if self.messages else "end" if self.closing else "-"
        news = "".join(f" {m.snapshot}({m.sent})" for m in self.markers)
        tags = "".join(f" tag {tag}" for tag in self.tags)
        return f"{self.sender} -> {self.receiver} i{self.incarnation} {what}{news}{tags}"


class Acknowledgement(NamedTuple):
    """The receiver has all up to `last`, and the packet's markers; `recorded` are the snapshots it had recorded."""

    sender: str
    receiver: str
    incarnation: int
    last: int
    markers: tuple[SnapshotId, ...]
    recorded: tuple[SnapshotId, ...]
    closing: bool

    def __str__(self) -> str:
        news = "".join(f" recorded {k}" for k in self.recorded)
        return f"{self.receiver} has {self.last} of {self.sender} {' '.join(map(str, self.markers))}{news}"


@dataclass(frozen=True, slots=True)
class RecordContents:
    """What a process adds to its record: its state (None before birth), and messages by the other end."""

    state: Any
    outboxes: dict[str, tuple[Any, ...]]
    mailbox: dict[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Load:
    """What a process is restored from: all counters of its channels at the cut, and the messages in flight to it."""

    incarnation: int
    sent: dict[str, int]
    arrived: dict[str, int]
    received: dict[str, int]
    mailbox: dict[str, tuple[Any, ...]]
    ended: frozenset[str]


@dataclass(frozen=True, slots=True)
class StoredCut:
    """A snapshot's contents: the cut, each member's state (None before birth), each channel's messages in flight."""

    cut: Cut
    states: Mapping[str, Any]
    messages: Mapping[Channel, tuple[Any, ...]]
