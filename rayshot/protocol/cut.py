"""Records, and the cut equation that proves them consistent.

Chandy and Lamport (1985, section 3.1) count on each channel the messages sent before the sender records (n) and
received before the receiver records (m), and require n >= m. A record stores both counters, so that consistency
can be checked from the data alone: first m <= n, then the channel's recorded messages are exactly m+1 .. n.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.errors import InconsistentCut
from rayshot.protocol.identity import Channel, SnapshotId


@dataclass(frozen=True, slots=True)
class Record:
    """One process's counters at the moment it recorded; its state travels beside it.

    All mappings count messages since the process's first life and are keyed by the other end of the channel.
    `transported[q] <= sent[q]`: up to there the receiver records the channel, above it the sender's outbox does.
    `environment[d]` is the n of a driver's channel, which its receiver fixes, as drivers never record.
    `born` is false while the constructor's message is not processed: such a process has no state.
    `ended` marks the last record of a process that ended by its own wish.
    """

    snapshot: SnapshotId
    process: str
    born: bool = True
    sent: Mapping[str, int] = field(default_factory=dict)
    transported: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ChannelCut:
    """Where a snapshot cuts one channel: messages received+1 .. sent were in flight.

    Of these the receiver records received+1 .. transported (its mailbox), the sender the rest (its outbox).
    """

    channel: Channel
    sent: int
    transported: int
    received: int

    def check(self) -> None:
        """Raise InconsistentCut unless 0 <= received <= transported <= sent.

        Without this an empty range would hide an orphan: a message received that was never sent.
        """
        if not 0 <= self.received <= self.transported <= self.sent:
            raise InconsistentCut(
                f"channel {self.channel}: {self.received} received, {self.transported} transported, {self.sent} sent",
                channel=tuple(self.channel),
                sent=self.sent,
                transported=self.transported,
                received=self.received,
            )


@dataclass(frozen=True, slots=True)
class Cut:
    """All records of a snapshot and the channels between them, checked.

    `channels` holds every channel that ever carried a message. `unborn` are the actors that exist only as messages
    still in flight to them.
    """

    snapshot: SnapshotId
    records: Mapping[str, Record]
    channels: tuple[ChannelCut, ...]
    unborn: tuple[str, ...]
