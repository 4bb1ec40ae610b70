"""Records, and the cut equation that proves them consistent.

Chandy and Lamport (1985, section 3.1) count on each channel the messages sent before the sender records (n) and
received before the receiver records (m), and require n >= m. A record stores both counters, so that consistency
can be checked from the data alone: first m <= n, then the channel's recorded messages are exactly m+1 .. n.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.errors import InconsistentCut
from rayshot.protocol.identity import Channel, SnapshotId, is_driver


@dataclass(frozen=True, slots=True)
class Record:
    """One process's counters at the moment it recorded; its state travels beside it.

    All mappings count messages since the process's first life and are keyed by the other end of the channel.
    `released[q] <= transported[q] <= sent[q]`: q had acknowledged up to `released` before it recorded, so it had that
    then; with the record lie released+1 .. sent, transported or not. `arrived[p]`: the mailbox's messages received+1 ..
    arrived of sender p lie with the record; p is left out where it holds none.
    `environment[d]` is the n of a driver's channel, which its receiver fixes, as drivers never record. So is
    `closed[p]` of a channel whose sender p has ended or, being a driver, has died: nothing will follow on it.
    `born` is false while the constructor's message is not processed: such a process has no state.
    `ended` marks the last record of a process that ended by its own wish.
    `aligned` are the inputs of an aligned snapshot of which all was processed that was sent before their markers.
    `overlaps` are the snapshots that this process had recorded before and whose end it did not know.
    `forgotten` counts the dead drivers whose counters this process had forgotten in this life.

    No record can be built in which that is not so, or `received[p]` is above `arrived`, `closed` or `environment` of p.
    """

    snapshot: SnapshotId
    process: str
    born: bool = True
    sent: Mapping[str, int] = field(default_factory=dict)
    transported: Mapping[str, int] = field(default_factory=dict)
    released: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False
    closed: Mapping[str, int] = field(default_factory=dict)
    overlaps: tuple[SnapshotId, ...] = ()
    aligned: tuple[str, ...] = ()
    arrived: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0

    def __post_init__(self) -> None:
        sent, transported, received = self.sent, self.transported, self.received
        for q, n in self.released.items():
            assert 0 <= n <= transported.get(q, 0) <= sent.get(q, 0), f"released {n}, {self} to {q!r}"
        for ends in (self.arrived, self.closed, self.environment):
            for p, n in ends.items():
                assert 0 <= received.get(p, 0) <= n, f"received {received.get(p, 0)}, {self} from {p!r}"

    @property
    def sent_by_drivers(self) -> dict[str, int]:
        """The n of the channels from drivers, be they alive or dead."""
        return {**self.environment, **{sender: n for sender, n in self.closed.items() if is_driver(sender)}}

    @property
    def past_drivers(self) -> frozenset[str]:
        """The dead drivers of whose messages none was in flight: this process had processed all that it took."""
        received = self.received
        return frozenset(d for d, n in self.closed.items() if is_driver(d) and received.get(d, 0) == n)


def last_record(
    none: SnapshotId, process: str, sent: Mapping[str, int], received: Mapping[str, int], closed: Mapping[str, int]
) -> Record:
    """The record of a process that ends, of no snapshot: all that it sent has arrived."""
    return Record(
        none,
        process,
        sent=sent,
        transported=sent,
        released=sent,
        received=dict(received),
        ended=True,
        closed=dict(closed),
    )


@dataclass(frozen=True, slots=True)
class ChannelCut:
    """Where a snapshot cuts one channel: messages received+1 .. sent were in flight.

    Of these received+1 .. arrived lay in the receiver's mailbox and come with its record, the rest with the sender's.
    Raises InconsistentCut unless 0 <= received <= arrived <= sent: an empty range would hide an orphan, a message that
    was received and never sent.
    """

    channel: Channel
    sent: int
    arrived: int
    received: int

    def __post_init__(self) -> None:
        if not 0 <= self.received <= self.arrived <= self.sent:
            raise InconsistentCut(
                f"channel {self.channel}: {self.received} received, {self.arrived} arrived, {self.sent} sent",
                channel=tuple(self.channel),
                sent=self.sent,
                arrived=self.arrived,
                received=self.received,
            )


@dataclass(frozen=True, slots=True)
class Cut:
    """All records of a snapshot and the channels between them, checked.

    `records` are those of the living members. `channels` holds every channel that ever carried a message, except to
    processes that have ended (dead letters) and from such as have ended and of whose messages none is left.
    `unborn` are the actors that exist only as messages still in flight to them. `ended` are the names of all that
    ended before the cut, in this incarnation or an earlier one: they must never be taken for unborn again.

    `advances` says that the cut lies nowhere before the newest stored one that advances. Of two snapshots that
    overlapped neither need lie behind the other; a system rolls back only to the newest that advances, and only such
    a one lets drivers and sinks let go of what it covers, so that nothing let go of is ever needed again.
    """

    snapshot: SnapshotId
    records: Mapping[str, Record]
    channels: tuple[ChannelCut, ...]
    unborn: tuple[str, ...]
    ended: tuple[str, ...] = ()
    advances: bool = True

    def contains(self, older: "Cut") -> bool:
        """Whether no process stands before the place where `older` has it; compares counters, as ids tell nothing."""
        return all(self._reaches(name, record) for name, record in older.records.items())

    def _reaches(self, name: str, older: Record) -> bool:
        if name in self.ended:
            return True
        mine = self.records.get(name)
        if mine is None:
            return False
        past: frozenset[str] = frozenset()
        if mine.forgotten > older.forgotten:  # so it recorded later, and the drivers that it does not know are past
            past = frozenset(older.sent_by_drivers.keys() - mine.sent_by_drivers.keys())
        return (
            all(mine.received.get(sender, 0) >= m or sender in past for sender, m in older.received.items())
            and all(mine.sent.get(receiver, 0) >= n or receiver in self.ended for receiver, n in older.sent.items())
            and all(mine.sent_by_drivers.get(d, 0) >= n or d in past for d, n in older.sent_by_drivers.items())
        )
