"""A restore with another version of a class that loops: what was asked for is taken by the same call, or by none."""

import pytest

import rayshot
from tests.fake.system import actor, await_life, await_stop, process_of, read


@rayshot.actor(capture="inline")
class Pump:
    def __init__(self, rollouts, slots):
        self.rollouts, self.slots, self.trained = rollouts, slots, []

    def fit(self):
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append(rollout)

    def by_turns(self):
        for rollout in rayshot.loop(self.slots.get if self.trained else self.rollouts.get):
            self.trained.append(rollout)

    def tick(self):
        for _ in rayshot.loop(every=2.0):
            self.trained.append("tick")

    def spin(self):
        for _ in rayshot.loop():
            self.trained.append("turn")
            break

    def read(self):
        return self.trained


@pytest.fixture
def queues(system):
    return [rayshot.Queue(actor_options={"name": name}) for name in ("rollouts", "slots")]


def pump_in(cluster, system, queues, method):
    """A snapshot has this method of a pump in its loop."""
    pump = Pump.options(name="pump").remote(*queues)
    getattr(pump, method).tell()
    queues[0].put(1)
    cluster.settle()
    system.snapshot()
    return pump


def class_of_pump(cluster):
    return type(process_of(cluster, "pump").cell.instance)


def test_a_restore_does_not_take_the_answer_of_one_call_for_that_of_another(cluster, system, queues):
    pump = pump_in(cluster, system, queues, "by_turns")
    cluster.die(actor(cluster, "pump"))
    await_life(cluster, system, 2)
    for queue in queues:
        queue.put("x")
    cluster.settle()
    (letter,) = system.dead_letters()
    assert "in the snapshot this rayshot.loop has called rollouts.get, and now it calls slots.get" in letter.error
    assert (read(pump), [queue.size() for queue in queues]) == ([1], [1, 1]), "nothing is taken for nobody"


@pytest.mark.parametrize("new", [None, lambda self: self.read()])
def test_a_class_without_the_loop_of_its_snapshot_is_refused_when_it_is_loaded(
    cluster, system, queues, monkeypatch, new
):
    pump_in(cluster, system, queues, "fit")
    if new is None:
        monkeypatch.delattr(class_of_pump(cluster), "fit")
    else:
        monkeypatch.setattr(class_of_pump(cluster), "fit", new)
    cluster.die(actor(cluster, "pump"))
    why = await_stop(cluster, system)
    assert "Pump.fit between two passes of a rayshot.loop" in why
    assert ("has no such method" if new is None else "has no loop in it") in why


@pytest.mark.parametrize(("new", "trained"), [("fit", [1]), ("spin", ["turn"])])
def test_a_loop_that_waited_for_a_time_may_do_otherwise_behind_a_restore(
    cluster, system, queues, monkeypatch, new, trained
):
    pump_in(cluster, system, queues, "tick")
    user_class = class_of_pump(cluster)
    monkeypatch.setattr(user_class, "tick", getattr(user_class, new))
    cluster.die(actor(cluster, "pump"))
    await_life(cluster, system, 2)
    cluster.schedule.pass_s(0.5)
    assert process_of(cluster, "pump").cell.instance.trained == trained
