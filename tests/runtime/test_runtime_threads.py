"""Threads that an actor starts itself: what they send leaves at once, and every snapshot counts it."""

import os
import re
import subprocess
import sys

import pytest
import ray

import rayshot
from rayshot.audit import prove
from rayshot.runtime.channel.outbox import OUTBOX_MESSAGES_MAX
from tests.processes import ROOT, search_path
from tests.runtime.threaded import Announcer, Caller, Dealer
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("X13")]
MODES = ("chandy-lamport", "aligned", "stop-the-world")
COINS = 100


@pytest.fixture
def callers(system):
    callers = [Caller.options(name=name).remote() for name in ("alice", "bob")]
    ray.get([caller.noted.remote() for caller in callers])
    return callers


def test_a_call_of_a_thread_leaves_though_no_handler_runs(callers, tmp_path):
    alice, bob = callers
    ray.get(alice.call_in_thread.remote(str(tmp_path / "gate"), bob, 1, 2))
    (tmp_path / "gate").touch()
    eventually(lambda: ray.get(bob.noted.remote()) == [1, 2])


def test_a_call_of_a_thread_to_its_own_actor_wakes_it(callers, tmp_path):
    alice, _ = callers
    ray.get(alice.call_in_thread.remote(str(tmp_path / "gate"), alice, 1))
    (tmp_path / "gate").touch()
    eventually(lambda: ask(alice, lambda process: process.cell.instance.heard) == [1])


def test_a_call_of_a_thread_does_not_wait_for_the_handler_that_runs(callers, tmp_path):
    alice, bob = callers
    stays = alice.call_in_thread_and_stay.remote(bob, 1, str(tmp_path / "gate"))
    eventually(lambda: ray.get(bob.noted.remote()) == [1])
    (tmp_path / "gate").touch()
    ray.get(stays)


def test_a_reply_is_of_no_use_in_a_thread_and_says_what_is(callers):
    alice, bob = callers
    ray.get(alice.use_reply_in_thread.remote(bob))
    by_thread, by_handler = ray.get(alice.noted.remote())
    assert by_thread == by_handler
    assert by_thread.startswith("OutsideHandler(")
    assert "call in a handler" in by_thread
    assert "tell" in by_thread
    eventually(lambda: sorted(ray.get(bob.noted.remote())) == ["by the handler", "by the thread"])


def test_what_a_thread_sends_behind_a_call_of_the_running_handler_waits_for_it_and_lets_it_have_its_reply(callers):
    alice, bob = callers
    ray.get(alice.call_before_thread.remote(bob, alice))
    eventually(lambda: len(ray.get(bob.noted.remote())) == 3)
    assert ray.get(bob.noted.remote()) == ["1 by the handler", "2 by the thread", "3 by the thread"]
    eventually(lambda: ray.get(alice.noted.remote()) == ["answered"])


def test_a_thread_that_floods_one_who_takes_nothing_waits_for_room_and_the_handlers_of_its_actor_do_not(
    callers, tmp_path
):
    alice, bob = callers
    bob.stay.tell(str(tmp_path / "gate"))
    alice.flood_in_thread.tell(bob, OUTBOX_MESSAGES_MAX + 20_000)
    waiting, congestion = (
        lambda process: len(process.channels.out["bob"].pending),
        lambda process: len(process.channels.congestion),
    )
    eventually(lambda: "bob" in ask(alice, lambda process: list(process.channels.out)))
    eventually(lambda: ask(alice, waiting) > OUTBOX_MESSAGES_MAX, 60)
    assert ray.get(alice.noted.remote()) == []
    assert ask(alice, congestion) == 0
    assert ask(alice, waiting) < OUTBOX_MESSAGES_MAX + 5_000
    (tmp_path / "gate").touch()
    everything = list(range(OUTBOX_MESSAGES_MAX + 20_000))
    eventually(lambda: ray.get(bob.noted.remote()) == everything, 60)


@pytest.mark.acceptance("C7")
def test_two_actors_whose_outboxes_to_each_other_are_both_full_go_on(system, callers, tmp_path):
    """An actor waits a moment only for room, or each would wait for the other: an outbox has no hard limit."""
    alice, bob = callers
    count = OUTBOX_MESSAGES_MAX + 20_000
    bob.stay.tell(str(tmp_path / "gate"))
    alice.flood.tell(bob, count)
    bob.flood.tell(alice, count)
    eventually(lambda: ask(alice, lambda process: process.channels.out["bob"].full), 60)
    shown = system.status().actors
    assert shown["alice"].outbox > OUTBOX_MESSAGES_MAX
    assert (shown["bob"].handler, shown["bob"].mailbox > 0) == ("stay", True)
    (tmp_path / "gate").touch()
    for caller in callers:
        eventually(lambda caller=caller: ray.get(caller.noted.remote()) == list(range(count)), 60)


def ask(actor, question):
    """The answer of the actor's process, past its mailbox: a message would wake it."""
    host = ray.get(ray.get_actor(f"rayshot/{actor._system}", namespace="rayshot").actors.remote())[actor.name]
    return ray.get(host.__ray_call__.remote(lambda self: question(self._process)))


