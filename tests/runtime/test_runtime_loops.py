"""Methods that never return, on real Ray: processes that die while they loop. See the fake."""

import pytest
import ray

import rayshot
from rayshot.audit.proof import prove, trace_of
from rayshot.audit.segment import PassBegan
from tests.runtime.healed import HEALS, kill, until_it_runs
from tests.runtime.looping import Generator, Trainer
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray
SAMPLES = 400


def training(samples):
    slots = rayshot.Queue(actor_options={"name": "slots"})
    rollouts = rayshot.Queue(2, actor_options={"name": "rollouts"})
    generator = Generator.options(name="generator").remote(slots, rollouts)
    trainer = Trainer.options(name="trainer").remote(slots, rollouts)
    generator.fit.tell(samples)
    trainer.fit.tell(samples)
    for _ in range(2):
        slots.put(0)
    return trainer


def trained(system):
    return system.snapshot().states()["trainer"]["trained"]


@pytest.mark.parametrize("loops", ["kept", "anew"])
def test_each_snapshot_has_samples_in_order_and_the_loops_end(new_system, loops):
    system = new_system(loops=loops)
    trainer = training(SAMPLES)
    for _ in range(3):
        found = trained(system)
        assert found == [*range(1, len(found) + 1)]
    assert ray.get(trainer.__ray_call__.remote(lambda self: self.trained)) == [*range(1, SAMPLES + 1)]


def test_snapshots_in_the_middle_of_traced_loops_are_proved_in_each_life(new_system):
    system = new_system(failure=HEALS, trace=True)
    training(SAMPLES)
    for _ in range(3):
        trained(system)
    kill(system, "trainer")
    until_it_runs(system, 2)
    for _ in range(3):
        trained(system)
    snapshots = system.snapshots()
    proofs = [prove(snapshot, snapshots) for snapshot in snapshots if snapshot.actors]
    for proof in proofs:
        assert all(proof.finding(name).holds for name in ("cut equation", "vector clocks", "theorem 1")), proof
    events = trace_of(snapshots[-1], snapshots).histories["trainer"].events
    assert sum(isinstance(event, PassBegan) for event in events) > 0
    assert len(proofs) >= 6


def test_whoever_is_killed_while_all_loop_each_sample_is_trained_once_in_order(new_system):
    system = new_system(failure=HEALS, snapshots=rayshot.SnapshotConfig(interval_s=0.5))
    training(SAMPLES)
    trained(system)
    life = 1
    for victim in ("trainer", "rollouts", "generator", "coordinator", "slots"):
        if victim == "coordinator":
            kill_coordinator(system)
        else:
            kill(system, victim)
            life += 1
        until_it_runs(system, life)
        found = trained(system)
        assert found == [*range(1, len(found) + 1)], victim
    eventually(lambda: trained(system) == [*range(1, SAMPLES + 1)], 120)
