"""What the fake must get right to mean anything: each point of its own, with processes that are as small as can be."""

import threading
import time
from typing import ClassVar

import pytest

from rayshot.runtime.door import door, here, state
from tests.fake import threads
from tests.fake.door import fake
from tests.fake.schedule import Choices, Stuck

GROUPS = {"some": 1, "more": 2, "wait": 1}
waiting = threads.stand_in_for(threading)


class NotNow(Exception):
    pass


class Teller:
    """A process that does what the tests ask."""

    log: ClassVar = []

    def __init__(self, *said):
        self.said = list(said)
        self.event = waiting.Event()
        self.tries = 0

    @door.method("some")
    def keep(self, value):
        self.said.append(value)
        return self.said

    @door.method("some", again=True)
    def again(self, value):
        self.log.append(value)
        return value

    @door.method("some", again=NotNow)
    def third_time(self):
        self.tries += 1
        if self.tries < 3:
            raise NotNow
        return self.tries

    @door.method("some", results=2)
    def two(self):
        return "tags", "value"

    @door.method("wait")
    def hold(self):
        self.event.wait()
        return "held"

    @door.method("more")
    def let_go(self):
        self.event.set()

    @door.method("more")
    def fail(self, error):
        raise error

    @door.method("wait", again=True)
    def hold_again(self):
        try:
            waiting.Event().wait()
        finally:
            self.log.append("finally")

    @door.method("more")
    def take(self, held):
        (self.held,) = held
        door.when_answered(self.held, lambda value: self.log.append(type(value)))

    @door.method("more")
    def drop(self):
        del self.held

    @door.method("more")
    def who(self):
        return here.actor_name(), here.was_restarted(), here.node(), self.said

    @door.method("more")
    def value_of(self, value):
        return value


@pytest.fixture
def cluster(request):
    Teller.log = []
    with fake(getattr(request, "param", ()), nodes=3) as cluster:
        yield cluster


def make(name="teller", *args, **options):
    return door.make(Teller, GROUPS, name, *args, **options)


# Copies --------------------------------------------------------------------------------------------------------------


def test_arguments_results_and_constructor_arguments_are_copies(cluster):
    first, second = [1], [2]
    teller = make("teller", first)
    answer = teller.keep.remote(second)
    second.append("not sent")
    kept = door.get(answer)
    assert kept == [[1], [2]]
    kept.append("not kept")
    first.append("not made with")
    assert door.get(teller.keep.remote(3)) == [[1], [2], 3]
    assert door.get(answer) == [[1], [2]]


def test_an_error_is_a_copy_with_its_cause_and_is_raised_as_what_it_is_too(cluster):
    error = ValueError("so", [1])
    answer = make().fail.remote(error)
    with pytest.raises(door.Raised) as raised:
        door.get(answer)
    assert isinstance(raised.value, ValueError)
    assert raised.value.cause.args == error.args
    assert raised.value.cause is not error
    told = []
    door.when_answered(answer, told.append)
    cluster.settle()
    assert [type(one) for one in told] == [door.Raised]


def test_an_argument_that_is_a_reference_is_waited_for_and_one_in_a_list_is_not(cluster):
    teller = make()
    held = teller.hold.remote()
    answer = teller.value_of.remote(held)
    inside = door.get(teller.value_of.remote([held]))
    assert inside == [held]
    cluster.settle()
    assert door.wait([answer], timeout=0)[0] == []
    teller.let_go.remote()
    assert door.get(answer) == "held"
    assert door.get(teller.value_of.remote(door.put({"a": 1}))) == {"a": 1}


# Order ---------------------------------------------------------------------------------------------------------------


def test_an_answer_can_be_read_before_its_callback_has_run_and_both_results_are_there_together(cluster):
    told = []
    tags, value = make().two.remote()
    for reference in (tags, value):
        door.when_answered(reference, told.append)
    while not door.wait([tags], timeout=0)[0]:
        assert door.wait([value], timeout=0)[0] == []
        cluster.schedule.step()
    assert (door.get([tags, value]), told) == (["tags", "value"], [])
    cluster.settle()
    assert told == ["tags", "value"]


def test_calls_come_in_any_order(cluster):
    orders = set()
    teller = make()
    cluster.settle()
    for seed in range(60):
        cluster.schedule.choose = Choices.of_seed(seed)
        del Teller.log[:]
        for number in range(3):
            teller.again.remote(number)
        while len(Teller.log) < 3:
            cluster.schedule.step()
        orders.add(tuple(Teller.log))
    assert len(orders) == 6


def test_callbacks_of_a_process_have_one_thread_and_wait_behind_one_that_waits(cluster):
    told, event = [], waiting.Event()
    teller = make()
    door.when_answered(teller.two.remote()[0], lambda _: (told.append("waits"), event.wait(), told.append("goes on")))
    cluster.until(lambda: told)
    door.when_answered(teller.keep.remote(1), told.append)
    cluster.settle()
    assert told == ["waits"]
    event.set()
    cluster.settle()
    assert told == ["waits", "goes on", [1]]