@pytest.mark.wide("slow")
def test_what_a_thread_sends_before_all_are_loaded_leaves_then_with_the_numbers_that_follow(new_system):
    system = new_system()
    bob = Caller.options(name="bob").remote()
    announcer = Announcer.options(name="announcer").remote(bob)
    announcer.meet.tell(announcer)
    announcer.say.tell("before")
    eventually(lambda: (ray.get(announcer.counted.remote()), len(ray.get(bob.noted.remote()))) == (1, 2))
    system.snapshot()
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    announcer, bob = restored.get_actor("announcer"), restored.get_actor("bob")
    announcer.say.tell("after")
    everything = [what for what in ("before", "by a thread", "after") for _ in range(2)]
    eventually(lambda: (ray.get(announcer.counted.remote()), ray.get(bob.noted.remote())) == (3, everything))
    sent = {
        receiver: channel.sent
        for (sender, receiver), channel in restored.snapshot().channels.items()
        if sender == "announcer"
    }
    assert sent == {"announcer": 3, "bob": 6}


@pytest.mark.wide("slow")
@pytest.mark.parametrize("trace", [False, True])
def test_threads_that_flood_while_snapshots_are_taken_lose_double_and_disorder_nothing(new_system, trace, in_full):
    dealers, threads, count = 3, 2, 20_000 if in_full else 2_000
    system = new_system(trace=trace)
    names = [f"dealer{n}" for n in range(dealers)]
    actors = [Dealer.options(name=name).remote(COINS) for name in names]
    for actor in actors:
        actor.meet.tell(*actors)  # itself as well
    system.snapshot()
    ray.get([actor.flood.remote(range(threads * n, threads * (n + 1)), count) for n, actor in enumerate(actors)])
    snapshots = []
    while any(ray.get([actor.is_flooding.remote() for actor in actors])):
        snapshots.append(system.snapshot(mode=MODES[len(snapshots) % 3]))
    check_end(dict.fromkeys(actors, dict.fromkeys(range(threads * dealers), count)))
    assert any(snapshot.in_flight for snapshot in snapshots)
    rows = {snapshot.id: check_cut(snapshot) for snapshot in snapshots}
    for snapshot in snapshots:
        snapshot.verify()
        if trace:
            proof = prove(snapshot, system.snapshots())
            assert all(finding.holds for finding in proof.findings), proof
    system.shutdown()
    chosen = max(snapshots, key=lambda snapshot: snapshot.in_flight)
    restored = rayshot.restore(system.name, storage=system.storage, snapshot=chosen.id)
    new_system.made.append(restored)
    check_end({restored.get_actor(name): rows[chosen.id][name] for name in names})


def check_end(rows):
    """Each actor comes to have its rows up to these numbers, in order, and all coins are there."""

    def is_over():
        reports = ray.get([actor.report.remote() for actor in rows])
        assert [wrong for _, _, wrong in reports] == [[]] * len(rows)
        return [expected for _, expected, _ in reports] == [*rows.values()] and sum(
            coins for coins, _, _ in reports
        ) == COINS * len(rows)

    eventually(is_over, 120)


def check_cut(snapshot):
    """Each number is in one place: in the state of its receiver, or in order on the way there; and so is each coin.

    Returns per actor how far each row has come.
    """
    states = snapshot.states()
    coins = sum(state["coins"] for state in states.values())
    rows = {name: dict(state["expected"]) for name, state in states.items()}
    for (_, receiver), channel in snapshot.channels.items():
        for message in channel.messages:
            if message.method == "take":
                row, number, *_ = message.args
                assert number == rows[receiver].get(row, 0), (snapshot.id, receiver, row)
                rows[receiver][row] = number + 1
            elif message.method == "earn":
                coins += message.args[0]
    assert coins == COINS * len(states)
    return rows


DRIVER = """
import os, signal, sys, time, ray
system = rayshot.init("squares", storage=sys.argv[1], failure=rayshot.FailureConfig(scope="stop"))
worker = Worker.options(name="worker").remote(range(2_000))
worker.begin.tell(worker)
system.snapshot()
os.kill(system.status().actors["worker"].pid, signal.SIGKILL)
system.shutdown()
system = rayshot.restore(storage=sys.argv[1], failure=rayshot.FailureConfig(scope="stop"))
while (state := system.snapshot().states()["worker"])["jobs"]:
    time.sleep(0.01)
assert state["results"] == {job: job**2 for job in range(2_000)}
system.shutdown()
print("all done")
"""


@pytest.mark.wide("slow")
def test_the_worker_of_the_docs_comes_back_and_leaves_no_job_out(tmp_path):
    (code,) = re.findall(r"```python\n(import threading.*?)```", (ROOT / "docs/threads.md").read_text(), re.DOTALL)
    script = tmp_path / "squares.py"
    script.write_text(code + DRIVER)
    done = subprocess.run(
        [sys.executable, script, tmp_path / "shots"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path, env={**os.environ, **search_path()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "all done" in done.stdout.splitlines()
