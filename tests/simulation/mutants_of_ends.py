"""Mutants of what happens when processes and coordinators end, and others begin."""

from dataclasses import replace

from rayshot.protocol import assembly
from rayshot.protocol import collector as collector_module
from rayshot.protocol.collector import Collector
from rayshot.protocol.cut import Cut
from rayshot.protocol.events import ReceiverEnded
from rayshot.protocol.participant import Participant
from rayshot.simulation.world.process import Process
from tests.simulate.settings import Slow
from tests.simulation.mutation import mutant, patched

TAKEN_OVER = {"coordinator_crashes": 2, "snapshots": 2, "aborts": 2}
ENDING = {"ends_one_in": 3, "activity": 60, "length": 200}


# Coordinators ---------------------------------------------------------------------------------------


@mutant("two snapshots are stored at once, each compared with the one before both")
class TwoAtOnce(Collector):
    def _try_complete(self, snapshot):
        others = [c for k, c in self._open.items() if k != snapshot and c.storing]
        cuts = [collection.storing for collection in others]
        for collection in others:
            collection.storing = None
        own = self._open.get(snapshot)
        effects = super()._try_complete(snapshot) if own and not own.storing else ()
        for collection, cut in zip(others, cuts, strict=True):
            collection.storing = cut
        return effects


@mutant("what a dead driver had sent does not count when cuts are compared", driver_deaths=2, drivers=2, snapshots=4)
class DeadDriversDoNotCount(Collector):
    def _make_cut(self, snapshot, records, channels):
        cut = super()._make_cut(snapshot, records, channels)
        if cut.advances or self._newest is None:
            return cut
        older = {name: replace(record, closed={}) for name, record in self._newest.records.items()}
        return replace(cut, advances=Cut.contains(cut, replace(self._newest, records=older)))


@mutant("the snapshots of a lost coordinator are never ended")
class NeverLost(Collector):
    def _lose(self, snapshot):
        return ()


@mutant("a successor counts its snapshots from 1 again", **TAKEN_OVER)
class CountsFromOne(Collector):
    def __init__(self, incarnation, floor=0, ended=(), stored=()):
        super().__init__(incarnation, 0, ended, stored)


# Processes that end ---------------------------------------------------------------------------------


@mutant("a sender that ended is taken to have sent one message more", aligned=3, alignment_timeouts=0, **ENDING)
class ClosedOneTooHigh(Participant):
    def _hear(self, batch):
        return super()._hear(replace(batch, first=batch.first + 1) if batch.closing else batch)


@mutant(
    "the end of a receiver does not count as quiet",
    stopped=3,
    slow=frozenset({Slow.TELL_PROCESS, Slow.DELIVER}),
    **ENDING,
)
class EndIsNotQuiet(Participant):
    def handle(self, event):
        if isinstance(event, ReceiverEnded) and not self._ended:
            self._out.pop(event.receiver, None)
            self._gone.add(event.receiver)
            return self._try_to_align(event.receiver)
        return super().handle(event)


cut_channels = assembly.cut_channels


def channels_from_the_living(records, ended):
    return [cut for cut in cut_channels(records, ended) if cut.channel.sender not in ended]


def channels_from_those_whose_last_records_are_there(records, ended):
    found = cut_channels(records, ended)
    return [cut for cut in found if cut.channel.sender not in ended or cut.channel.sender in records]


patched("channels from the ended are left out", (collector_module, "cut_channels", channels_from_the_living), **ENDING)
patched(
    "channels from those who ended long ago are left out",
    (collector_module, "cut_channels", channels_from_those_whose_last_records_are_there),
    snapshots=6,
    slow=frozenset({Slow.WORK, Slow.DELIVER}),
    **ENDING,
)


# Processes that join --------------------------------------------------------------------------------

AT_WORK = (Process, "is_quiet", property(lambda self: not self.alive or self.loading or self.ended))
MANY_JOIN = {"drivers": 2, "slow": frozenset({Slow.TELL_COORDINATOR, Slow.TELL_PROCESS})}
patched(
    "a process works before it has joined",
    AT_WORK,
    contacts={"p0": (), "p1": (), "p2": ()},
    crashes=0,
    coordinator_crashes=0,
    snapshots=25,
    activity=200,
    length=300,
    creations_one_in=4,
    **MANY_JOIN,
)


def nobody(record, ended):
    return set()


patched(
    "who sent what was received is not looked for",
    AT_WORK,  # while all join before they work, it is there anyhow
    (assembly, "_heard", nobody),
    not_by="driver causality",
    snapshots=4,
    activity=40,
    creations_one_in=2,
    **MANY_JOIN,
)
