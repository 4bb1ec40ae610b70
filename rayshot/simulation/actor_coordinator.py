"""The coordinator of simulated actors: drives a Collector, and makes snapshots of what the records hold."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol, assert_never

from rayshot.errors import InconsistentCut
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import (
    AnnounceEnd,
    CollectorEvent,
    SendBegin,
    SnapshotStored,
    StoreSnapshot,
)
from rayshot.protocol.collector import Collector
from rayshot.protocol.cut import ChannelCut, Cut, Record
from rayshot.protocol.events import Begun
from rayshot.protocol.identity import STOPPED, Channel, SnapshotId
from rayshot.simulation.actor_packet import RecordContent
from rayshot.simulation.world_snapshot import RecordedActor, RecordedChannel, WorldSnapshot


class Surroundings(Protocol):
    """What a coordinator asks of its world."""

    system: str

    def clock(self) -> float:
        """Virtual time in seconds."""

    def begin(self, process: str, begun: Begun) -> None:
        """Tell a process to record."""

    def everybody_recorded(self, snapshot: SnapshotId) -> None:
        """Tell all processes so."""

    def committed(self, snapshot: WorldSnapshot) -> None:
        """A snapshot is complete."""

    def announce(self, end: AnnounceEnd) -> None:
        """Tell everybody that a snapshot ended."""


class ActorCoordinator:
    """See the module. A snapshot is stored as soon as it is complete: nothing can happen to it here."""

    def __init__(self, world: Surroundings, incarnation: int, ended: Iterable[str] = ()) -> None:
        self.collector = Collector(incarnation, 0, ended)
        self._world = world
        self._contents: dict[SnapshotId, dict[str, RecordContent]] = defaultdict(dict)

    def keep(self, record: Record, content: RecordContent) -> None:
        """Hold safely what came with a record, before the collector hears of it."""
        self._contents[record.snapshot].setdefault(record.process, content)

    def tell(self, event: CollectorEvent) -> None:
        """Give the collector a fact and do what follows."""
        for effect in self.collector.handle(event):
            match effect:
                case SendBegin(process, snapshot, floor, inputs, quiet):
                    self._world.begin(process, Begun(snapshot, floor, inputs, quiet))
                case StoreSnapshot(cut):
                    if cut.snapshot.initiator == STOPPED:
                        self._world.everybody_recorded(cut.snapshot)
                    self._world.committed(self._assemble(cut))
                    self.tell(SnapshotStored(cut.snapshot))
                case AnnounceEnd(snapshot, reason, detail):
                    self._contents.pop(snapshot, None)
                    if reason is AbortReason.INCONSISTENT:
                        raise InconsistentCut(f"{snapshot}: {detail}", snapshot=str(snapshot))
                    self._world.announce(effect)
                case _:
                    assert_never(effect)

    def _assemble(self, cut: Cut) -> WorldSnapshot:
        contents = self._contents[cut.snapshot]
        actors = {name: RecordedActor(contents[name].specification, contents[name].state) for name in cut.records}
        actors |= {name: RecordedActor(None, None) for name in cut.unborn}
        channels = {of.channel: self._channel(of, contents) for of in cut.channels}
        return WorldSnapshot(
            cut.snapshot,
            self._world.system,
            actors,
            dict(sorted(channels.items())),
            cut.ended,
            cut.advances,
            self._world.clock(),
        )

    def _channel(self, of: ChannelCut, contents: dict[str, RecordContent]) -> RecordedChannel:
        """Of each channel the receiver's mailbox, then what the sender has behind that."""
        sender, receiver = of.channel
        waiting, behind = of.arrived - of.received, of.sent - of.arrived
        mailbox = contents[receiver].mailboxes.get(sender, ())[:waiting] if receiver in contents else ()
        outbox = contents[sender].outboxes.get(receiver, ()) if sender in contents else ()
        bodies = (*mailbox, *outbox[len(outbox) - behind :]) if behind else mailbox
        return RecordedChannel(Channel(sender, receiver), of.sent, of.received, bodies)
