"""A program is told of answers that it had acted on, and that a later life gives otherwise."""

import asyncio
import logging
import random
import re
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

import rayshot
from rayshot.errors import AnswerChanged, ConfigError
from rayshot.model.configuration import FailureConfig
from rayshot.runtime.door import door, notes
from rayshot.runtime.door.naming import find_coordinator
from rayshot.runtime.driver.changed_answers import LATEST_S
from rayshot.runtime.opening.init import attach_to
from tests.fake.schedule import Choices
from tests.fake.system import actor, await_life, await_stop, begin, coordinator
from tests.fake.threads import TIME, Present, Thread

OUTSIDE = {"value": 0}
"""What actors answer with, and no snapshot has."""
SLOW = {"seconds": 0.0}


@rayshot.actor
class Clock:
    def __init__(self):
        self.told = []

    def now(self):
        if isinstance(OUTSIDE["value"], Exception):
            raise OUTSIDE["value"]
        return OUTSIDE["value"]

    def other(self):
        return OUTSIDE["value"]

    def steady(self):
        return "always"

    def late(self):
        TIME.sleep(SLOW["seconds"])

    def note(self, value):
        self.told.append(value)

    def notes(self):
        return self.told


class Scene:
    """A system with two clocks, c and d, and what its program hears."""

    def __init__(self, cluster, **failure):
        OUTSIDE["value"] = 0
        self.cluster = cluster
        self.system = begin(failure=FailureConfig(backoff_s=0.0, **failure))
        self.c, self.d = (Clock.options(name=name).remote() for name in "cd")
        door.get([one.steady.remote() for one in (self.c, self.d)])
        self.system.snapshot()
        self.heard = []
        self.subscription = self.system.on_changed_answer(self.heard.append)

    def act(self, handle=None):
        """Ask, and send something behind the answer."""
        door.get((handle or self.c).now.remote())
        self.d.note.tell("it was asked")

    def go_back(self, value, *names):
        """The actors of these names die, and OUTSIDE changes."""
        life = self.system.status().incarnation + 1
        OUTSIDE["value"] = value
        for name in names or ("d",):
            self.cluster.die(actor(self.cluster, name))
        await_life(self.cluster, self.system, life)
        self.settle()

    def settle(self, seconds=1.0):
        self.cluster.schedule.pass_s(seconds)

    @contextmanager
    def another(self, label=""):
        """Act as another program, which attaches to the system."""
        here, there = self.cluster.program, self.cluster.new_program("another program")
        self.cluster.act_as(there)
        try:
            yield attach_to("bank", find_coordinator("bank"), label=label)
        finally:
            self.cluster.act_as(here)

    @staticmethod
    def is_refused(*asks):
        """All these raise the error that names the question to c."""
        for ask in asks:
            with pytest.raises(AnswerChanged, match=r"\.now") as raised:
                ask()
            assert (raised.value.evidence["actor"], raised.value.evidence["method"]) == ("c", "now")

    @property
    def changes(self):
        return [(one.actor, one.method, one.before, one.now, one.then, one.count) for one in self.heard]


@pytest.fixture
def scene(cluster):
    return Scene(cluster)


CHANGED = ("c", "now", "0", "1", ("d", "note"), 1)


def test_the_program_is_told_in_its_log_by_a_function_and_by_a_count(scene, caplog):
    scene.act()
    with caplog.at_level(logging.WARNING, "rayshot"):
        scene.go_back(1)
    assert scene.changes == [CHANGED]
    assert (scene.heard[0].life, scene.heard[0].number) == (2, 3)
    assert scene.system.status().changed_answers == 1
    (line,) = [one for one in caplog.messages if "otherwise" in one]
    for part in ("life 2", "1, not 0", "message 3 to 'c' (.now)", "had sent d.note", "rayshot help healing"):
        assert part in line, line


