"""Mutants that break the rule of what senders keep for their records."""

from dataclasses import replace
from unittest import mock

from rayshot.protocol import participant
from rayshot.protocol.participant import Participant
from rayshot.simulation.world.network import Network
from rayshot.simulation.world.process import Process
from tests.simulate.settings import Slow
from tests.simulation.mutation import mutant, patched

ALONE = {
    "alone": 4,
    **dict.fromkeys(("creations_one_in", "ends_one_in", "crashes", "coordinator_crashes", "aborts", "deadlines"), 0),
}
SLOW_NEWS = frozenset({Slow.TELL_PROCESS, Slow.WORK})  # processes record late: it is acknowledgements that tell them


@mutant("acknowledgements are not tagged")
class Untagged(Participant):
    @property
    def recorded_snapshots(self):
        return ()


@mutant("the tag of a snapshot is dropped when it is given up", deadlines=8, snapshots=6, slow=SLOW_NEWS)
class AbandonedUntagged(Participant):
    @property
    def recorded_snapshots(self):
        return tuple(k for k in super().recorded_snapshots if not self._recorders[k].abandoned)


@mutant("the tags of acknowledgements are ignored")
class TagsIgnored(Participant):
    def _batch_acknowledged(self, answer):
        return super()._batch_acknowledged(replace(answer, recorded=()))


@mutant("a process learns of a snapshot from an acknowledgement and keeps nothing for it")
class LearnsAndKeepsNothing(Participant):
    def _batch_acknowledged(self, answer):
        effects = super()._batch_acknowledged(answer)
        for channel in self._out.values():
            channel.kept_from.clear()
        return effects


@mutant("messages are kept from behind the acknowledgement that told of the recording")
class KeptFromBehind(Participant):
    def _batch_acknowledged(self, answer):
        channel = self._out.get(answer.receiver)
        before = set(channel.kept_from) if channel else set()
        effects = super()._batch_acknowledged(answer)
        if channel:
            channel.kept_from.update((k, channel.acknowledged) for k in channel.kept_from.keys() - before)
        return effects


@mutant("each tagged acknowledgement releases what the one before it covered")
class KeptFromMovesOn(Participant):
    def _batch_acknowledged(self, answer):
        if channel := self._out.get(answer.receiver):
            channel.kept_from.clear()
        return super()._batch_acknowledged(answer)


@mutant("of several snapshots messages are kept for one only", snapshots=6, slow=SLOW_NEWS)
class KeptForOne(Participant):
    def _batch_acknowledged(self, answer):
        effects = super()._batch_acknowledged(answer)
        for channel in self._out.values():
            while len(channel.kept_from) > 1:
                channel.kept_from.popitem()
        return effects


@mutant("what is kept for a snapshot is not released when it ends")
class NeverReleased(Participant):
    def _release(self, snapshot):
        pass


def release_acknowledged(self, receiver):
    acknowledged, flight = self.machine.acknowledged(receiver), self.flight[receiver]
    for first in [first for first, messages in flight.items() if first + len(messages) - 1 <= acknowledged]:
        del flight[first]


on_acknowledge = Network.on_acknowledge


def on_acknowledge_of_two_moments(self, acknowledgement):
    receiver = self.processes.get(acknowledgement.receiver)
    if receiver is not None and receiver.incarnation == acknowledgement.incarnation:
        acknowledgement = acknowledgement._replace(last=receiver.machine.arrived(acknowledgement.sender))
    on_acknowledge(self, acknowledgement)


acknowledged = Process.acknowledged


def acknowledged_without_effects(self, acknowledgement):
    with mock.patch.object(self, "tell", self.machine.handle):
        acknowledged(self, acknowledgement)


patched("what an acknowledgement orders is not done", (Process, "acknowledged", acknowledged_without_effects))
patched("messages are dropped when they are acknowledged", (Process, "_release", release_acknowledged))
patched(
    "an acknowledgement's number is of a later moment than its tags",
    (Network, "on_acknowledge", on_acknowledge_of_two_moments),
    snapshots=6,
    slow=frozenset({Slow.ACKNOWLEDGE, Slow.TELL_PROCESS}),
)


@mutant("a receiver that says hello late gets no marker by itself", activity=0, slow=frozenset({Slow.CONNECT}), **ALONE)
class NoMarkerAtHello(Participant):
    def _receiver_ready(self, receiver):
        self._channel_to(receiver).ready = True
        return ()


patched(
    "no marker goes by itself",
    (participant, "spreads", lambda _: False),
    **ALONE,
)
