"""The runs that several tests look at."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from rayshot.protocol.participant import Participant
from rayshot.simulation.world.machines import Machines
from tests.simulate.acceptance import Acceptance
from tests.simulate.schedule import Summary, add, run_seed

SCHEDULES = 10_000
WATCHED = 5_000
KEPT = 1_000


@dataclass
class Volume:
    """The schedules of the first seeds: all together, and the outcomes of the first of them, in their order.

    `senders` counts what processes did as senders in the WATCHED first.
    """

    summary: Summary = field(default_factory=Summary)
    acceptance: Acceptance = field(default_factory=Acceptance)
    senders: Counter = field(default_factory=Counter)
    outcomes: list = field(default_factory=list)


@pytest.fixture(scope="session")
def volume():
    """The schedules that `make test` runs."""
    volume = Volume()
    senders = volume.senders

    class Watched(Participant):
        def _batch_acknowledged(self, answer):
            known, released = self.open_snapshots, self.released(answer.receiver)
            effects = super()._batch_acknowledged(answer)
            senders["tagged acknowledgements"] += bool(answer.recorded)
            senders["snapshots learned from acknowledgements"] += len(self.open_snapshots) - len(known)
            behind = self.acknowledged(answer.receiver) > self.released(answer.receiver)
            senders["acknowledgements that kept messages"] += behind
            assert self.released(answer.receiver) >= released or answer.receiver in self._gone
            return effects

        def _make_record(self, captured, recorder):
            kept = {receiver: dict(channel.kept_from) for receiver, channel in self._out.items()}
            record = super()._make_record(captured, recorder)
            for receiver, released in record.released.items():
                senders["channels recorded with messages under way"] += released < record.transported[receiver]
                senders["channels recorded with acknowledged messages"] += released < self.acknowledged(receiver)
                senders["channels that kept for several snapshots"] += len(kept.get(receiver, ())) > 1
            return record

        def _abandon(self, snapshot):
            senders["snapshots given up with messages kept"] += any(snapshot in c.kept_from for c in self._out.values())
            return super()._abandon(snapshot)

        def _forget(self, snapshot):
            senders["snapshots ended with messages kept"] += any(snapshot in c.kept_from for c in self._out.values())
            return super()._forget(snapshot)

        def _restored(self, event):
            senders["lives ended with messages kept"] += any(channel.kept_from for channel in self._out.values())
            return super()._restored(event)

    for seed in range(SCHEDULES):
        outcome = run_seed(seed, Machines(participant=Watched) if seed < WATCHED else Machines())
        add(volume.summary, seed, outcome)
        volume.acceptance.add(outcome)
        if seed < KEPT:
            volume.outcomes.append(outcome)
    return volume
