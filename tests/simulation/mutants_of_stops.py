"""Mutants that break the rules of snapshots for which the world stops."""

from rayshot.protocol.collector import Collector
from rayshot.protocol.participant import Participant
from rayshot.protocol.recorder import Recorder
from tests.simulation.mutation import mutant, patched

STOPPED = {"stopped": 3, "snapshots": 1, "activity": 60}


@mutant("handlers run in a stopped world", **STOPPED)
class Unpaused(Participant):
    @property
    def paused(self):
        return False


patched(
    "a process says that it is quiet while messages are under way",
    (Recorder, "falls_quiet", lambda self, *_: self.last_sent is not None),
    **STOPPED,
)


@mutant("the first who is quiet lets all record", **STOPPED)
class OneIsEnough(Collector):
    def _fall_quiet(self, snapshot, process):
        self._open[snapshot].loud &= {process}
        return super()._fall_quiet(snapshot, process)


@mutant("nobody is told that all are quiet", **STOPPED)
class NeverQuiet(Collector):
    def _fall_quiet(self, snapshot, process):
        return ()
