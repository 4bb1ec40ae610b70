"""The runs that several tests look at."""

from collections import Counter

import pytest

from rayshot.protocol.participant import Participant
from rayshot.simulation.machines import Machines
from rayshot.simulation.schedule import run_seed

SCHEDULES = 2_000


@pytest.fixture(scope="session")
def senders():
    """What the processes of `outcomes` did as senders, counted."""
    return Counter()


@pytest.fixture(scope="session")
def outcomes(senders):
    """The outcomes of the first seeds, in their order."""

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

    return [run_seed(seed, Machines(participant=Watched)) for seed in range(SCHEDULES)]
