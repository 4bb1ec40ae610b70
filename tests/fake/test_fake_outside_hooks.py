"""Hooks that are written otherwise than the page says, and what the runtime makes of them."""

import asyncio
from itertools import pairwise
from typing import ClassVar

import pytest

import rayshot
from rayshot.errors import ConfigError, OutsideFailed, SnapshotAborted, SystemStopped
from rayshot.model.configuration import SnapshotConfig
from rayshot.model.specification import check_given
from tests.fake.account import photograph
from tests.fake.system import actor, await_life, read
from tests.fake.threads import TIME


class Unspeakable(Exception):
    def __repr__(self):
        raise RuntimeError("it does not say")


@rayshot.actor(capture="inline")
class Odd:
    """Does at each hook what the test says, and notes what it hears."""

    acts: ClassVar = {}
    heard: ClassVar = []

    def __init__(self):
        self.numbers = {"n": 0}

    def add(self):
        self.numbers["n"] += 1

    def read(self):
        return dict(self.numbers)

    def on_snapshot(self, cut):
        act = self.acts.get("on_snapshot")
        return self.numbers if act is None else act(cut)

    def on_commit(self, cut):
        self.heard.append((dict(cut.payload or {}), cut.cancelled.is_set()))
        act = self.acts.get("on_commit")
        return None if act is None else act(cut)


@rayshot.actor(capture="inline", max_concurrency=4)
class Busy:
    heard: ClassVar = []
    failures = 0

    async def work(self):
        await asyncio.sleep(1)

    async def read(self):
        return True

    def on_snapshot(self, cut):
        return "a payload"

    def on_commit(self, cut):
        if type(self).failures:
            type(self).failures -= 1
            raise ConnectionError("away")
        self.heard.append(cut.payload)


@rayshot.actor(capture="inline")
class Without(Odd):
    on_snapshot = on_commit = None


@pytest.fixture
def odd(system):
    Odd.acts, Odd.heard = {}, []
    made = Odd.options(name="odd").remote()
    read(made)
    return made


def test_a_payload_is_what_the_state_was_at_the_cut_whatever_the_actor_does_next(cluster, system, odd):
    odd.add.tell()
    read(odd)
    taken = system.snapshot()
    for _ in range(3):
        odd.add.tell()
    read(odd)
    cluster.settle()
    assert taken.outside["odd"].payload == {"n": 1}
    assert Odd.heard == [({"n": 1}, False)]


@pytest.mark.parametrize("hook", ["on_snapshot", "on_commit"])
def test_a_coroutine_function_is_not_taken_for_one_that_has_run(cluster, system, odd, hook):
    async def later():
        raise AssertionError("nobody runs it")

    Odd.acts[hook] = lambda _cut: later
    if hook == "on_snapshot":
        with pytest.raises(OutsideFailed, match="return a plain function, which runs on a thread"):
            system.snapshot()
    else:
        system.snapshot()
        cluster.settle()
        assert "return a plain function" in system.status().outside["odd"].trouble


def test_on_commit_that_returns_neither_a_function_nor_nothing_is_not_done(cluster, system, odd):
    Odd.acts["on_commit"] = lambda _cut: 7
    system.snapshot()
    cluster.settle()
    assert "returned int, and may return a function or nothing" in system.status().outside["odd"].trouble


@pytest.mark.parametrize("hook", ["on_snapshot", "on_commit"])
def test_an_error_that_cannot_be_shown_costs_no_more_than_another_one(cluster, system, odd, hook):
    def act(_cut):
        def work():
            if Odd.acts:
                raise Unspeakable

        return work

    Odd.acts[hook] = act
    if hook == "on_snapshot":
        with pytest.raises(OutsideFailed, match="raised Unspeakable"):
            system.snapshot()
    else:
        system.snapshot()
        cluster.settle()
        assert "raised Unspeakable" in system.status().outside["odd"].trouble
    Odd.acts.clear()
    system.snapshot()
    cluster.until(lambda: not system.status().outside)


def test_the_error_of_another_system_that_is_down_costs_the_snapshot_alone(system, odd):
    def act(_cut):
        raise SystemStopped("another one")

    Odd.acts["on_snapshot"] = act
    with pytest.raises(OutsideFailed, match="another one"):
        system.snapshot()
    assert system.status().incarnation == 1


def test_a_commit_whose_coordinator_died_is_not_told_as_cancelled(cluster, system, odd):
    cluster.failpoints["before_announce"] = 1
    with pytest.raises(rayshot.errors.RayshotError):
        system.snapshot()
    cluster.settle()
    cluster.until(lambda: Odd.heard == [({"n": 0}, False)])