@pytest.mark.parametrize("victim", ["c", "d"])
def test_it_does_not_matter_whether_the_actor_is_in_a_new_process(scene, victim):
    scene.act()
    scene.go_back(1, victim)
    assert scene.changes == [CHANGED]


def test_it_is_told_too_if_the_coordinator_dies_with_the_actor(scene):
    scene.act()
    OUTSIDE["value"] = 1
    scene.cluster.die(actor(scene.cluster, "c"))
    scene.cluster.die(coordinator(scene.cluster))
    scene.cluster.until(lambda: scene.heard)
    assert scene.changes == [CHANGED]


def test_the_same_answers_are_not_told(scene, caplog):
    scene.act()
    door.get(scene.c.steady.remote())
    scene.act()
    with caplog.at_level(logging.WARNING, "rayshot"):
        scene.go_back(0)
    assert (scene.heard, scene.system.status().changed_answers) == ([], 0)
    assert "otherwise" not in caplog.text


def test_an_answer_behind_which_nothing_was_sent_is_told_when_something_is(scene):
    assert door.get(scene.c.now.remote()) == 0
    scene.go_back(1)
    assert scene.heard == []
    scene.d.note.tell("now")
    scene.settle()
    assert scene.changes == [CHANGED]


def test_an_answer_that_had_not_come_before_the_death_is_no_change(scene):
    reference = scene.c.now.remote()
    scene.cluster.die(actor(scene.cluster, "d"))
    OUTSIDE["value"] = 1
    await_life(scene.cluster, scene.system, 2)
    assert door.get(reference) == 1
    scene.d.note.tell("now")
    scene.settle()
    scene.go_back(1, "c")
    assert scene.heard == []


def test_an_error_in_the_place_of_a_value_is_a_change_and_another_text_of_an_error_is_none(scene):
    scene.act()
    scene.go_back(ValueError("one"))
    assert [(one.before, one.now) for one in scene.heard] == [("0", "the error ValueError")]
    scene.go_back(ValueError("two"))
    assert len(scene.heard) == 1
    scene.go_back(5)
    assert [(one.before, one.now) for one in scene.heard[1:]] == [("the error ValueError", "5")]


@dataclass(repr=False)
class Later:
    found: int = field(init=False)


@pytest.mark.parametrize("value", [Later, Later()], ids=["a class", "a value without its field"])
def test_an_answer_that_cannot_be_compared_comes_and_holds_nobody_up(scene, value):
    OUTSIDE["value"] = value
    assert type(door.get(scene.c.now.remote())) is type(value)
    scene.d.note.tell("it was asked")
    scene.go_back(value)
    assert door.get(scene.d.notes.remote()) == ["it was asked"]


def test_many_changes_of_one_method_are_told_once_with_their_number(scene, caplog):
    for _ in range(30):
        scene.act()
        door.get(scene.c.other.remote())
    with caplog.at_level(logging.WARNING, "rayshot"):
        scene.go_back(1)
    counts = {one.method: one.count for one in scene.heard}
    assert counts == {"now": 30, "other": 29}, "nothing was sent behind the last one"
    assert len([one for one in caplog.messages if "otherwise" in one]) == 2
    assert scene.system.status().changed_answers == 59


def test_two_rollbacks_in_a_row_are_told_each_and_one_that_changes_nothing_is_not(scene):
    scene.act()
    scene.go_back(1)
    scene.go_back(1)
    scene.go_back(2)
    assert [(one.life, one.before, one.now) for one in scene.heard] == [(2, "0", "1"), (4, "1", "2")]


def test_what_a_snapshot_holds_is_answered_for_ever(scene):
    scene.act()
    scene.system.snapshot()
    scene.settle()
    scene.go_back(1)
    assert scene.heard == []


def test_a_durable_answer_never_changes(scene):
    reference = scene.c.now.options(durable=True).remote()
    scene.settle()
    scene.system.snapshot()
    assert door.get(reference) == 0
    scene.d.note.tell("now")
    scene.go_back(1, "c")
    assert scene.heard == []


