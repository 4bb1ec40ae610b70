"""Records, and the cut equation that proves them consistent.

Chandy and Lamport (1985, section 3.1) count on each channel the messages sent before the sender records (n) and
received before the receiver records (m), and require n >= m. A record stores both counters, so that consistency
can be checked from the data alone: first m <= n, then the channel's recorded messages are exactly m+1 .. n.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.errors import InconsistentCut
from rayshot.protocol.identity import Channel, SnapshotId, is_driver, label_of


@dataclass(frozen=True, slots=True)
class Record:
    """One process's counters at the moment it recorded; its state travels beside it.

    All mappings count messages since the process's first life; their keys are the other ends of the channels.
    `released[q] <= transported[q] <= sent[q]`: q acknowledged up to `released` before it recorded, so q had these
    messages by then; the messages released+1 .. sent, transported or not, come with the record. `arrived[p]`: the
    messages received+1 .. arrived of sender p, in the mailbox, come with the record; p is left out if there are none.
    `environment[d]` is the n of a driver's channel; the receiver fixes it, as drivers never record. The receiver also
    fixes `closed[p]`, for a sender p that has ended or is a driver that died: nothing will follow on that channel.
    `born` is false while the constructor's message is not processed: such a process has no state.
    `ended` marks the last record of a process that ended by its own wish.
    `aligned` are the inputs of an aligned snapshot with every message processed that was sent before their markers.
    `overlaps` are the snapshots that this process had recorded before without knowing their end.
    `forgotten` counts the dead drivers whose counters this process had forgotten in this life.

    A record that breaks these rules cannot be built, nor one with `received[p]` above p's `arrived`, `closed` or
    `environment`.
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
        """The n of the channels from drivers, alive or dead."""
        return {**self.environment, **{sender: n for sender, n in self.closed.items() if is_driver(sender)}}

    @property
    def past_drivers(self) -> frozenset[str]:
        """The dead drivers with no message in flight: this process had processed everything that it took from them.

        The numbers of programs with a name are not among them: they are kept, so that the next process of the program
        knows what was told.
        """
        received = self.received
        dead = (d for d, n in self.closed.items() if is_driver(d) and received.get(d, 0) == n)
        return frozenset(driver for driver in dead if not label_of(driver))


def last_record(
    none: SnapshotId, process: str, sent: Mapping[str, int], received: Mapping[str, int], closed: Mapping[str, int]
) -> Record:
    """The last record of a process that ends, for no snapshot: all that the process sent has arrived."""
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

    Of these, received+1 .. arrived were in the receiver's mailbox and come with its record; the rest come with the
    sender's. Raises InconsistentCut unless 0 <= received <= arrived <= sent: an empty range would hide an orphan, a
    message that was received but never sent.
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

    `records` are the records of the living members. `channels` holds every channel that ever carried a message, except
    channels to ended processes (dead letters) and channels from ended processes with no message left in flight.
    `unborn` are the actors that exist only as messages still in flight to them. `ended` are the names of all processes
    that ended before the cut, in this incarnation or an earlier one: they must never be taken for unborn again.

    `advances` says that the cut is nowhere before the newest stored cut that advances. If two snapshots overlapped,
    neither need be behind the other. A system rolls back only to the newest cut that advances, and only such a cut lets
    drivers and sinks release what it covers. So nothing released is ever needed again.
    """

    snapshot: SnapshotId
    records: Mapping[str, Record]
    channels: tuple[ChannelCut, ...]
    unborn: tuple[str, ...]
    ended: tuple[str, ...] = ()
    advances: bool = True

    def contains(self, older: "Cut") -> bool:
        """Whether no process is before its place in `older`; compares counters, as ids say nothing about order."""
        return all(self._reaches(name, record) for name, record in older.records.items())

    def _reaches(self, name: str, older: Record) -> bool:
        if name in self.ended:
            return True
        mine = self.records.get(name)
        if mine is None:
            return False
        past: frozenset[str] = frozenset()
        if mine.forgotten > older.forgotten:  # so it recorded later, and drivers that it does not know are past
            past = frozenset(older.sent_by_drivers.keys() - mine.sent_by_drivers.keys())
        return (
            all(mine.received.get(sender, 0) >= m or sender in past for sender, m in older.received.items())
            and all(mine.sent.get(receiver, 0) >= n or receiver in self.ended for receiver, n in older.sent.items())
            and all(mine.sent_by_drivers.get(d, 0) >= n or d in past for d, n in older.sent_by_drivers.items())
        )
