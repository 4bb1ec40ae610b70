"""Methods that never return: snapshots hold them between two passes, and a restore goes on with the next one."""

import pytest

import rayshot
from rayshot.errors import ActorExited
from rayshot.runtime.actor import spawning
from rayshot.runtime.door import door
from tests.fake.looping import Trainer, instance
from tests.fake.system import actor, await_life, process_of, read


@pytest.fixture(params=["kept", "anew"])
def loops(request):
    """What becomes of the frame at the top of a pass."""
    return request.param


@pytest.fixture
def trainer(rollouts):
    trainer = Trainer.options(name="trainer").remote(rollouts)
    assert read(trainer) == []
    return trainer


def is_there(reference):
    return bool(door.wait([reference], timeout=0)[0])


@pytest.mark.parametrize("method", ["fit", "fit_async"])
def test_a_method_loops_over_a_queue_until_it_ends_and_its_caller_gets_its_result(cluster, rollouts, trainer, method):
    fitted = getattr(trainer, method).remote()
    for number in range(3):
        rollouts.put(number)
    cluster.settle()
    assert instance(cluster).trained == [0, 1, 2]
    assert not is_there(fitted)
    rollouts.put("done")
    assert door.get(fitted) == [0, 1, 2]
    assert read(trainer) == [0, 1, 2]
    assert process_of(cluster, "trainer").cell.now.loop is None
    assert process_of(cluster, "trainer").cell.state().keys().isdisjoint({"loop", "owed", "questions"})


@pytest.mark.parametrize("method", ["fit", "fit_async"])
@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_a_snapshot_is_taken_while_it_waits_and_a_restore_goes_on_with_the_next_pass(
    cluster, system, rollouts, trainer, method, mode, loops
):
    fitted = getattr(trainer, method).remote()
    rollouts.put("a")
    cluster.settle()
    snapshot = system.snapshot(mode=mode)
    assert snapshot.verify().sound
    assert [one.entry.owed for one in snapshot.channels.values() if one.entry.owed] == [(3,)]
    rollouts.put("b")
    cluster.settle()
    assert instance(cluster).trained == ["a", "b"]
    cluster.die(actor(cluster, "rollouts"))
    await_life(cluster, system, 2)
    cluster.settle()
    assert instance(cluster).trained == ["a", "b"], "the program puts b again"
    if loops == "kept":
        assert instance(cluster).begun == 2
    rollouts.put("done")
    assert door.get(fitted) == ["a", "b"]


def test_who_loops_and_dies_goes_on_on_another_process(cluster, system, rollouts, trainer):
    trainer.fit.tell()
    rollouts.put("a")
    cluster.settle()
    system.snapshot()
    for life in range(2, 6):
        for _ in range(2):  # a life with less leads nowhere
            system.snapshot()
        rollouts.put(life)
        cluster.settle()
        cluster.die(actor(cluster, "trainer"))
        await_life(cluster, system, life)
        cluster.settle()
    assert instance(cluster).trained == ["a", 2, 3, 4, 5]
    rollouts.put("done")
    assert read(trainer) == ["a", 2, 3, 4, 5]


def test_what_is_behind_a_loop_waits_for_its_end_and_its_mailbox_does_not_grow(cluster, system, rollouts, trainer):
    trainer.fit.tell()
    behind = trainer.read.remote()
    for number in range(200):
        rollouts.put(number)
    cluster.settle()
    assert not is_there(behind)
    mailbox = process_of(cluster, "trainer").channels.mailbox
    assert len(mailbox) == 1
    assert mailbox.received()["rollouts"] >= 200
    assert len(process_of(cluster, "trainer").suspension._spent["rollouts"]) <= 1
    system.snapshot()
    rollouts.put("done")
    assert door.get(behind) == [*range(200)]


def test_loops_of_several_actors_are_in_each_snapshot_and_lose_nothing(cluster, system, rollouts):
    slots = rayshot.Queue(2, actor_options={"name": "slots"})
    trainer = Trainer.options(name="trainer").remote(rollouts, slots)
    generator = Trainer.options(name="generator").remote(slots, rollouts)
    assert read(trainer) == read(generator) == []
    trainer.fit.tell()
    generator.generate.tell()
    slots.put(0)
    life = 1
    for victim in ("trainer", "generator", "slots", "rollouts") * 2:
        cluster.schedule.pass_s(0.5)
        system.snapshot()
        cluster.schedule.pass_s(0.5)
        cluster.die(actor(cluster, victim))
        life += 1
        await_life(cluster, system, life)
    cluster.schedule.pass_s(1.0)
    trained, got = (instance(cluster, name).trained for name in ("trainer", "generator"))
    assert len(trained) > 20
    assert trained == [*range(1, len(trained) + 1)]
    assert got == [*range(len(got))]


