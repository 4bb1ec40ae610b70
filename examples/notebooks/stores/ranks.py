"""Two ranks that train beside the channels: `examples.holders.trainer`, of which the lead is killed once."""

from pathlib import Path

import rayshot
from examples.holders import trainer
from examples.holders.deaths import ask, kill, wait_for

SYSTEM = "ranks"
GOALS = (40, 80, 120)
"""Steps after which a snapshot is taken. Behind the second one some more are made, and then the lead is killed."""
LOST = 15


def make(storage: Path) -> None:
    """Train, take snapshots, and go back once."""
    with rayshot.init(SYSTEM, storage=storage, snapshots=rayshot.SnapshotConfig()) as system:
        lead = trainer.Lead.options(name="lead").remote()
        for goal in GOALS:
            lead.train.tell(goal)
            wait_for(lead, goal)
            print(system.snapshot().outside["lead"])
            if goal == GOALS[-2]:
                lead.train.tell(goal + LOST)
                wait_for(lead, goal + LOST)
                kill(system, "lead")
        assert {digest for _, digest in ask(lead.looks)} == {trainer.undisturbed(GOALS[-1])}
