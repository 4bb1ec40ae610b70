"""Modes other than the default: aligned snapshots, and such for which the world stops."""

import threading

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import ConfigError, SnapshotAborted
from rayshot.runtime.coordinator import pending_snapshots
from rayshot.runtime.coordinator.requests import SnapshotRequest
from tests.runtime.workloads import Account, Sink, Source, Unfinished
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def flowing(count=60_000):
    """Two sources, each to both sinks, in full flow; and the sources' channels to themselves, which lead back."""
    sinks = [Sink.options(name=f"sink{n}").remote() for n in range(2)]
    sources = [Source.options(name=f"source{n}").remote(sinks, count, 100) for n in range(2)]
    ray.get([actor.ready.remote() for actor in sources])
    for source in sources:
        source.go_on.tell(source)
    return sources


def await_known(system):
    """Until each source has sent to both sinks and itself; before, a snapshot records what came on its channels."""
    eventually(lambda: all(len(system.topology().get(f"source{n}", ())) == 3 for n in range(2)) or None)


def check_aligned(snapshot):
    """All that a source had sent is part of what the sinks counted."""
    snapshot.verify()
    assert snapshot.mode == "aligned"
    states = snapshot.states()
    for (sender, receiver), channel in snapshot.channels.items():
        if sender.startswith("source") and receiver.startswith("sink"):
            assert channel.messages == []
            assert channel.entry.aligned
            assert channel.sent == channel.received == states[sender]["sent"]
            assert states[receiver]["next"][sender] == states[sender]["sent"] + 1


def test_an_aligned_snapshot_of_a_flow_with_two_sources_holds_no_channel_state(system):
    flowing(count=10**9)  # it ends with the system
    await_known(system)
    snapshots = [system.snapshot(mode="aligned") for _ in range(5)]
    for snapshot in snapshots:
        check_aligned(snapshot)
        assert snapshot.id.initiator == "aligned"
    sent = [snapshot.states()["source0"]["sent"] for snapshot in snapshots]
    assert sent == sorted(sent)
    assert sent[0] > 0


def test_periodic_snapshots_are_aligned_where_the_settings_say_so(new_system):
    system = new_system(snapshot=SnapshotConfig(mode="aligned", num_to_keep=100))
    flowing()
    await_known(system)
    system.configure(SnapshotConfig(mode="aligned", interval_s=0.1, num_to_keep=100))
    eventually(lambda: len(system.snapshots()) >= 3 or None)
    for snapshot in system.snapshots():
        check_aligned(snapshot)
    assert system.status().aborted == 0


def test_on_a_cycle_only_the_channel_that_leads_back_holds_messages(system):
    names = ("a", "b", "c")
    accounts = {name: Account.options(name=name).remote(1000) for name in names}
    ring = [("a", "b"), ("b", "c"), ("c", "a")]
    for sender, receiver in ring:
        system.connect(sender, receiver)
    for _ in range(5):
        for sender, receiver in ring * 100:
            accounts[sender].transfer.tell(accounts[receiver], 1)
        snapshot = system.snapshot(mode="aligned")
        snapshot.verify()
        held = sum(state["balance"] for state in snapshot.states().values())
        moving = {
            channel: len([m for m in state.messages if m.method == "deposit"])
            for channel, state in snapshot.channels.items()
        }
        assert held + sum(moving.values()) == 3000
        assert {channel for channel, count in moving.items() if count} <= {("c", "a")}


def test_alignment_that_takes_too_long_turns_into_a_recording(new_system):
    system = new_system(snapshot=SnapshotConfig(alignment_timeout_s=0.3))
    source, slow, sink = (Account.options(name=name).remote(100) for name in ("source", "slow", "sink"))
    ray.get([account.read.remote() for account in (source, slow, sink)])
    system.connect("slow", "sink")
    for _ in range(60):
        source.pause_at.tell(slow, 0.2)
    ray.get(source.read.remote())
    snapshot = system.snapshot(mode="aligned")
    snapshot.verify()
    assert 0 < len(snapshot.channel("source", "slow").messages) < 60


def test_in_a_stopped_world_all_messages_lie_in_mailboxes_and_then_it_goes_on(system):
    sources = flowing()
    sinks = [system.get_actor(f"sink{n}") for n in range(2)]
    for sink in sinks:
        sink.pause.tell(0.3)
    snapshots = [system.snapshot(mode="stop-the-world") for _ in range(4)]
    for snapshot in snapshots:
        snapshot.verify()
        assert (snapshot.mode, snapshot.id.initiator) == ("stop-the-world", "stopped")
        assert [c for c in snapshot.manifest.channels if c.arrived != c.sent] == []
        states = snapshot.states()
        for (sender, receiver), channel in snapshot.channels.items():
            if sender.startswith("source") and receiver.startswith("sink"):
                assert channel.sent == states[sender]["sent"]
                assert channel.received == states[receiver]["next"].get(sender, 1) - 1
    assert any(snapshot.in_flight > 3 for snapshot in snapshots)
    assert eventually(lambda: ray.get([source.progress.remote() for source in sources]) == [60_000] * 2, 60)
    whole = {"source0": 60_000, "source1": 60_000}
    assert eventually(lambda: ray.get([sink.report.remote() for sink in sinks]) == [(whole, [])] * 2, 60)