def test_a_loop_with_seconds_between_passes_goes_on_behind_a_restore(cluster, system, trainer):
    trainer.tick.tell()
    cluster.schedule.pass_s(5.0)
    assert instance(cluster).trained == ["tick"] * 2
    system.snapshot()
    cluster.die(actor(cluster, "rollouts"))
    await_life(cluster, system, 2)
    cluster.schedule.pass_s(4.5)
    assert 4 <= len(instance(cluster).trained) <= 5


def test_passes_without_a_call_let_snapshots_in(cluster, system, trainer):
    assert door.get(trainer.spin.remote(50)) is None
    assert len(read(trainer)) == 50
    assert door.get(trainer.read_handle.remote()) == 0


def test_children_of_a_loop_get_the_names_again_that_they_had(cluster, system, rollouts, trainer):
    trainer.make.tell()
    rollouts.put(1)
    cluster.settle()
    system.snapshot()
    rollouts.put(2)
    cluster.settle()
    before = instance(cluster).names()
    assert len(set(before)) == 2
    cluster.die(actor(cluster, "trainer"))
    await_life(cluster, system, 2)
    cluster.settle()
    assert instance(cluster).names() == before


def test_children_that_were_made_before_a_loop_do_not_count_for_it(cluster, system, rollouts, trainer):
    trainer.make_one.tell()
    trainer.make.tell()
    cluster.settle()
    system.snapshot()
    rollouts.put(1)
    cluster.settle()
    before = instance(cluster).names()
    assert len(set(before)) == 2
    cluster.die(actor(cluster, "trainer"))
    await_life(cluster, system, 2)
    cluster.settle()
    assert instance(cluster).names() == before


def test_a_loop_that_has_made_many_children_begins_to_count_behind_them_when_it_is_restored(
    cluster, system, rollouts, trainer, monkeypatch
):
    """Counted from 0 the names would be those of children that live, and only so many are tried."""
    monkeypatch.setattr(spawning, "NAMES_TRIED_MAX", 2)
    trainer.make.tell()
    for number in range(3):
        rollouts.put(number)
    cluster.settle()
    system.snapshot()
    cluster.die(actor(cluster, "trainer"))
    await_life(cluster, system, 2)
    rollouts.put(3)
    cluster.settle()
    assert len({*instance(cluster).names()}) == 4


def test_an_error_in_a_pass_is_the_callers(cluster, rollouts, trainer):
    failed = trainer.fail_at.remote("b")
    rollouts.put_nowait_batch(["a", "b", "c"])
    with pytest.raises(ValueError, match="b"):
        door.get(failed)
    assert (read(trainer), rollouts.size()) == (["a"], 1)


@pytest.mark.parametrize("by", ["kill", "exit"])
def test_an_actor_that_is_ended_ends_its_loop_at_the_top_of_a_pass(cluster, system, rollouts, by):
    trainer = Trainer.remote(rollouts)
    fitted = (trainer.leave if by == "exit" else trainer.fit).remote()
    rollouts.put(1)
    cluster.settle()
    if by == "kill":
        rayshot.kill(trainer)
    cluster.settle()
    with pytest.raises(ActorExited):
        door.get(fitted)


def test_an_actor_whose_handle_is_dropped_goes_on_to_the_end_of_its_loop_and_ends_then(cluster, system, rollouts):
    fitted = Trainer.remote(rollouts).fit.remote()
    cluster.schedule.pass_s(3.0)
    assert len(system.actors()) == 2
    rollouts.put(1)
    rollouts.put("done")
    assert door.get(fitted) == [1]
    cluster.settle()
    assert [*system.actors()] == [rollouts.actor.name]