# Loss ----------------------------------------------------------------------------------------------------------------


def test_a_call_that_may_be_made_again_is_made_twice_and_one_that_may_not_never(cluster):
    cluster.fates_of_calls = ("twice",)
    teller = make()
    assert door.get(teller.again.remote(1)) == 1
    assert door.get(teller.keep.remote(1)) == [1]
    cluster.settle()
    assert Teller.log == [1, 1]
    assert door.get(teller.who.remote())[-1] == [1]


@pytest.mark.parametrize("what", ["fates_of_calls", "fates_of_answers"])
def test_what_is_lost_is_sent_again_if_it_may_be_and_otherwise_its_process_is_unavailable(cluster, what):
    setattr(cluster, what, ("arrives", "lost"))
    teller = make()
    cluster.settle()
    cluster.schedule.choose = Choices([1])
    with pytest.raises(door.Unavailable):
        door.get(teller.keep.remote(1))
    cluster.schedule.choose = Choices([1])
    assert door.get(teller.again.remote(1)) == 1
    arrives = what == "fates_of_answers"
    assert Teller.log == [1] * (1 + arrives)
    assert door.get(teller.who.remote())[-1] == [1] * arrives


def test_a_call_that_raises_the_error_on_which_it_is_made_again_goes_to_the_end(cluster):
    assert door.get(make().third_time.remote()) == 3


# Threads -------------------------------------------------------------------------------------------------------------


def test_a_group_that_is_full_lets_calls_wait_and_no_other_group(cluster):
    teller = make()
    first, second = teller.hold.remote(), teller.hold.remote()
    assert door.get(teller.keep.remote(1)) == [1]
    teller.let_go.remote()
    assert door.get([first, second]) == ["held", "held"]


def test_a_deadlock_is_found_and_says_who_waits_for_what(cluster):
    teller = make()
    teller.hold.remote()
    cluster.settle()
    with pytest.raises(Stuck, match=r"1 calls wait for wait.*hold\(\) of teller for an event"):
        door.get(teller.hold.remote())


def test_two_threads_that_take_two_locks_in_two_orders_are_found(cluster):
    one, other = waiting.Lock(), waiting.Lock()

    def take(*locks):
        with locks[0]:
            waiting_s.sleep(0)
            with locks[1]:
                pass

    waiting_s = threads.TIME
    both = [waiting.Thread(target=take, args=locks) for locks in ((one, other), (other, one))]
    for thread in both:
        thread.start()
    with pytest.raises(Stuck, match="a lock of"):
        both[0].join()


def test_who_waits_without_end_ends_no_later_than_the_clock_says(cluster):
    began = threads.TIME.monotonic()
    with pytest.raises(door.TimedOut):
        door.get(make().hold.remote(), timeout=30)
    assert threads.TIME.monotonic() - began == 30
    threads.TIME.sleep(5)
    assert threads.TIME.time() - threads.EPOCH_S - began == 35


def test_the_clock_stands_still_where_anything_can_happen_unless_the_schedule_is_hasty(cluster):
    fired = []
    timer = waiting.Timer(100.0, fired.append, (1,))
    timer.start()
    door.get(make().keep.remote(1))
    assert fired == []
    cluster.schedule.hasty_s, cluster.schedule.choose = 200.0, Choices.of_seed(1)
    other = make("other")
    door.get([other.keep.remote(number) for number in range(20)])
    assert fired == [1]


# Death ---------------------------------------------------------------------------------------------------------------


def test_a_death_runs_no_finally_and_its_calls_fail(cluster):
    teller = make()
    held = teller.hold_again.remote()
    cluster.settle()
    door.kill(teller)
    for answer in (held, teller.again.remote(1)):
        with pytest.raises(door.Died):
            door.get(answer)
    assert Teller.log == []


def test_a_process_that_is_started_again_has_its_arguments_takes_calls_again_and_others_are_lost(cluster):
    teller = make("teller", "first", restarts=True)
    door.get(teller.keep.remote(2))
    held, again = teller.hold.remote(), teller.hold_again.remote()
    cluster.settle()
    door.restart(teller)
    late = teller.again.remote(3)
    cluster.until(lambda: cluster.process_of(teller).is_away)
    lost = teller.keep.remote(4)
    with pytest.raises(door.Unavailable):
        door.get(held)
    with pytest.raises(door.Unavailable):
        door.get(lost)
    assert door.get(late) == 3
    assert door.get(teller.who.remote())[::3] == ("teller", ["first"])
    assert door.get(teller.who.remote())[1], "it was restarted"
    cluster.settle()
    assert not door.wait([again], timeout=0)[0]
    assert state.was_just_away(teller, 30.0)


