"""What happens to loops and queues in one order of events: each test is one such story."""

from typing import ClassVar

import pytest

import rayshot
from rayshot.errors import RayshotError
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.door import door
from tests.fake.account import Account, new_gate, photograph
from tests.fake.looping import instance
from tests.fake.system import actor, await_life, process_of, read


@rayshot.actor(capture="inline")
class Maker:
    """Makes samples, each behind a gate; `events` outlive it."""

    events: ClassVar = []

    def __init__(self, samples):
        self.samples, self.made = samples, 0

    def on_restore(self):
        Maker.events.append("restored")

    def spin(self):
        for _ in rayshot.loop():
            self.make()

    def tick(self):
        for _ in rayshot.loop(every=0.05):
            self.make()

    def fit(self, slots):
        Maker.events.append("begun")
        for _ in rayshot.loop(slots.get):
            self.make()

    def photograph(self, slots):
        for _ in rayshot.loop(slots.get):
            self.made += 1
            rayshot.current().snapshot()

    def make(self):
        Account.gates[f"sample {self.made % 3}"].wait()
        self.made += 1
        self.samples.put(self.made)

    def read(self):
        return self.made


@rayshot.actor(capture="inline")
class Trainer:
    def __init__(self, samples, slots):
        self.samples, self.slots, self.trained = samples, slots, []

    def fit(self):
        Account.gates["fit"].wait()
        for sample in rayshot.loop(self.samples.get):
            self.trained.append(sample)
            Account.gates["step"].wait()
            if self.slots is not None:
                self.slots.put(0)

    def fit_in_batches(self):
        for first in rayshot.loop(self.samples.get):
            batch = [first, self.samples.get(), self.samples.get()]
            self.trained.append(tuple(batch))

    def read(self):
        return self.trained


@pytest.fixture
def gates():
    """All are open."""
    made = {name: new_gate(name) for name in ("sample 0", "sample 1", "sample 2", "fit", "step")}
    for gate in made.values():
        gate.set()
    return made


@pytest.fixture
def slots(system):
    return rayshot.Queue(actor_options={"name": "slots"})


def training(samples, slots):
    """A maker and a trainer, born."""
    maker, trainer = Maker.options(name="maker").remote(samples), Trainer.options(name="trainer").remote(samples, slots)
    assert (read(maker), read(trainer)) == (0, [])
    return maker, trainer


def roll_back(cluster, system, victim="slots"):
    cluster.die(actor(cluster, victim))
    await_life(cluster, system, 2)


def test_idle_loops_that_wait_for_each_other_are_in_a_snapshot_and_go_on(cluster, system, rollouts, slots, gates):
    maker, trainer = training(rollouts, slots)
    maker.fit.tell(slots)
    trainer.fit.tell()
    cluster.settle()
    system.snapshot()
    assert system.status().aborted == 0
    roll_back(cluster, system)
    cluster.settle()
    gates["step"].clear()
    slots.put(0)
    cluster.settle()
    assert (instance(cluster, "maker").made, instance(cluster).trained) == (1, [1])


def test_an_answer_that_comes_before_the_method_begins_anew_waits_for_it(cluster, system, rollouts, slots, gates):
    _, trainer = training(rollouts, slots)
    trainer.fit.tell()
    rollouts.put("a")
    cluster.settle()
    system.snapshot()
    gates["fit"].clear()
    roll_back(cluster, system)
    cluster.settle()
    rollouts.put("b")
    cluster.settle()
    assert instance(cluster).trained == ["a"]
    assert len(process_of(cluster, "trainer").channels.mailbox) == 1
    gates["fit"].set()
    rollouts.put("c")
    cluster.settle()
    assert instance(cluster).trained == ["a", "b", "c"]


def test_who_waits_for_room_in_a_full_queue_gets_it_as_who_takes_comes_to_its_top(cluster, system, slots, gates):
    samples = rayshot.Queue(1, actor_options={"name": "samples"})
    maker, trainer = training(samples, None)
    gates["step"].clear()
    maker.fit.tell(slots)
    trainer.fit.tell()
    for _ in range(3):
        slots.put(0)
    cluster.settle()
    assert (instance(cluster, "maker").made, instance(cluster).trained) == (3, [1]), "one waits in `put`, one in a body"
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.5)
    assert taken == []
    gates["step"].set()
    thread.join()
    assert taken[0].verify().sound
    roll_back(cluster, system)
    cluster.settle()
    assert instance(cluster).trained == [1, 2, 3]


@pytest.mark.parametrize("makes", ["spin", "tick", "fit"])
def test_a_body_that_takes_a_batch_gets_it_from_a_loop_that_is_held_at_its_top(
    cluster, system, rollouts, slots, gates, makes
):
    """The trainer has one of three samples when the snapshot is asked for, and the maker may begin no pass."""
    maker, trainer = training(rollouts, slots)
    for _ in range(10):
        slots.put(0)
    gates["sample 1"].clear()
    getattr(maker, makes).tell(*([slots] if makes == "fit" else []))
    trainer.fit_in_batches.tell()
    cluster.schedule.pass_s(0.5)
    assert instance(cluster, "maker").made == 1
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.5)
    gates["sample 0"].clear()
    gates["sample 1"].set()
    began_s = cluster.schedule.now_s
    thread.join()
    assert not isinstance(taken[0], RayshotError), taken[0]
    assert taken[0].states()["trainer"]["trained"] == [(1, 2, 3)]
    assert cluster.schedule.now_s - began_s < 5


@pytest.mark.parametrize("runs_first", [False, True])
def test_a_loop_begins_anew_when_its_actor_knows_that_it_was_restored(
    cluster, system, rollouts, slots, gates, monkeypatch, runs_first
):
    """`runs_first`: the thread of its handlers runs before anybody says that the hook is to be called."""
    if runs_first:
        start = Worker.start

        def start_and_let_run(worker):
            start(worker)
            cluster.schedule.breathe()

        monkeypatch.setattr(Worker, "start", start_and_let_run)
    maker, _ = training(rollouts, slots)
    maker.fit.tell(slots)
    cluster.settle()
    system.snapshot()
    Maker.events.clear()
    roll_back(cluster, system)
    cluster.settle()
    assert Maker.events == ["restored", "begun"]


def test_a_snapshot_that_a_pass_asks_for_is_taken_at_the_top_of_the_next_one(cluster, system, rollouts, slots, gates):
    maker, _ = training(rollouts, slots)
    maker.photograph.tell(slots)
    cluster.settle()
    before = len(system.snapshots())
    slots.put(0)
    cluster.schedule.pass_s(1.0)
    assert len(system.snapshots()) == before + 1
    assert system.snapshots()[-1].states()["maker"]["made"] == 1
    assert process_of(cluster, "maker").cell.now.loop is not None


def test_a_durable_item_is_given_when_a_snapshot_holds_that_it_was_taken(cluster, system, rollouts):
    taken = rollouts.actor.get.options(durable=True).remote()
    cluster.settle()
    system.snapshot()
    rollouts.put("a")
    cluster.settle()
    assert not door.wait([taken], timeout=0)[0], "the snapshot holds the call, and not its answer"
    bystander = Maker.options(name="bystander").remote(rollouts)
    assert read(bystander) == 0
    roll_back(cluster, system, "bystander")
    cluster.settle()
    assert not door.wait([taken], timeout=0)[0]
    system.snapshot()
    assert door.get(taken) == (True, "a"), "the program puts it again"
