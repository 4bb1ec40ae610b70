"""`benchmarks rollouts` in short, with every snapshot looked at: a training of two loops while processes are killed."""

import pytest

from benchmarks.kills import Kill
from benchmarks.rollouts import made_again, torment, wrong_in
from benchmarks.training import sample
from rayshot import SnapshotConfig
from tests.runtime.healed import HEALS

pytestmark = pytest.mark.ray
KILLS = (
    Kill(("trainer",), 0.7),
    Kill(("rollouts", "coordinator"), 1.0),
    Kill(("engine0",), 0.4, at_once=True),
    Kill(("coordinator",), 0.3),
)


def test_whatever_is_killed_each_sample_is_made_once_and_trained_once_in_order(new_system, tmp_path):
    system = new_system(failure=HEALS, snapshots=SnapshotConfig(interval_s=0.5))
    killing, trained, notes, wrong = torment(system, tmp_path / "training", KILLS)
    right = [sample(number) for number in range(1, len(trained) + 1)]
    assert {*(wrong | wrong_in(trained, right)).values()} == {0}
    assert sum(made_again(notes, killing.killed_at)) > 0, "no kill came to a sample"
    for snapshot in system.snapshots():
        trainer = snapshot.states().get("trainer", {"trained": []})  # the first ones may be from the time before
        held = [(number, tuple(answers)) for number, answers in trainer["trained"]]
        assert held == right[: len(held)], snapshot.id