def test_the_function_is_called_on_a_thread_of_its_own_whose_errors_end_nothing_until_it_is_cancelled(scene):
    threads, told = [], []

    def hear(one):
        threads.append(Present.cluster.schedule.current)
        told.append(one.now)
        raise SystemExit

    subscription = scene.system.on_changed_answer(hear)
    scene.act()
    scene.go_back(1)
    scene.go_back(2)
    assert told == ["1", "2"]
    assert len(set(threads)) == 1
    assert threads[0] is not scene.cluster.schedule.main
    subscription.cancel()
    subscription.cancel()
    scene.go_back(3)
    assert (told, len(scene.heard)) == (["1", "2"], 3)


def test_where_the_new_life_takes_long_to_answer_all_again_the_program_is_told_meanwhile_and_again(scene, monkeypatch):
    scene.act()
    door.get(scene.d.late.remote())
    scene.act()
    monkeypatch.setitem(SLOW, "seconds", 4 * LATEST_S)
    OUTSIDE["value"] = 1
    scene.cluster.die(actor(scene.cluster, "c"))
    scene.cluster.until(lambda: scene.heard)
    assert [one.count for one in scene.heard] == [1], "the second question waits for the late answer"
    scene.settle(8 * LATEST_S)
    assert [one.count for one in scene.heard] == [1, 1]
    assert scene.system.status().changed_answers == 2


def test_what_one_thread_of_a_program_got_and_another_one_sent_behind_it_counts(scene):
    def act(deed):
        thread = Thread(deed)
        thread.start()
        thread.join()

    act(lambda: door.get(scene.c.now.remote()))
    scene.go_back(1)
    assert scene.heard == []
    act(lambda: scene.d.note.tell("it was asked"))
    scene.settle()
    assert scene.changes == [CHANGED]


def test_a_program_with_a_name_hears_of_its_own_answers_and_its_successor_of_none_of_them(scene):
    theirs, successors = [], []
    with scene.another("ingest-7") as other:
        other.on_changed_answer(theirs.append)
        door.get(other.get_actor("c").now.remote())
        other.get_actor("d").note.tell("it was asked")
    scene.go_back(1)
    assert [(one.before, one.now, one.then) for one in theirs] == [("0", "1", ("d", "note"))]
    assert scene.heard == []
    scene.cluster.die(next(one for one in scene.cluster.processes.values() if one.name == "another program"))
    scene.settle(30)
    with scene.another("ingest-7") as other:
        other.on_changed_answer(successors.append)
        assert dict(other.told) == {"c": 1, "d": 1}
        other.get_actor("d").note.tell("it goes on")
    scene.go_back(2)
    assert (len(theirs), successors, scene.heard) == (1, [], [])


@pytest.mark.parametrize("callback", [None, 5, asyncio.sleep])
def test_what_cannot_be_called_is_refused(scene, callback):
    with pytest.raises(ConfigError, match="give a function that takes a ChangedAnswer"):
        scene.system.on_changed_answer(callback)


def test_a_system_that_does_not_go_back_by_itself_refuses(cluster):
    with pytest.raises(ConfigError, match=r"does not go back .*scope='system'"):
        begin(failure=FailureConfig(scope="stop")).on_changed_answer(print)


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"on_changed_answer='warm': there are 'warn' and 'stop'.*Did you mean"):
        FailureConfig(on_changed_answer="warm")


def test_with_stop_the_system_stops_and_all_get_an_error_that_names_the_call(cluster):
    scene = Scene(cluster, on_changed_answer="stop")
    scene.act()
    OUTSIDE["value"] = 1
    cluster.die(actor(cluster, "c"))
    detail = await_stop(cluster, scene.system)
    assert re.search(r"life 2 answers a call of driver:\w+ otherwise .*message 3 to 'c' \(.now\).* sent d.note", detail)
    scene.is_refused(
        scene.system.snapshot,
        lambda: scene.d.note.tell("more"),
        lambda: door.get(scene.c.now.remote()),
        lambda: scene.system.get_actor("c"),
    )
    assert scene.changes == [CHANGED]


