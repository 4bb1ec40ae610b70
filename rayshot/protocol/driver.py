"""The machine of a driver: a process outside the system that sends into it (the environment of the 1985 paper).

A driver never records. The receiver fixes the cut of a driver's channel: the highest number that arrived without a
gap. A driver has two duties. (a) It passes on the news of snapshots: an answer may show effects from behind a cut, so
everything that the driver sends afterwards carries the answer's tags. (b) It keeps messages that no durable snapshot
covers, because a rollback throws them away: then it sends everything behind the restored cut again, under the same
numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded, SnapshotEnded
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.tombstones import Tombstones

ENDED_KEPT_MAX = 1000
"""A driver remembers the ends of this many snapshots. It is seldom told of floors. If it forgets an end, it is like a
driver that was never told: it passes the tag on. The receiver decides for itself, and tells the driver of the end."""


@dataclass(frozen=True, slots=True)
class AnswerArrived:
    """An answer came from a process; `tags` are the snapshots that were open there."""

    tags: tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class CutCommitted:
    """A durable snapshot that advances holds all messages up to these numbers, keyed by receiver.

    Messages to `ended` processes that were not processed stay dead letters for ever.
    """

    snapshot: SnapshotId
    sent: Mapping[str, int]
    ended: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The system went back to a cut: a new incarnation begins, in which these numbers of this driver are known.

    The `ended` processes have ended in it, and nothing is sent to them again.
    """

    incarnation: int
    sent: Mapping[str, int]
    ended: frozenset[str] = frozenset()


DriverEvent = BatchTaken | BatchAcknowledged | ReceiverEnded | SnapshotEnded | AnswerArrived | CutCommitted | RolledBack


@dataclass(frozen=True, slots=True)
class SendTagged:
    """Transport messages `first` .. `first + count - 1` under this incarnation with these tags."""

    receiver: str
    incarnation: int
    first: int
    count: int
    tags: tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class ReleaseMessages:
    """Messages up to `last` are no longer needed."""

    receiver: str
    last: int


DriverEffect = SendTagged | ReleaseMessages


@dataclass(slots=True)
class _Channel:
    """`released <= acknowledged <= transported`: messages above `released` are kept for a rollback."""

    transported: int = 0
    acknowledged: int = 0
    released: int = 0


@dataclass(slots=True)
class Driver:
    """The machine of one driver. `handle` is its only mutator."""

    name: str
    incarnation: int = 1
    _channels: dict[str, _Channel] = field(default_factory=dict)
    _tags: dict[SnapshotId, None] = field(default_factory=dict)
    _tombstones: Tombstones = field(default_factory=lambda: Tombstones(ENDED_KEPT_MAX))

    def unacknowledged(self, receiver: str) -> int:
        """How many transported messages `receiver` has not acknowledged."""
        channel = self._channels.get(receiver)
        return channel.transported - channel.acknowledged if channel else 0

    @property
    def tags(self) -> tuple[SnapshotId, ...]:
        """The open snapshots whose effects this driver may have seen: messages that it sends now must carry them."""
        return tuple(self._tags)

    def handle(self, event: DriverEvent) -> tuple[DriverEffect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        match event:
            case BatchTaken(receiver, count):
                channel = self._channels.setdefault(receiver, _Channel())
                first = channel.transported + 1
                channel.transported += count
                return (SendTagged(receiver, self.incarnation, first, count, self.tags),)
            case BatchAcknowledged(receiver, last):
                channel = self._channels.setdefault(receiver, _Channel())
                channel.acknowledged = max(channel.acknowledged, last)
                return ()
            case ReceiverEnded(receiver):  # only to a driver that does not outlive the life: a rollback may undo an end
                self._channels.pop(receiver, None)
                return ()
            case AnswerArrived(tags):
                self._tags.update((tag, None) for tag in tags if self._is_news(tag))
                return ()
            case SnapshotEnded(snapshot, floor):
                self._end(snapshot, floor)
                return ()
            case CutCommitted(snapshot, sent, ended):
                self._end(snapshot, 0)
                return tuple(self._release(sent, ended))
            case RolledBack():
                return tuple(self._roll_back(event)) if event.incarnation > self.incarnation else ()
            case _:
                assert_never(event)

    def _is_news(self, tag: SnapshotId) -> bool:
        return tag.incarnation == self.incarnation and tag not in self._tombstones

    def _end(self, snapshot: SnapshotId, floor: int) -> None:
        if snapshot.incarnation == self.incarnation:
            self._tombstones.add(snapshot)
            self._tombstones.raise_floor(snapshot.initiator, floor)
            self._tags = {tag: None for tag in self._tags if tag not in self._tombstones}

    def _release_ended(self, ended: frozenset[str]) -> list[DriverEffect]:
        """Release all that was sent to ended processes; their channels stay, so that no number is used twice."""
        effects: list[DriverEffect] = []
        for receiver, channel in self._channels.items():
            if receiver in ended and channel.transported > channel.released:
                channel.released = channel.acknowledged = channel.transported
                effects.append(ReleaseMessages(receiver, channel.transported))
        return effects

    def _release(self, sent: Mapping[str, int], ended: frozenset[str]) -> list[DriverEffect]:
        effects = self._release_ended(ended)
        for receiver, n in sent.items():
            channel = self._channels.get(receiver)
            if channel is not None and n > channel.released:
                channel.released = n
                effects.append(ReleaseMessages(receiver, n))
        return effects

    def _roll_back(self, back: RolledBack) -> list[DriverEffect]:
        self.incarnation = back.incarnation
        self._tags.clear()
        self._tombstones = Tombstones(ENDED_KEPT_MAX)
        effects = self._release_ended(back.ended)
        for receiver, channel in self._channels.items():
            if receiver in back.ended:
                continue
            n = back.sent.get(receiver, 0)
            assert channel.released <= n, f"{receiver} went back to {n}, {channel.released} are released already"
            channel.acknowledged = n
            if channel.transported > n:
                effects.append(SendTagged(receiver, back.incarnation, n + 1, channel.transported - n, ()))
        return effects
