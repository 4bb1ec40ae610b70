"""The cut equation, which proves that the records of a snapshot are consistent.

Chandy and Lamport (1985, section 3.1) count on each channel the messages sent before the sender records (n) and
received before the receiver records (m), and require n >= m. A record stores both counters, so that consistency
can be checked from the data alone: first m <= n, then the channel's recorded messages are exactly m+1 .. n.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rayshot.errors import InconsistentCut
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.protocol.record import Record


@dataclass(frozen=True, slots=True)
class ChannelCut:
    """Where a snapshot cuts one channel: messages received+1 .. sent were in flight.

    Of these, received+1 .. arrived were in the receiver's mailbox and come with its record; the rest come with the
    sender's. Raises InconsistentCut unless 0 <= received <= arrived <= sent: an empty range would hide an orphan, a
    message that was received but never sent. `owed` are the numbers of the sender's calls, of those received, that are
    not answered, if the sender is a driver: answers to actors are messages.
    """

    channel: Channel
    sent: int
    arrived: int
    received: int
    owed: tuple[int, ...] = ()

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