def test_no_timer_fires_and_no_message_is_handled_while_the_world_stands_still(new_system):
    system = new_system(snapshot=SnapshotConfig(timeout_s=3.0))
    alice, bob = (Account.options(name=name).remote(0) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    bob.pause.tell(5.0)  # as long as it runs the world waits for it
    alice.remind.tell(0.1)

    def photograph():
        with pytest.raises(SnapshotAborted, match="timeout"):
            system.snapshot(mode="stop-the-world")

    photographer = threading.Thread(target=photograph)
    photographer.start()
    eventually(lambda: system.status().snapshots or None)
    for _ in range(5):
        alice.deposit.tell(1)
    read = alice.read.remote()
    assert ray.wait([read], timeout=0.5)[0] == []
    photographer.join()
    assert eventually(lambda: ray.get(alice.read.remote()) == 6 or None)


def test_an_aligned_snapshot_is_restored_like_any_other(new_system):
    system = new_system()
    flowing(20_000)
    await_known(system)
    snapshot = system.snapshot(mode="aligned")
    system.shutdown()
    restored = rayshot.restore(system.storage, system=system.name)
    new_system.made.append(restored)
    assert restored.snapshots()[-1].id == snapshot.id
    whole = {"source0": 20_000, "source1": 20_000}
    for n in range(2):
        sink = restored.get_actor(f"sink{n}")
        assert eventually(lambda sink=sink: ray.get(sink.report.remote()) == (whole, []), 60)


def test_what_a_mode_cannot_do_is_refused(system):
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    with pytest.raises(ConfigError, match="no snapshot mode 'aline'; there is chandy-lamport, aligned, stop"):
        system.snapshot(mode="aline")
    with pytest.raises(ConfigError, match="leave `initiator` and `spread` out"):
        system.snapshot(mode="aligned", initiator="alice")
    with pytest.raises(ConfigError, match="'aligned' cannot name an actor"):
        Account.options(name="aligned")
    assert system.snapshots() == []


def test_alignment_that_was_given_up_is_not_taken_up_again_by_the_next_marker(new_system):
    system = new_system(snapshot=SnapshotConfig(alignment_timeout_s=0.5))
    first, middle, last = (Account.options(name=name).remote(0) for name in ("first", "middle", "last"))
    ray.get([account.read.remote() for account in (first, middle, last)])
    system.connect("first", "middle")
    for _ in range(40):
        middle.pause_at.tell(last, 0.3)
    ray.get(middle.read.remote())
    first.pause.tell(1.5)
    snapshot = system.snapshot(mode="aligned")
    snapshot.verify()
    assert len(snapshot.channel("middle", "last").messages) > 0  # aligned it would hold none


@pytest.mark.wide("slow")
def test_snapshots_of_another_kind_pass_by_one_that_is_aligning(new_system):
    system = new_system(snapshot=SnapshotConfig(max_concurrent=3))
    alice, bob = (Account.options(name=name).remote(0) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    system.connect("alice", "bob")
    alice.pause.tell(5.0)
    threads = [threading.Thread(target=system.snapshot, kwargs={"mode": "aligned"}) for _ in range(2)]
    for thread in threads:
        thread.start()
    eventually(lambda: system.status().snapshots or None)
    bob.photograph.tell()
    eventually(lambda: len(system.status().snapshots) == 2 or None, 4)
    for thread in threads:
        thread.join()
    assert [snapshot.mode for snapshot in system.snapshots()].count("aligned") == 2


def test_who_joins_while_a_snapshot_of_the_stopped_world_is_written_goes_on_when_it_is_committed(system):
    ray.get(Account.options(name="old").remote(1).read.remote())

    def write_when_it_joined(self):
        pending_snapshots.UNSAID_S = 60.0
        intend = self._life.committer._intend
        self._life.committer._intend = lambda *args: (
            eventually(lambda: "young" in self._life.members.hosts, 30) and intend(*args)
        )

    coordinator = ray.get_actor(f"rayshot/{system.name}", namespace="rayshot")
    ray.get(coordinator.__ray_call__.remote(write_when_it_joined))
    photograph = coordinator.snapshot.remote(SnapshotRequest("stop-the-world"))
    eventually(lambda: any(snapshot.recorded for snapshot in system.status().snapshots) or None)
    young = Account.options(name="young").remote(2)
    balance = young.read.remote()
    ray.get(photograph)
    assert ray.get(balance, timeout=20.0) == 2


def test_an_aligned_snapshot_does_not_wait_for_the_marker_of_an_actor_that_failed_to_start(new_system):
    system = new_system(snapshot=SnapshotConfig(timeout_s=20.0))
    stays = Account.options(name="stays").remote(1)
    ray.get(stays.read.remote())
    Unfinished.options(name="fails").remote(2.0)
    system.connect("fails", "stays")
    wanted = SnapshotRequest("aligned")  # the driver's own waits for births
    photograph = system._identity.coordinator.snapshot.remote(wanted)
    record = ray.get(photograph).record
    assert list(rayshot.open(system.storage).systems[system.name].snapshot(record.snapshot).states()) == ["stays"]
    assert set(system.actors()) == {"stays"}