def test_a_loop_over_an_actor_that_ends_gets_its_end(cluster, rollouts, trainer):
    fitted = trainer.fit.remote()
    cluster.settle()
    rollouts.shutdown()
    cluster.schedule.pass_s(3.0)
    with pytest.raises(ActorExited):
        door.get(fitted)
    again = trainer.fit.remote()
    with pytest.raises(ActorExited):
        door.get(again)
    trainer.fit.tell()
    assert read(trainer) == []


def test_a_held_actor_stays_at_the_top_of_its_loop(cluster, system, rollouts, trainer):
    """Somebody asks without a pause, so the snapshot begins when conversations have come to their ends."""
    slots = rayshot.Queue(actor_options={"name": "slots"})
    asker = Trainer.options(name="asker").remote(rollouts, slots)
    trainer.fit.tell()
    asker.fit.tell()
    for number in range(20):
        rollouts.put(number)
    cluster.settle()
    system.snapshot()
    system.snapshot()
    cluster.settle()
    assert len(instance(cluster).trained) + len(instance(cluster, "asker").trained) == 20


def test_a_method_that_loops_is_never_named_as_poison(cluster, system, rollouts, trainer):
    """Before a snapshot holds it, each life delivers what began it again, and it is at work at each death."""
    system.snapshot()
    trainer.fit.tell()
    cluster.settle()
    for life in (2, 3):
        cluster.die(actor(cluster, "trainer"))
        await_life(cluster, system, life)
        cluster.settle()
    assert process_of(cluster, "trainer").cell.now.loop is not None
    assert [one.poison for one in system.status().recoveries if getattr(one, "poison", None)] == []
    rollouts.put("done")
    assert read(trainer) == []


@rayshot.actor(capture="inline")
class Pump(Trainer):
    def __init__(self, rollouts, slots=None):
        super().__init__(rollouts, slots)
        self.size = None

    def look(self):
        self.size = self.rollouts.size()

    def with_timers(self):
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append(rollout)
            rayshot.current().after(1000.0, self.read)

    def note(self, _size):
        self.size = len(self.trained)

    def with_news(self):
        for rollout in rayshot.loop(self.rollouts.get):
            if rollout == "end":
                break
            self.trained.append(rollout)
            if len(self.trained) in {1, 300}:
                self.rollouts.actor.qsize.remote().then(self.note)

    def then_for_ever(self):
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append(rollout)
            self.rollouts.actor.qsize.remote().then(self.note)

    def gather_for_ever(self):
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append(rollout)
            rayshot.gather([self.rollouts.actor.qsize.remote()]).then(self.note)

    def read_news(self):
        return self.size

    def by_rounds(self):
        while self.begun < 3:
            for rollout in rayshot.loop(self.rollouts.get):
                self.trained.append(rollout)
                if rollout == "end":
                    break
            self.begun += 1
            self.slots.put(self.begun)

    def train_two(self):
        while len(self.trained) < 2:
            for rollout in rayshot.loop(self.rollouts.get):
                self.trained.append(rollout)

    def ask_all_the_time(self):
        for _ in range(30):
            self.slots.get()


def pump_of(cluster, rollouts, slots=None):
    pump = Pump.options(name="pump").remote(rollouts, slots)
    assert read(pump) == []
    return pump


def test_an_order_to_end_ends_the_loops_that_wait_behind_the_first_one_too(cluster, rollouts, trainer):
    first, second = trainer.fit.remote(), trainer.fit.remote()
    cluster.settle()
    rayshot.kill(trainer)
    for fitted in (first, second):
        with pytest.raises(ActorExited):
            door.get(fitted)


def test_an_order_to_end_that_has_no_effect_ends_no_loop(cluster, rollouts):
    pump = Pump.remote(rollouts)
    pump.with_timers.tell()
    rollouts.put(1)
    cluster.settle()
    name = pump.name
    del pump
    cluster.settle()
    rollouts.put(2)
    cluster.settle()
    assert instance(cluster, name).trained == [1, 2]


def test_what_was_asked_before_a_loop_does_not_keep_its_mailbox_full(cluster, rollouts):
    pump = pump_of(cluster, rollouts)
    pump.look.tell()
    pump.fit.tell()
    for number in range(50):
        rollouts.put(number)
    cluster.settle()
    assert len(process_of(cluster, "pump").channels.mailbox) == 0


