"""Actors that loop are traced: the proof of a snapshot goes through their passes."""

from itertools import pairwise

import pytest

import rayshot
from rayshot.audit.computation import Computation
from rayshot.audit.document import Document
from rayshot.audit.findings import Unproved
from rayshot.audit.history import ActorHistory
from rayshot.audit.proof import prove, trace_of
from rayshot.audit.segment import AtTop, Handled, LoopOver, PassBegan, PassWaited, Recorded, Resumed
from rayshot.model.configuration import FailureConfig
from rayshot.runtime.door import door
from tests.fake.looping import Trainer, instance
from tests.fake.system import actor, await_life, begin, process_of, read

PROVED = {"cut equation": True, "vector clocks": True, "theorem 1": True}


@pytest.fixture(params=["kept", "anew"])
def loops(request):
    """What becomes of the frame at the top of a pass."""
    return request.param


@pytest.fixture
def system(cluster, loops):
    """A traced system that heals without a pause."""
    return begin(failure=FailureConfig(backoff_s=0.0), trace=True, loops=loops)


@pytest.fixture
def slots(system):
    """A queue in which the generator's slots wait."""
    slots = rayshot.Queue(actor_options={"name": "slots"})
    assert slots.empty()
    return slots


def at_work(rollouts, slots, method="fit"):
    """A generator puts numbers into `rollouts`, one each 0.1 s; a trainer takes them, and tells it so by `slots`."""
    trainer = Trainer.options(name="trainer").remote(rollouts, slots)
    getattr(trainer, method).tell()
    generator = Trainer.options(name="generator").remote(slots, rollouts)
    generator.generate.tell()
    slots.put("first")
    return trainer


def findings(snapshot, others):
    return {finding.name: finding.holds for finding in prove(snapshot, others).findings if finding.name != "questions"}


@pytest.mark.parametrize("method", ["fit", "fit_async"])
def test_snapshots_in_the_middle_of_loops_are_proved(cluster, system, rollouts, slots, method):
    at_work(rollouts, slots, method)
    for _ in range(4):
        cluster.schedule.pass_s(0.73)
        system.snapshot()
    taken = system.snapshots()
    assert len(taken) == 4
    assert [findings(snapshot, taken) for snapshot in taken] == [PROVED] * 4
    events = trace_of(taken[-1], taken).histories["trainer"].events
    passes = [event for event in events if isinstance(event, PassBegan)]
    assert len(passes) == len(instance(cluster, "trainer").trained) >= 20
    assert all(one.number < other.number for one, other in pairwise(passes))
    kinds = [type(event) for event in events if not isinstance(event, Recorded)]
    begun = kinds.index(PassBegan)
    assert kinds[begun : begun + 5] == [PassBegan, PassWaited, Resumed, AtTop, Handled]


def test_passes_without_a_call_and_what_comes_behind_a_loop_are_proved(cluster, system, rollouts):
    trainer = Trainer.options(name="trainer").remote(rollouts)
    assert door.get(trainer.spin.remote(5)) is None
    fitted = trainer.fit.remote()
    rollouts.put_nowait_batch([1, "done"])
    assert door.get(fitted) == ["turn"] * 5 + [1]
    trainer.tick.tell()
    cluster.schedule.pass_s(7.0)
    snapshot = system.snapshot()
    assert findings(snapshot, [snapshot]) == PROVED
    events = trace_of(snapshot, [snapshot]).histories["trainer"].events
    assert [event.receivers for event in events if isinstance(event, LoopOver)] == [(), ()]
    begun = [event.sender for event in events if isinstance(event, PassBegan)]
    assert begun == [*[""] * 5, "rollouts", "rollouts", *[""] * 3]


@rayshot.actor(capture="inline")
class Chatty:
    """Tells who asks it something before it answers."""

    def __init__(self):
        self.asked = 0

    def get(self):
        self.asked += 1
        return self.asked

    def get_for(self, asker):
        asker.note.tell(self.asked)
        return self.get()


@rayshot.actor(capture="inline")
class Listener:
    """Loops over what a chatty one says, and keeps a reply of it."""

    def __init__(self, chatty):
        self.chatty, self.got, self.noted, self.kept = chatty, [], [], []

    def listen(self, me, count):
        for got in rayshot.loop(self.chatty.get):
            self.got.append(got)
            self.kept.append(self.chatty.get_for.remote(me))
            if len(self.got) == count:
                break

    def note(self, number):
        self.noted.append(number)

    def read(self):
        return self.got, self.noted, [rayshot.get(reply) for reply in self.kept]


def test_answers_that_wait_behind_messages_are_handled_in_their_turn(cluster, system):
    chatty = Chatty.options(name="chatty").remote()
    listener = Listener.options(name="listener").remote(chatty)
    listener.listen.tell(listener, 60)
    for _ in range(3):
        cluster.schedule.pass_s(0.01)
        system.snapshot()
    got, noted, kept = read(listener)
    assert (len(got), len(noted), sorted(got + kept)) == (60, 60, [*range(1, 121)])
    system.snapshot()
    taken = system.snapshots()
    assert [findings(snapshot, taken) for snapshot in taken] == [PROVED] * 4