def test_a_function_of_on_commit_hears_when_its_life_is_over(cluster, system, odd):
    cuts = []

    def act(cut):
        cuts.append(cut)

        def work():
            raise ConnectionError("away")

        return work

    Odd.acts["on_commit"] = act
    other = Odd.options(name="other").remote()
    read(other)
    system.snapshot()
    cluster.until(lambda: cuts)
    first = cuts[0]
    cluster.die(actor(cluster, "other" if first.actor == "odd" else "odd"))
    await_life(cluster, system, 2)
    assert first.cancelled.is_set()


def test_actors_with_handlers_at_once_are_told_while_their_loop_runs(cluster, system):
    Busy.heard.clear()
    busy = Busy.options(name="busy").remote()
    read(busy)
    for _ in range(3):
        busy.work.tell()
    system.snapshot()
    for _ in range(3):
        busy.work.tell()
    system.snapshot()
    cluster.until(lambda: Busy.heard)
    assert {*Busy.heard} == {"a payload"}


def test_coroutine_hooks_are_refused_where_handlers_run_at_once():
    class Refused:
        async def work(self):
            """A handler."""

        async def on_snapshot(self, cut):
            """A hook."""

    with pytest.raises(ConfigError, match=r"Refused\.on_snapshot is a coroutine function, and with max_concurrency=2"):
        check_given(Refused, {"max_concurrency": 2})


def test_a_subclass_takes_hooks_away_with_none(cluster, system):
    without = Without.options(name="without").remote()
    read(without)
    assert not system.snapshot().outside
    without.add.tell()
    assert read(without) == {"n": 1}


def failing(cluster, where):
    """`on_commit`, or its function, raises until it is cleared; returns when each was called."""
    at = []

    def fail(_cut=None):
        at.append(cluster.schedule.now_s)
        if Odd.acts:
            raise ConnectionError("away")

    Odd.acts["on_commit"] = fail if where == "on_commit" else lambda _cut: fail
    return at


@pytest.mark.parametrize("where", ["on_commit", "its function"])
def test_on_commit_that_raises_is_called_again_with_longer_pauses_though_nothing_else_happens(
    cluster, system, odd, where
):
    at = failing(cluster, where)
    system.snapshot()
    cluster.schedule.pass_s(100.0)
    assert [round(later - before, 1) for before, later in pairwise(at)] == [0.1, 0.5, 1.0, 5.0, 30.0, 30.0, 30.0]
    assert "away" in system.status().outside["odd"].trouble
    Odd.acts.clear()
    cluster.schedule.pass_s(30.0)
    assert not system.status().outside


@pytest.mark.parametrize("where", ["on_commit", "its function"])
def test_a_newer_commit_is_tried_at_once_and_begins_with_short_pauses(cluster, system, odd, where):
    at = failing(cluster, where)
    system.snapshot()
    cluster.schedule.pass_s(50.0)
    at.clear()
    system.snapshot()
    cluster.schedule.pass_s(0.2)
    assert len(at) == 2


def test_a_stop_waits_for_on_commit_that_raises_and_tries_it_every_five_seconds(cluster, system, odd):
    failing(cluster, "on_commit")
    cluster.schedule.at(cluster.schedule.now_s + 20.0, Odd.acts.clear)
    began_s = cluster.schedule.now_s
    system.stop_with_savepoint("end")
    assert 20.0 <= cluster.schedule.now_s - began_s <= 25.0


def test_on_commit_is_called_again_between_the_handlers_of_a_busy_actor(cluster, system):
    busy = Busy.options(name="busy").remote()
    read(busy)
    Busy.heard.clear()
    Busy.failures = 3
    system.snapshot()
    for _ in range(100):
        busy.work.tell()
        cluster.schedule.pass_s(0.3)
    assert Busy.heard == ["a payload"]


@pytest.mark.parametrize("hook", ["on_snapshot", "on_commit"])
def test_the_status_says_in_which_hook_an_actor_has_been_for_how_long(cluster, system, odd, hook):
    Odd.acts[hook] = lambda _cut: TIME.sleep(300.0)
    photograph(system)
    cluster.schedule.pass_s(100.0)
    status = system.status()
    assert status.actors["odd"].handler == hook
    assert f"{hook} of actor 'odd' has run for 1" in status.detail
    if hook == "on_snapshot":
        method, seconds = status.snapshots[0].handlers["odd"]
        assert (method, round(seconds, -1)) == ("on_snapshot", 100.0)


def test_snapshots_behind_a_function_that_does_not_end_say_so_with_its_age(cluster, system, odd):
    system.configure(SnapshotConfig(timeout_s=10.0))
    Odd.acts["on_snapshot"] = lambda _cut: lambda: TIME.sleep(10_000.0)
    for age in (10, 20):
        with pytest.raises(SnapshotAborted, match=rf"not durable after 10 s: on_snapshot of 'odd' has run for {age}"):
            system.snapshot()
        Odd.acts["on_snapshot"] = lambda _cut: 1
