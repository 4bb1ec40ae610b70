"""Aligned snapshots, and such for which the world stops, of actors in full flow. The fake asks the rest."""

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError
from rayshot.model.configuration import SnapshotConfig
from tests.runtime.workloads import Account, Sink, Source
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


def test_in_a_stopped_world_all_messages_lie_in_mailboxes_and_then_it_goes_on(new_system):
    system = new_system(snapshots=SnapshotConfig(timeout_s=120.0))  # it says whose record is missing
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


def test_an_aligned_snapshot_is_restored_like_any_other(new_system):
    system = new_system()
    flowing(20_000)
    await_known(system)
    snapshot = system.snapshot(mode="aligned")
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage)
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
