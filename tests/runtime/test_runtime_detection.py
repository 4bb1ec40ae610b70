"""Stable properties watched in a living system."""

import threading

import pytest
import ray

from rayshot.errors import ConfigError, NotStable, SnapshotAborted
from rayshot.properties import (
    counter_reached,
    detect,
    invariant,
    judge,
    lost_reply,
    possibly,
    stable,
    termination,
    token_census,
)
from tests.runtime.walking import Asker, Borrower, Oracle, Walker
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def two_walkers():
    one, other = Walker.options(name="one").remote(), Walker.options(name="other").remote()
    one.lead_to.tell(other)
    other.lead_to.tell(one)
    ray.get([one.ready.remote(), other.ready.remote()])
    return one


def test_termination_is_seen_when_it_is_there_and_not_before(system):
    one = two_walkers()
    one.walk.tell(60)
    verdict = system.detect(termination(), interval_s=0.02, within_s=60)
    assert verdict.holds is True
    snapshots = system.snapshots()
    assert verdict.snapshot == snapshots[-1].id
    assert sum(snapshots[-1].state(name)["steps"] for name in ("one", "other")) == 61
    found = detect(snapshots, termination())
    assert (found.holds, found.contradictions) == (True, [])
    assert {one.says_of(verdict) for one in found.verdicts[:-1]} <= {None}
    assert [verdict.says_of(one) for one in snapshots[:-1]] == [None] * (len(snapshots) - 1)
    one.walk.tell(3)
    eventually(lambda: ray.get(one.ready.remote()))
    again = system.snapshot()
    assert verdict.says_of(again) is None, "a driver has spoken"
    assert detect(system.snapshots(), termination()).decisive is None or again.in_flight == 0


def test_a_lost_reply_is_found_and_none_that_is_on_its_way(system):
    asker, oracle = Asker.options(name="asker").remote(), Oracle.options(name="oracle").remote()
    for _ in range(20):
        asker.ask.tell(oracle)
    assert system.detect(lost_reply(), interval_s=0, within_s=0.5).holds is False
    eventually(lambda: ray.get(asker.count.remote()) == 20)
    oracle.leave.tell()
    eventually(lambda: "oracle" not in system.actors())
    asker.ask.tell(oracle)
    ray.get(asker.count.remote())
    verdict = system.detect(lost_reply(), interval_s=0.1, within_s=30)
    assert verdict.holds is True
    assert [(lost["caller"], lost["callee"]) for lost in verdict.evidence["lost"]] == [("asker", "oracle")]


def test_a_token_that_moves_in_replies_is_never_lost_in_a_snapshot(system):
    made = [Borrower.options(name=name).remote(has_token=name == "one") for name in ("one", "other")]
    for actor, following in zip(made, made[::-1], strict=True):
        actor.lead_to.tell(following)
    ray.get([actor.ready.remote() for actor in made])
    made[1].fetch.tell()
    lost = token_census("has_token", "take", expected=0)
    snapshots = [system.snapshot() for _ in range(5)]

    def is_lent():
        snapshots.append(system.snapshot())
        return judge(lost, snapshots[-1]).holds is None

    eventually(is_lent, 60)
    assert {one.holds for one in detect(snapshots, lost).verdicts} <= {False, None}

    def brings(message):
        return message.kind == "reply" and message.args == (True,)

    seen = detect(snapshots, token_census("has_token", brings))
    assert [one.holds for one in seen.verdicts] == [True] * len(snapshots)


def test_it_ends_in_time_and_when_it_is_told_to(system):
    two_walkers()
    never = counter_reached("one", "steps", 10**9)
    assert system.detect(never, interval_s=0.05, within_s=0.2).holds is False
    taken = len(system.snapshots())
    assert taken >= 1
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    assert system.detect(never, interval_s=60, stop=stop).holds is False
    stop.set()
    assert system.detect(never, stop=stop) is None


def test_an_invariant_is_watched_until_it_is_broken(system):
    one = two_walkers()
    few = invariant(lambda state: state.actor("one")["steps"] <= 3, name="few steps")
    assert system.detect(few, interval_s=0.05, within_s=0.2).holds is True
    one.walk.tell(24)
    assert system.detect(few, interval_s=0.05, within_s=30).holds is False


def test_what_cannot_work_is_refused_before_a_snapshot_is_taken(system):
    two_walkers()
    taken = len(system.snapshots())
    for asked in (lambda state: True, possibly(lambda state: True)):
        with pytest.raises(NotStable):
            system.detect(asked)
    for wrong in ({"interval_s": -1}, {"within_s": float("nan")}, {"interval_s": "1"}):
        with pytest.raises(ConfigError, match="give seconds"):
            system.detect(stable(lambda state: True), **wrong)
    assert len(system.snapshots()) == taken


def test_an_aborted_snapshot_is_followed_by_another_one():
    from rayshot.runtime.opening.detect import watch
    from tests.properties.builders import Actor, snapshot_of

    outcomes = [SnapshotAborted("lost"), SnapshotAborted("lost"), snapshot_of({"alice": Actor()})]

    def take():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert watch(take, termination(), 0, None, None).holds is True
    outcomes += [SnapshotAborted("lost")]
    with pytest.raises(SnapshotAborted):
        watch(take, termination(), 10, 1, None)
