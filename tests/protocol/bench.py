"""A collector that is told its facts by hand, and what it ordered."""

from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    AnnounceEnd,
    ProcessEnded,
    ProcessJoined,
    RecordArrived,
    SnapshotWanted,
    StoreSnapshot,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record

FIRST = SnapshotId(1, "coordinator", 1)


class Bench:
    """`effects` are all so far."""

    def __init__(self, *processes, **options):
        self.collector = Collector(1, **options)
        self.effects = []
        for process in processes:
            self.tell(ProcessJoined(process))

    def tell(self, event):
        effects = self.collector.handle(event)
        self.effects += effects
        return effects

    def want(self):
        return self.tell(SnapshotWanted())

    def record(self, process, sent=None, received=None, *, snapshot=FIRST, transported=None, **more):
        sent = sent or {}
        transported = sent if transported is None else transported
        return self.tell(
            RecordArrived(
                Record(snapshot, process, sent=sent, transported=transported, received=received or {}, **more)
            )
        )

    def end(self, process, sent=None, received=None, *, unfinished=(), closed=None):
        none = SnapshotId(1, process, 0)
        sent = sent or {}
        last = Record(
            none,
            process,
            sent=sent,
            transported=sent,
            released=sent,
            received=received or {},
            ended=True,
            closed=closed or {},
        )
        return self.tell(ProcessEnded(last, unfinished))

    @property
    def cuts(self):
        return [effect.cut for effect in self.effects if isinstance(effect, StoreSnapshot)]

    @property
    def ends(self):
        return [effect for effect in self.effects if isinstance(effect, AnnounceEnd)]
