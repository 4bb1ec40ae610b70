"""Snapshots of running systems: exact, consistent, explained when they fail."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import ray

import rayshot
import rayshot.errors
from rayshot.errors import SnapshotAborted
from rayshot.runtime.driver import drain
from rayshot.runtime.wire.orders import Issuer
from tests.runtime.workloads import Account, Holder, Sink, Sluggish, Source
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def test_a_snapshot_with_more_in_flight_than_may_be_is_aborted_and_the_next_one_commits(new_system):
    system = new_system(snapshots=rayshot.SnapshotConfig(max_in_flight_bytes=300_000))
    account = Account.options(name="busy").remote(0)
    ray.get(account.read.remote())
    account.pause.tell(1.0)
    for _ in range(10):
        account.remember.tell(b"x" * 50_000)
    with pytest.raises(SnapshotAborted, match=r"busy.* bytes of messages in flight are here") as aborted:
        system.snapshot()
    assert aborted.value.evidence["reason"] == "too_much_in_flight"
    ray.get(account.read.remote())
    assert system.snapshot().in_flight == 0


def test_who_joins_later_takes_late_news_of_an_ended_snapshot_for_what_it_is(system):
    ray.get(Account.options(name="old").remote(0).read.remote())
    for _ in range(3):
        ended = system.snapshot()
    young = Account.options(name="young").remote(0)
    ray.get(young.read.remote())
    host = ray.get(system._identity.coordinator.actors.remote())["young"]
    now = Issuer(1, ray.get(system._identity.coordinator.__ray_call__.remote(lambda self: self._life.term)))
    ray.get(
        host.begin.remote(now, ended.id, 0, frozenset(), False)
    )  # as by a marker of one who has not heard of its end
    young.leave.tell()
    assert eventually(lambda: set(system.actors()) == {"old"} or None)


@pytest.mark.wide("slow")
def test_what_a_sender_keeps_for_a_snapshot_that_it_cannot_record_yet_is_bounded(new_system):
    system = new_system(snapshots=rayshot.SnapshotConfig(max_in_flight_bytes=1_000_000))
    source, sink = Account.options(name="source").remote(0), Account.options(name="sink").remote(0)
    ray.get([source.read.remote(), sink.read.remote()])
    source.flood.tell(sink, 40, 100_000, 0.1)  # one handler of four seconds: the sink records long before it ends
    with pytest.raises(SnapshotAborted, match=r"source: .* bytes of messages in flight are here") as aborted:
        system.snapshot()
    assert aborted.value.evidence["reason"] == "too_much_in_flight"
    assert ray.get(source.read.remote()) == 0
    snapshot = system.snapshot()
    assert snapshot.verify().sound


def money(snapshot):
    """All balances, and what is on its way from one account to another."""
    held = sum(state["balance"] for state in snapshot.states().values())
    moving = sum(
        message.args[0]
        for channel in snapshot.channels.values()
        for message in channel.messages
        if message.method == "deposit"
    )
    return held, moving


def test_a_snapshot_holds_every_state_and_every_message_in_flight(system):
    alice, bob = Account.options(name="alice").remote(100), Account.options(name="bob").remote(100)
    ray.get([alice.read.remote(), bob.read.remote()])
    bob.pause.tell(1.0)
    for _ in range(5):
        alice.transfer.tell(bob, 10)
    ray.get(alice.read.remote())
    snapshot = system.snapshot()
    assert snapshot.states() == {"alice": {"balance": 50}, "bob": {"balance": 100}}
    channel = snapshot.channel("alice", "bob")
    assert (channel.sent, channel.received) == (5, 0)
    assert [(m.number, m.method, m.args) for m in channel.messages] == [(n, "deposit", (10,)) for n in range(1, 6)]
    assert snapshot.id == (1, "coordinator", 1)
    assert snapshot.verify().trust.value == "trusted"


def test_a_driver_that_only_calls_forgets_snapshots_that_ended(system):
    alice = Account.options(name="alice").remote(0)
    for _ in range(6):
        last = system.snapshot()
        ray.get(alice.read.remote())
    ray.get(alice.read.remote())
    assert system._port.session.await_taken(system._port.session.told(), 30) == []
    tags = system._port.session.machine.tags
    assert {*tags} <= {last.id}  # of its end alice may hear with the next one's beginning only


def test_an_actor_that_a_driver_made_before_is_in_the_cut_with_its_state(system):
    Account.options(name="alice").remote(100)
    Sluggish.options(name="bob").remote(1.5)
    assert system.snapshot().states() == {"alice": {"balance": 100}, "bob": {"slept": 1.5}}


def test_nobody_hears_of_an_actor_whose_creation_could_be_outside_of_the_cut(system, monkeypatch):
    monkeypatch.setattr(drain, "BIRTH_S", 0.5)
    alice = Account.options(name="alice").remote(100)
    assert ray.get(alice.read.remote()) == 100
    waiting = Account.options(name="waiting", resources={"moon": 1}).remote(0)  # Ray has no place for it
    alice.deposit.tell(1)
    alice.transfer.tell(waiting, 10)
    alice.keep.tell({"friend": [waiting]})
    snapshot = system.snapshot()
    assert snapshot.states() == {"alice": {"balance": 101}}
    assert list(snapshot.actors) == ["alice"]
    snapshot.verify()
    assert system.status().aborted == 0


@pytest.mark.wide("slow")
def test_an_actor_whose_process_hangs_delays_only_what_needs_it(new_system, monkeypatch, caplog):
    monkeypatch.setattr("rayshot.runtime.driver.coordinator_client.ANSWER_S", 0.5)
    system = new_system(snapshots=rayshot.SnapshotConfig(timeout_s=1.5))
    alice, bob = (Account.options(name=name).remote(1) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    pid = system.status().actors["bob"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert ray.get(system.get_actor("alice").read.remote()) == 1
        assert not caplog.messages
        assert sorted(system.actors()) == ["alice", "bob"]
        assert caplog.messages == ["no answer within 0.5 s from bob: does the process hang?"]
        assert system.dead_letters() == []
        assert system.topology() == {"alice": (), "bob": ()}
        with pytest.raises(SnapshotAborted, match="not recorded: bob"):
            system.snapshot()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ray.get(bob.read.remote()) == 1
    assert list(system.snapshot().states()) == ["alice", "bob"]


def test_money_is_conserved_in_every_snapshot_of_a_busy_bank(system):
    names = [f"account{n}" for n in range(6)]
    accounts = [Account.options(name=name).remote(1000) for name in names]
    for _ in range(15):
        for n, account in enumerate(accounts):
            for _ in range(20):
                account.transfer.tell(accounts[(n + 1) % 6], 1)
                account.transfer.tell(accounts[(n + 2) % 6], 2)
        snapshot = system.snapshot()
        snapshot.verify()
        assert sum(money(snapshot)) == 6000


def test_snapshots_under_heavy_traffic_really_hold_messages(system):
    sinks = [Sink.options(name=f"sink{n}").remote() for n in range(3)]
    sources = [Source.options(name=f"source{n}").remote(sinks, 60_000, 100) for n in range(3)]
    for source in sources:
        source.go_on.tell(source)
    snapshots = [system.snapshot() for _ in range(5)]
    for snapshot in snapshots:
        snapshot.verify()
        states = snapshot.states()
        for (sender, receiver), channel in snapshot.channels.items():
            if sender.startswith("source") and receiver.startswith("sink"):
                assert channel.sent == states[sender]["sent"]
                assert channel.received == states[receiver]["next"].get(sender, 1) - 1
                assert [m.args for m in channel.messages] == [
                    (n,) for n in range(channel.received + 1, channel.sent + 1)
                ]
    assert any(snapshot.in_flight > 3 for snapshot in snapshots)


@pytest.mark.acceptance("G20")
def test_a_state_that_cannot_be_captured_aborts_with_its_path_and_the_actor_lives(system):
    alice = Account.options(name="alice").remote(1)
    alice.lock.tell()
    ray.get(alice.read.remote())
    with pytest.raises(SnapshotAborted, match=r"alice\['state'\]\['guard'\]\['conn'\]") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "capture_failed"
    assert ray.get(alice.read.remote()) == 1
    alice.unlock.tell()
    ray.get(alice.read.remote())
    assert system.snapshot().states() == {"alice": {"balance": 1}}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("how", ["fork", "inline", "auto"])
def test_large_states_are_captured_exactly(system, how):
    holder = Holder.options(name="holder", capture=how).remote(5_000_000)
    for step in range(3):
        holder.change.tell(step)
        ray.get(holder.total.remote())
        snapshot = system.snapshot()
        state = snapshot.states()["holder"]
        assert np.array_equal(state["array"], np.arange(5_000_000) + sum(range(step + 1)))
        assert state["array"] is state["again"]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("D10")
def test_a_full_object_store_keeps_no_snapshot_from_its_commit(tmp_path):
    command = [sys.executable, "-m", "tests.runtime.full_object_store", str(tmp_path / "shots")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "committed beside 12 objects, with 40 messages in flight" in run.stdout, run.stdout + run.stderr


def test_a_forked_capture_that_fails_is_followed_by_an_inline_one(system):
    holder = Holder.options(name="holder", capture="fork").remote(10)
    holder.spoil.tell()
    ray.get(holder.total.remote())
    with pytest.raises(SnapshotAborted, match="spoilt"):
        system.snapshot()
    holder.mend.tell()
    ray.get(holder.total.remote())
    assert "array" in system.snapshot().states()["holder"]


def test_a_long_handler_is_named_while_it_delays_a_snapshot_also_where_it_was_called(system):
    alice, bob, _ = (Account.options(name=name).remote(1) for name in ("alice", "bob", "carol"))
    ray.get([alice.read.remote(), bob.read.remote()])
    alice.pause.tell(3.0)
    called = bob.pause.remote(seconds=3.0)
    taken = []
    photographer = threading.Thread(target=lambda: taken.append(system.snapshot()))
    photographer.start()
    slow = ("alice", "bob")
    (waiting,) = eventually(
        lambda: [s for s in system.status().snapshots if s.missing == slow and len(s.handlers) == len(slow)]
    )
    for method, seconds in waiting.handlers.values():
        assert method == "pause"
        assert 0 <= seconds < 3.0
    ray.get(called)
    photographer.join(60)
    assert [snapshot.id for snapshot in taken] == [(1, "coordinator", 1)]


def test_a_snapshot_that_takes_too_long_is_aborted_and_names_who_did_not_answer(new_system, tmp_path):
    system = new_system(snapshots=rayshot.SnapshotConfig(timeout_s=0.5))
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    alice.pause_until.tell(str(tmp_path / "go on"))
    with pytest.raises(SnapshotAborted, match="alice") as caught:
        system.snapshot()
    (tmp_path / "go on").touch()
    assert caught.value.evidence["reason"] == "timeout"
    assert caught.value.evidence["missing"] == ("alice",)
    (note,) = eventually(lambda: rayshot.open(system.storage).system(system.name).aborts().notes)
    assert (str(note.snapshot), note.reason, note.trigger) == (caught.value.evidence["snapshot"], "timeout", "request")
    assert (note.missing, note.missing_count) == (("alice",), 1)
    assert 0.5 <= note.seconds < 60
    ray.get(alice.read.remote())
    system.configure(rayshot.SnapshotConfig())
    snapshot = system.snapshot()
    snapshot.verify()
    (recording,) = (actor.recording for actor in snapshot.manifest.actors)
    assert recording.node == ray.util.get_node_ip_address()
    assert recording.hold_s == snapshot.manifest.stats["hold_max_s"]
    assert 0 < recording.after_s <= snapshot.manifest.stats["recorded_s"] + 1


@pytest.mark.acceptance("B14")
def test_an_actor_stopped_by_the_kernel_and_continued_does_not_harm_later_snapshots(new_system):
    system = new_system()
    alice = Account.options(name="alice").remote(1)
    Account.options(name="bob").remote(1)
    system.snapshot()
    system.configure(rayshot.SnapshotConfig(timeout_s=0.5))
    pid = system.status().actors["alice"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(SnapshotAborted, match="alice") as aborted:
            system.snapshot()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert aborted.value.evidence["reason"] == "timeout"
    system.configure(rayshot.SnapshotConfig())
    assert ray.get(alice.read.remote()) == 1  # her record of the aborted snapshot has come by now
    assert sorted(system.snapshot().actors) == ["alice", "bob"]
    assert [str(one.id) for one in system.snapshots()] == ["1-coordinator-1", "1-coordinator-3"]


def test_actors_born_during_snapshots_are_whole_or_not_there(system):
    alice = Account.options(name="alice").remote(100)
    ray.get(alice.read.remote())
    for n in range(5):
        alice.open_account.tell(f"child{n}", 10, 5)
        snapshot = system.snapshot()
        snapshot.verify()
        for name, actor in snapshot.actors.items():
            assert actor.status in ("born", "unborn"), name
            if actor.status == "unborn":
                assert snapshot.channel("alice", name).messages[0].kind == "create"
