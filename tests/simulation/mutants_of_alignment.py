"""Mutants that break the rules of aligned snapshots."""

from rayshot.protocol import participant
from rayshot.protocol.effects import CaptureState
from rayshot.protocol.participant import Participant
from rayshot.protocol.recorder import Recorder
from tests.simulate import recovery
from tests.simulation.mutation import mutant, patched

ALIGNED = {"aligned": 4, "snapshots": 1, "alignment_timeouts": 0, "activity": 60}


@mutant("messages behind a marker are not held back", **ALIGNED)
class Unlimited(Participant):
    @property
    def limits(self):
        return {}


@mutant("an aligned snapshot is recorded with messages of its inputs unprocessed", **ALIGNED)
class RecordedTooEarly(Participant):
    def handle(self, event):
        effects = super().handle(event)
        return tuple(CaptureState(e.snapshot) if isinstance(e, CaptureState) else e for e in effects)


def aligned_behind_the_first_marker(self, closed_at, gone):
    ends = {**closed_at, **self.ends}
    if not self.waits or self.inputs is None or (self.inputs and not self.inputs & ends.keys()):
        return None
    return {sender: ends[sender] for sender in self.inputs & ends.keys()}


def all_inputs(channels):
    return {name: frozenset(s for s, receivers in channels.items() if name in receivers) for name in channels}


patched("one marker is enough", (Recorder, "aligned_behind", aligned_behind_the_first_marker), **ALIGNED)
patched("channels that lead back are awaited as well", (recovery, "forward_inputs", all_inputs), **ALIGNED)
patched("every input counts as aligned", (Recorder, "aligned", lambda self, *_: tuple(self.inputs or ())), aligned=4)
patched(
    "aligned snapshots send no markers by themselves",
    (participant, "spreads", lambda snapshot: snapshot.initiator not in ("coordinator", "aligned")),
    **ALIGNED,
)