def test_a_loop_goes_on_behind_a_rollback_in_a_trace_of_its_own(cluster, system, rollouts, slots):
    at_work(rollouts, slots)
    for life in (2, 3):
        cluster.schedule.pass_s(1.0)
        system.snapshot()
        cluster.schedule.pass_s(0.5)
        cluster.die(actor(cluster, "trainer"))
        await_life(cluster, system, life)
        cluster.schedule.pass_s(1.0)
        system.snapshot()
    taken = system.snapshots()
    assert [findings(snapshot, taken) for snapshot in taken] == [PROVED] * 4
    trained = instance(cluster, "trainer").trained
    assert trained == [*range(1, len(trained) + 1)]


def test_a_window_of_a_trace_may_begin_and_end_in_the_middle_of_a_loop(cluster, loops):
    system = begin(failure=FailureConfig(backoff_s=0.0), loops=loops)
    rollouts, slots = (rayshot.Queue(actor_options={"name": name}) for name in ("rollouts", "slots"))
    at_work(rollouts, slots)
    cluster.schedule.pass_s(1.0)
    snapshot = system.trace(seconds=1.0)
    assert findings(snapshot, system.snapshots()) == PROVED
    events = trace_of(snapshot, system.snapshots()).histories["trainer"].events
    assert isinstance(events[0], AtTop)
    assert sum(isinstance(event, PassBegan) for event in events) >= 5
    assert process_of(cluster, "trainer").tracing.tracer is None


def test_an_actor_that_ends_in_its_loop_is_proved(cluster, system, rollouts):
    trainer, other = (Trainer.options(name=name).remote(rollouts) for name in ("trainer", "other"))
    trainer.fit.remote()
    other.leave.remote()
    rollouts.put_nowait_batch([1, 2, 3, 4])
    cluster.settle()
    rayshot.kill(trainer)
    cluster.settle()
    snapshot = system.snapshot()
    assert snapshot.manifest.ended == ("other", "trainer")
    assert findings(snapshot, [snapshot]) == PROVED


def test_a_class_that_loops_is_not_run_again_and_the_audit_says_so(cluster, rollouts_traced_in_full):
    system, rollouts = rollouts_traced_in_full
    fitted = Steady.options(name="steady").remote(rollouts).fit.remote()
    rollouts.put_nowait_batch([1, 2])
    cluster.settle()
    snapshot = system.snapshot()
    found = prove(snapshot, replay=True)
    assert {one.name: one.holds for one in found.findings if one.name != "questions"} == {**PROVED, "replay": None}
    assert "a method of steady loops" in found.finding("replay").detail
    del fitted


@pytest.fixture
def rollouts_traced_in_full(cluster):
    """A system whose trace keeps the messages, and a queue in it."""
    system = begin(failure=FailureConfig(backoff_s=0.0), trace="full")
    return system, rayshot.Queue(actor_options={"name": "rollouts"})


@rayshot.actor(capture="inline", deterministic=True)
class Steady(Trainer):
    pass


# Mistakes that the proof must find -----------------------------------------------------------------------------


def judged(snapshot, others, change):
    """Whether the proof finds something where `change` makes other events of those of the trainer."""
    traced = trace_of(snapshot, others)
    histories = dict(traced.histories)
    history = histories["trainer"]
    events = change(list(history.events))
    histories["trainer"] = ActorHistory("trainer", history.base, history.first, history.sent, history.received, events)
    document = Document(snapshot.document, snapshot.read_stored)
    try:
        computation = Computation(histories)
        computation.check_clocks(document)
        computation.check_theorem_1(document)
    except Unproved as error:
        return str(error)
    return ""


def without(index):
    return lambda events: [*events[:index], *events[index + 1 :]]


def changed(index, **fields):
    return lambda events: [*events[:index], events[index]._replace(**fields), *events[index + 1 :]]


def test_each_event_of_a_loop_that_is_missing_or_has_a_wrong_number_is_found(cluster, rollouts, system, slots):
    at_work(rollouts, slots)
    cluster.schedule.pass_s(1.0)
    snapshot = system.snapshot()
    events = trace_of(snapshot, [snapshot]).histories["trainer"].events
    assert judged(snapshot, [snapshot], lambda same: same) == ""
    cut = next(index for index, event in enumerate(events) if isinstance(event, Recorded))
    for index, event in enumerate(events[:cut]):
        assert judged(snapshot, [snapshot], without(index)) or isinstance(event, Resumed), f"{event} is missing"
        if isinstance(event, PassBegan) and event.number:
            for number in (event.number - 1 or 500, event.number + 500):
                assert judged(snapshot, [snapshot], changed(index, number=number)), f"{event} with {number}"
        if isinstance(event, AtTop | PassWaited):
            assert judged(snapshot, [snapshot], changed(index, receivers=(*event.receivers, "slots")))
        if isinstance(event, Handled):
            other = "slots" if event.sender == "rollouts" else "rollouts"
            assert judged(snapshot, [snapshot], changed(index, sender=other)), f"{event} with {other}"
    begun = [index for index, event in enumerate(events) if isinstance(event, PassBegan)]
    twice = changed(begun[3], number=events[begun[2]].number)
    assert "began a pass of its loop with answer" in judged(snapshot, [snapshot], twice)
