"""A running system that is traced for a while: what happened between two snapshots is proved, and nothing else is."""

import threading
import time

import pytest
import ray

import rayshot
from rayshot.audit import prove
from rayshot.audit.proof import trace_of
from rayshot.errors import ConfigError
from rayshot.keys.finder import find_key
from tests.runtime.test_runtime_tracing import cyclic_flow, dag_with_two_sources, ring, stop
from tests.runtime.traced import Delegate, Sleeper, Station
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("flow", [ring, dag_with_two_sources, cyclic_flow])
def test_each_window_of_a_system_that_runs_is_proved(new_system, flow):
    """Stages of a flow make actors in the windows, too, and drop others, which cannot be run again.

    Those of the cyclic flow make so many that some lived before a window without a trace: that may leave no answer.
    """
    system = new_system()
    flow()
    time.sleep(0.5)  # channels, and tells that wait in them, are older than the first window
    windows = [system.trace(0.5, full=True) for _ in range(2)]
    stop(system)
    snapshots = system.snapshots()
    assert [snapshot.id for snapshot in snapshots[1::2]] == [window.id for window in windows]
    for window in windows:
        proof = prove(window, snapshots, replay=True, keys=[find_key()])
        assert proof.finding("cut equation").holds, proof
        assert proof.sound, proof
        if flow is cyclic_flow:
            continue
        assert (proof.finding("vector clocks").holds, proof.finding("theorem 1").holds) == (True, True), proof
        assert not proof.finding("theorem 1").detail.startswith("0 events before")
        replays = {True} if flow is ring else {True, None}  # a window may have nobody in it that was made or dropped
        assert proof.finding("replay").holds in replays, proof
    later = system.snapshot()  # it may hold the last of what ended in a window
    assert later.actors.keys().isdisjoint(trace.actor for trace in later.manifest.traces)


def test_plain_tells_over_handles_that_are_older_than_the_window_are_in_it_each_with_its_handler(new_system):
    system = new_system()
    ring()
    time.sleep(0.3)
    window = system.trace(0.3)
    handled = [
        event
        for name, history in trace_of(window, system.snapshots()).histories.items()
        for event in history.events
        if getattr(event, "method", None) == "take"
    ]
    assert handled
    assert all(len(event.receivers) == 1 for event in handled)  # each token that is taken is passed on


def test_what_threads_send_during_a_window_is_proved(new_system):
    system = new_system()
    delegate = Delegate.options(name="delegate").remote()
    ray.get(delegate.total.remote())
    taken = []
    tracing = threading.Thread(target=lambda: taken.append(system.trace(1.0, full=True)))
    tracing.start()
    eventually(lambda: len(system.snapshots()) == 1 or None)
    delegate.add.tell(2, delegate)
    eventually(lambda: ray.get(delegate.total.remote()) == 3)
    tracing.join()
    assert prove(taken[0], system.snapshots()).finding("theorem 1").holds


@pytest.mark.wide("slow")
def test_an_actor_that_is_busy_has_no_trace_and_harms_none_and_one_that_comes_later_has_one(new_system):
    system = new_system()
    sleeper, station = Sleeper.options(name="sleeper").remote(), Station.options(name="station").remote()
    ray.get([sleeper.ready.remote(), station.ready.remote()])
    sleeper.sleep.tell(7.0)
    taken = []
    tracing = threading.Thread(target=lambda: taken.append(system.trace(0.5)))
    tracing.start()
    eventually(lambda: len(system.snapshots()) == 1 or None, 30)
    Station.options(name="later").remote()
    tracing.join()
    assert {"station", "later"} <= {trace.actor for trace in taken[0].manifest.traces}
    assert prove(taken[0], system.snapshots()).finding("cut equation").holds
    assert system.snapshot().manifest.traces == ()


def test_who_cannot_trace_is_told_why(new_system):
    system = new_system(trace=True)
    with pytest.raises(ConfigError, match="traced all the time"):
        system.trace()
    for seconds in (0, -1, float("nan"), 601, "5", True):
        with pytest.raises(ConfigError, match="seconds="):
            system.trace(seconds)
    with pytest.raises(ConfigError, match="full="):
        system.trace(full=1)


@pytest.mark.wide("slow")
def test_one_window_at_a_time_and_another_one_when_the_first_has_failed(new_system):
    system = new_system(snapshots=rayshot.SnapshotConfig(timeout_s=2.0))
    sleeper = Sleeper.options(name="sleeper").remote()
    ray.get(sleeper.ready.remote())
    failed = []

    def trace():
        try:
            system.trace(0.1)
        except rayshot.errors.SnapshotAborted as error:
            failed.append(error)

    sleeper.sleep.tell(9.0)
    tracing = threading.Thread(target=trace)
    tracing.start()
    time.sleep(0.5)
    with pytest.raises(ConfigError, match="another program traces this system now"):
        system.trace(0.1)
    tracing.join()
    assert [error.evidence["reason"] for error in failed] == ["timeout"]
    ray.get(sleeper.ready.remote())
    assert {trace.actor for trace in system.trace(0.1).manifest.traces} == {"sleeper"}