def test_a_process_that_is_killed_for_good_does_not_come_back(cluster):
    teller = make("teller", restarts=True)
    door.get(teller.keep.remote(1))
    door.kill(teller)
    with pytest.raises(door.Died):
        door.get(teller.again.remote(1))


def test_the_name_of_the_dead_is_free_when_ray_has_heard_of_it_and_no_sooner(cluster):
    teller = make()
    door.get(teller.keep.remote(1))
    with pytest.raises(door.NameUsed):
        make()
    cluster.die(cluster.process_of(teller))
    assert cluster.named["teller"], "nobody has heard yet"
    cluster.settle()
    with pytest.raises(ValueError, match="no process"):
        door.find("teller")
    assert make() != teller


def test_one_that_is_being_made_is_found_and_got_if_it_exists(cluster):
    teller = make()
    assert door.find("teller") == make(get_if_exists=True) == teller
    assert state.actors_in_the_making() == {state.actor_id(teller)}
    assert door.get(teller.keep.remote(1)) == [1]
    assert state.actors_in_the_making() == set()


@pytest.mark.parametrize("is_held", [True, False])
def test_the_death_of_an_owner_is_told_only_while_somebody_holds_its_reference(cluster, is_held):
    teller, other = make(), cluster.new_program("other")
    cluster.act_as(other)
    teller.take.remote([teller.hold.remote()])
    cluster.settle()
    cluster.act_as(cluster.program)
    if not is_held:
        door.get(teller.drop.remote())
    cluster.die(other)
    cluster.settle()
    assert Teller.log == ([door.OwnerDied] if is_held else [])
    assert state.gone({"other": f"{other.run.worker}/{other.run.node}".encode()}) == ["other"]


def test_a_constructor_that_raises_ends_its_process(cluster):
    teller = door.make(Wrong, GROUPS, "wrong", restarts=True)
    with pytest.raises(door.Raised, match="it cannot begin"):
        door.get(teller.anything.remote())


class Wrong:
    def __init__(self):
        raise ValueError("it cannot begin")

    @door.method("some", again=True)
    def anything(self):
        pass


def test_an_assertion_that_fails_in_a_process_ends_the_test_though_another_one_hears_of_it(cluster):
    make().fail.remote(AssertionError("never so"))
    with pytest.raises(AssertionError, match="never so"):
        cluster.settle()


# A process of its own ------------------------------------------------------------------------------------------------


def test_each_process_has_its_own_globals_node_and_name(cluster):
    from rayshot.runtime.opening import ports

    ports._begun.append("of the program")
    tellers = [make(str(number)) for number in range(3)]
    found = door.get([teller.who.remote() for teller in tellers])
    assert [name for name, *_ in found] == ["0", "1", "2"]
    assert {node for *_, node, _ in found} == set(cluster.nodes)
    cluster.act_as(cluster.new_program("other"))
    assert ports._begun == []
    cluster.act_as(cluster.program)
    assert ports._begun == ["of the program"]


def test_a_node_that_is_gone_takes_its_processes_along_and_one_that_may_be_anywhere_is_started_on_another(cluster):
    first, node = make("first", restarts=True), cluster.nodes[0]
    bound = make("bound", restarts=True, node=node)
    door.get([first.keep.remote(1), bound.keep.remote(1)])
    cluster.die_with_node(door.get(first.who.remote())[2])
    assert door.get(first.again.remote(1)) == 1


def test_notes_are_kept_by_their_keys(cluster):
    for key in ("a/1", "a/2", "b/1"):
        door.write_note(key, key.encode())
    door.remove_note("a/2")
    assert (door.note_keys("a/"), door.read_note("a/2"), door.read_note("b/1")) == (["a/1"], None, b"b/1")
    door.remove_notes("a/")
    assert door.note_keys("") == ["b/1"]


# The same again ------------------------------------------------------------------------------------------------------


def test_a_seed_says_all_that_happens_and_its_numbers_can_be_replayed():
    def play(choices):
        Teller.log = []
        with fake(choices) as cluster:
            cluster.fates_of_calls = ("arrives", "twice", "lost")
            tellers = [make(str(number), restarts=True) for number in range(3)]
            answers = [teller.again.remote(number) for number, teller in enumerate(tellers * 5)]
            door.restart(tellers[0])
            door.get(answers)
            return list(Teller.log), cluster.schedule.now_s

    assert play(Choices.of_seed(3)) == play(Choices.of_seed(3))
    assert play(Choices.of_seed(3)) != play(Choices.of_seed(4))
    assert play([])[0] == sorted(play([])[0])


def test_outside_of_the_fake_all_is_as_before():
    from rayshot.runtime.coordinator import clock

    with fake():
        assert clock.time is threads.TIME
    assert clock.time is time
    assert door.get.__module__.startswith("ray")