@pytest.mark.parametrize("steps", [None, 0, 3, 8, 100])
def test_with_stop_the_system_stays_stopped_for_all_if_its_coordinator_dies_before_or_just_behind_that(cluster, steps):
    scene = Scene(cluster, on_changed_answer="stop")
    with scene.another() as other:
        theirs = other.get_actor("d")
    scene.act()
    OUTSIDE["value"] = 1
    cluster.die(actor(cluster, "c"))
    cluster.until(lambda: scene.heard if steps is None else coordinator(cluster).run.instance._life.stopped)
    for _ in range(steps or 0):
        cluster.schedule.step(cluster.schedule.now_s)
    cluster.die(coordinator(cluster))
    detail = await_stop(cluster, scene.system)
    assert "message 3 to 'c' (.now)" in detail
    scene.settle(30)
    scene.is_refused(scene.system.snapshot, lambda: scene.d.note.tell("more"), lambda: scene.system.get_actor("c"))
    scene.is_refused(other.snapshot, lambda: theirs.note.tell("more"), lambda: other.get_actor("c"))
    with scene.another() as late:
        scene.is_refused(late.snapshot, lambda: late.get_actor("c"))
    assert scene.changes == [CHANGED]


def test_the_stop_of_one_system_is_none_of_the_next(cluster):
    scene = Scene(cluster, on_changed_answer="stop")
    scene.act()
    OUTSIDE["value"] = 1
    cluster.die(actor(cluster, "c"))
    await_stop(cluster, scene.system)
    scene.system.shutdown()
    scene.settle()
    assert not notes.of_vain_acts("bank").all()
    after = Scene(cluster, on_changed_answer="stop")
    cluster.die(coordinator(cluster))
    after.settle(30)
    after.act()
    assert after.system.status().state == "running"


@pytest.mark.parametrize("seed", [5, 18, 20, 47])
def test_with_stop_the_system_stops_too_if_it_goes_back_once_more_before_it_hears(cluster, seed):
    scene = Scene(cluster, on_changed_answer="stop")
    scene.act()
    OUTSIDE["value"] = 1
    cluster.schedule.choose = Choices.of_seed(seed)
    cluster.die(actor(cluster, "c"))
    cluster.until(lambda: scene.system._port.session.machine.incarnation == 2)
    for _ in range(seed % 7):
        cluster.schedule.step(cluster.schedule.now_s)
    cluster.die(actor(cluster, "d"))
    scene.settle(60)
    assert scene.heard
    assert "life 2 answers" in await_stop(cluster, scene.system)


def test_with_stop_a_system_whose_answers_are_the_same_goes_on(cluster):
    scene = Scene(cluster, on_changed_answer="stop")
    scene.act()
    scene.go_back(0)
    scene.act()
    scene.settle()
    assert scene.system.status().state == "running"


@pytest.mark.parametrize("seed", range(40))
def test_in_any_story_of_calls_snapshots_and_deaths_a_change_is_told_if_the_program_had_acted_and_no_snapshot_holds_it(
    cluster, seed
):
    chance, acted, victims = random.Random(seed), False, ["c", "d", "cd"]
    scene = Scene(cluster)
    chance.shuffle(victims)
    cluster.schedule.choose = Choices.of_seed(seed)
    for _ in range(12):
        match chance.choice(["ask", "act", "die", "snapshot"]):
            case "ask":
                door.get(scene.c.steady.remote())
            case "act":
                scene.act()
                acted = True
            case "snapshot":
                scene.system.snapshot()
                scene.settle()
                acted = False
            case "die" if victims:
                told, change = len(scene.heard), chance.choice([0, 1])
                scene.go_back(OUTSIDE["value"] + change * acted, *victims.pop())
                scene.settle(2 * LATEST_S)
                assert (len(scene.heard) > told) == (acted and change == 1)