def test_a_loop_that_waits_for_a_time_rests_while_it_is_held(cluster, system, rollouts, trainer):
    slots = rayshot.Queue(actor_options={"name": "slots"})
    asker = pump_of(cluster, rollouts, slots)
    trainer.tick.tell()
    asker.ask_all_the_time.tell()
    cluster.settle()
    for number in range(30):
        slots.put(number)
        cluster.schedule.pass_s(0.3)
    system.snapshot()
    assert process_of(cluster, "trainer").cell.now.loop is not None


def test_a_call_that_expires_is_told_once(cluster, system, rollouts, trainer):
    fitted = trainer.fit.remote()
    cluster.settle()
    system.snapshot()
    cluster.die(actor(cluster, "trainer"))
    await_life(cluster, system, 2)
    with pytest.raises(door.Died):
        door.get(fitted)
    cluster.schedule.pass_s(60.0)
    assert len(process_of(cluster, "trainer").channels.mailbox) <= 1


def test_a_continuation_that_loops_is_refused_with_what_to_do(cluster, system, rollouts, trainer):
    trainer.continue_with_it.tell()
    cluster.settle()
    (letter,) = system.dead_letters()
    assert "is an answer: a restore begins with that. Put the loop into the method that others call" in letter.error


@pytest.mark.parametrize("how", ["then", "gather"])
def test_a_continuation_that_would_wait_for_the_end_of_an_endless_loop_is_refused(cluster, system, rollouts, how):
    pump = pump_of(cluster, rollouts)
    getattr(pump, f"{how}_for_ever").tell()
    rollouts.put(1)
    cluster.settle()
    (letter,) = system.dead_letters()
    assert (
        f"Pump.{how}_for_ever loops without an end, and what comes next is handled behind it, so never" in letter.error
    )
    assert read(pump) == [1]


def test_what_a_while_around_a_loop_does_behind_it_is_done_once_wherever_it_goes_back_to(cluster, system, rollouts):
    slots = rayshot.Queue(actor_options={"name": "slots"})
    pump = pump_of(cluster, rollouts, slots)
    ended = pump.by_rounds.remote()
    for life, items in enumerate((["a"], ["end", "b"], ["end", "c"]), 2):
        rollouts.put_nowait_batch(items)
        cluster.settle()
        for _ in range(2):
            system.snapshot()
        cluster.die(actor(cluster, "rollouts"))
        await_life(cluster, system, life)
    rollouts.put("end")
    door.get(ended)
    assert read(pump) == ["a", "end", "b", "end", "c", "end"]
    assert slots.get_nowait_batch(3) == [1, 2, 3]
    assert slots.empty()


def test_a_method_that_comes_to_its_loop_no_more_behind_a_restore_is_refused_and_takes_nothing(
    cluster, system, rollouts
):
    pump = pump_of(cluster, rollouts)
    pump.train_two.tell()
    rollouts.put_nowait_batch([1, 2])
    cluster.settle()
    system.snapshot()
    cluster.die(actor(cluster, "pump"))
    await_life(cluster, system, 2)
    rollouts.put(3)
    cluster.settle()
    (letter,) = system.dead_letters()
    assert "Pump.train_two was between two passes of its rayshot.loop; begun anew, it came to none" in letter.error
    assert (read(pump), rollouts.size()) == ([1, 2], 1)


def test_answers_behind_what_waits_for_the_end_of_a_loop_take_no_room_and_are_passed_over_in_their_turn(
    cluster, system, rollouts
):
    pump = pump_of(cluster, rollouts)
    pump.with_news.tell()
    large = "x" * 10_000
    for life in (1, 2):
        for _ in range(500):
            rollouts.put(large)
        cluster.settle()
        mailbox = process_of(cluster, "pump").channels.mailbox
        assert len(mailbox) == 2, "the two continuations"
        assert len(mailbox._waiting) < 25
        assert mailbox.size_bytes < 30 * life * 500
        assert not any(process_of(cluster, "pump").suspension._spent.values())
        assert system.snapshot().verify().sound
        if life == 1:
            cluster.die(actor(cluster, "pump"))
            await_life(cluster, system, 2)
    rollouts.put("end")
    assert door.get(pump.read_news.remote()) == 1000
    assert len(read(pump)) == 1000
    mailbox = process_of(cluster, "pump").channels.mailbox
    assert not mailbox
    system.snapshot()
