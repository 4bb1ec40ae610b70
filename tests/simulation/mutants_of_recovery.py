"""Mutants of how a system goes back by itself."""

from dataclasses import replace

from rayshot.protocol.recovery import Phase, Recovery
from rayshot.protocol.recovery_events import (
    LifeMarked,
    LogRefused,
    ProcessLoaded,
    ProcessLost,
)
from rayshot.simulation.world.coordination import CoordinatedNetwork
from rayshot.simulation.world.network import Network
from rayshot.simulation.world.packets import Packet
from rayshot.simulation.world.rollback import RollingBackNetwork
from tests.simulate.rollback import RollingBackWorld
from tests.simulate.settings import Slow
from tests.simulation.mutation import mutant, patched

FALLING = {"crashes": 4, "coordinator_crashes": 3, "store_failures_one_in": 3, "snapshots": 4, "crowded": True}
REPLACED = {"crashes": 6, "coordinator_crashes": 30, "crowded": False, "length": 200}
ENDING = {
    "ends_one_in": 2,
    "activity": 80,
    "length": 250,
    "crashes": 10,
    "coordinator_crashes": 0,
    "snapshots": 6,
    "slow": frozenset({Slow.TELL_PROCESS}),
}
DYING = {"crashes": 12, "coordinator_crashes": 0, "slow": frozenset({Slow.RESUME}), "length": 120}


@mutant("all go on when the first is loaded", **FALLING)
class Hasty(Recovery):
    def _process_loaded(self, event):
        self._waiting.intersection_update({event.process})
        return super()._process_loaded(event)


@mutant("a life goes on before its mark is written", **FALLING)
class Unmarked(Recovery):
    def _all_loaded(self):
        super()._all_loaded()
        return self.handle(LifeMarked(self.life))


@mutant("who takes over goes on with a life that has no mark", **FALLING)
class Trusting(Recovery):
    def _took_over(self, event):
        return super()._took_over(replace(event, marked=True))


@mutant("who takes over finishes the rollback of another coordinator", **FALLING)
class Finishing(Recovery):
    def _took_over(self, event):
        return super()._took_over(replace(event, lost=(), idle=False, marked=True))


@mutant("a loss before the life runs is forgotten", **DYING)
class Forgetful(Recovery):
    def _start_again(self, lost):
        return ()


@mutant("a loss while the mark is written is forgotten", **DYING)
class Deaf(Recovery):
    def _is_late(self, event):
        return (isinstance(event, ProcessLost) and self.phase is Phase.MARKING) or super()._is_late(event)


@mutant("what an earlier start loaded counts for a later one", **DYING)
class Startless(Recovery):
    def _is_late(self, event):
        if isinstance(event, ProcessLoaded):
            event = replace(event, start=self._starts.get(event.process, 1))
        return super()._is_late(event)


@mutant("what an earlier life loaded counts for a later one", **REPLACED)
class Lifeless(Recovery):
    def _is_late(self, event):
        return super()._is_late(replace(event, life=self.life) if isinstance(event, ProcessLoaded) else event)


@mutant("a log that refused the new life is not asked again", **FALLING)
class Resigned(Recovery):
    def _refused(self, event):
        return ()


@mutant("a life that the log refused is taken to have begun", **FALLING)
class Defiant(Recovery):
    def handle(self, event):
        if isinstance(event, LogRefused) and self.phase is Phase.WAITING:
            self.phase, self.detail = Phase.RUNNING, ""
            return ()
        return super().handle(event)


@mutant("who takes over knows no starts but the first", **{**DYING, "coordinator_crashes": 8, "length": 250})
class Ignorant(Recovery):
    def _is_late(self, event):
        is_newer = isinstance(event, ProcessLost) and event.start > self._starts.get(event.process, 1)
        return is_newer or super()._is_late(event)


# What is left of an earlier life --------------------------------------------------------------------

load, resend = RollingBackNetwork.on_load, Network.on_resend
detect, receiver_ended = RollingBackNetwork.on_detect, Network.on_receiver_ended


def load_beside_the_old(self, decider, order):
    old = self.processes.get(order.process)
    load(self, decider, order)
    if old is not None and old is not self.processes[order.process]:
        vars(self).setdefault("old", {})[order.process] = old


def resend_with_the_present_stamp(self, sender, receiver, incarnation, first):
    old = vars(self).get("old", {}).get(sender)
    messages = old.flight[receiver].get(first, ()) if old is not None and incarnation < self.incarnation else ()
    if messages:
        self.transmit(Packet(sender, receiver, self.processes[sender].incarnation, first, messages))
    else:
        resend(self, sender, receiver, incarnation, first)


patched(
    "a timer of an old process sends again with the stamp of the present life",
    (RollingBackNetwork, "on_load", load_beside_the_old),
    (Network, "on_resend", resend_with_the_present_stamp),
    **DYING,
)


def receiver_ended_in_any_life(self, sender, receiver, incarnation):
    receiver_ended(self, sender, receiver, self.incarnation)


patched(
    "that a receiver ended in an earlier life counts for this one",
    (Network, "on_receiver_ended", receiver_ended_in_any_life),
    **ENDING,
)


def detect_by_name(self, process):
    unwatched = vars(self).setdefault("unwatched", set())
    if self.processes[process.name] is not process:
        unwatched.add(process.name)
    elif process.name in unwatched:
        unwatched.discard(process.name)
        return
    detect(self, process)


patched(
    "the watch of a new process ends with that of the old one of its name",
    (RollingBackNetwork, "on_detect", detect_by_name),
    **DYING,
)


# The choice -----------------------------------------------------------------------------------------


def newest_but_one(self):
    """Otherwise the newest."""
    advancing = [commit for commit in self.commits if commit.stored.cut.advances]
    return next(iter(advancing[-2:]), None)


patched(
    "a snapshot of a coordinator that was replaced is stored",
    (CoordinatedNetwork, "is_fenced", lambda *_: False),
    **REPLACED,
)
patched(
    "retention deletes the snapshot to go back to",
    (RollingBackWorld, "target", newest_but_one),
    **{**DYING, "drivers": 2},
)
