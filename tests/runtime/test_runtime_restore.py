"""Restoring systems: on fresh actors, from what was committed, all or nothing."""

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from os import kill
from pathlib import Path

import pytest
import ray

import rayshot
import rayshot.errors
from rayshot.errors import (
    BadSignature,
    CodeMismatch,
    ConfigError,
    CorruptChunk,
    RestoreFailed,
    SnapshotNotFound,
    SystemDown,
    SystemNotFound,
    UnknownKey,
)
from rayshot.runtime.door.door import NAMESPACE
from rayshot.runtime.opening.start import start
from rayshot.simulation import SimulatedSystem
from tests.runtime.healed import STOPS, restoring_where, starts_processes
from tests.runtime.hostile import DoomedHost
from tests.runtime.workloads import Account, Holder, Occupant, Renamed, Sink, Source
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def running(system):
    """Names of Ray actors of a system that are left."""
    actors = ray.util.list_named_actors(all_namespaces=True)
    prefix = f"rayshot/{system.name}"
    return [a["name"] for a in actors if a["namespace"] == NAMESPACE and a["name"].startswith(prefix)]


def restore(made, system, **arguments):
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage, **arguments)
    made.append(restored)
    return restored


def test_messages_in_flight_are_delivered_once_and_in_order_after_a_restore(new_system):
    system = new_system()
    sink, source = Sink.options(name="sink").remote(), Source.options(name="source").remote([], 0, 1)
    ray.get([sink.report.remote(), source.progress.remote()])
    sink.pause.tell(1.0)
    for number in range(1, 501):
        sink.take.tell(number)
    snapshot = system.snapshot()
    assert snapshot.in_flight == 500
    restored = restore(new_system.made, system)
    assert restored.incarnation == 2
    counts, wrong = ray.get(restored.get_actor("sink").report.remote())
    assert (list(counts.values()), wrong) == ([500], [])


def test_handles_replies_timers_and_arrays_survive_a_restore(new_system):
    system = new_system()
    alice, bob = Account.options(name="alice").remote(1), Account.options(name="bob").remote(42)
    holder = Holder.options(name="holder").remote(1000)
    ray.get([alice.read.remote(), bob.read.remote(), holder.total.remote()])
    alice.keep.tell({"friend": bob, "me": alice})
    alice.remind.tell(3600.0)
    bob.pause.tell(1.0)
    alice.ask.tell(bob)
    ray.get(alice.read.remote())
    snapshot = system.snapshot()
    recorded = snapshot.recorded("alice")
    assert {call: recorded.callees[call] for call in recorded.calls} == {1: "bob"}
    assert len(recorded.timers) == 1
    restored = restore(new_system.made, system)
    alice, bob = restored.get_actor("alice"), restored.get_actor("bob")
    assert eventually(lambda: ray.get(alice.last_heard.remote())) == ("bob", 42)
    alice.pay_friend.tell(5)
    eventually(lambda: ray.get(bob.read.remote()) == 47)
    assert ray.get(restored.get_actor("holder").total.remote()) == (499_500, True, True)
    (timer,) = restored.snapshot().recorded("alice").timers
    assert 3000 < timer[0] < 3600


def test_a_short_timer_fires_after_a_restore(new_system):
    system = new_system()
    alice = Account.options(name="alice").remote(0)
    alice.remind.tell(0.5)
    ray.get(alice.read.remote())
    system.snapshot()
    restored = restore(new_system.made, system)
    eventually(lambda: ray.get(restored.get_actor("alice").read.remote()) == 1)


def test_an_actor_whose_creation_was_in_flight_is_born_after_a_restore(new_system):
    system = new_system()
    for n in range(4):
        Account.options(name=f"a{n}").remote(n)
        ray.get(system.get_actor(f"a{n}").read.remote())
        system.get_actor(f"a{n}").open_account.tell(f"child{n}", 10, 5)
        snapshot = system.snapshot()
    expected = {name: 15 for name in snapshot.actors if name.startswith("child")}
    restored = restore(new_system.made, system)
    for name, balance in expected.items():
        assert eventually(lambda name=name: ray.get(restored.get_actor(name).read.remote())) == balance


def test_a_restored_system_takes_snapshots_before_it_is_drained(new_system):
    system = new_system()
    sink = Sink.options(name="sink").remote()
    ray.get(sink.report.remote())
    sink.pause.tell(0.5)
    sink.pause.tell(0.5)
    for number in range(1, 101):
        sink.take.tell(number)
    first = system.snapshot()
    restored = restore(new_system.made, system)
    second = restored.snapshot()
    second.verify()
    assert second.in_flight >= 100
    assert second.position > first.position
    again = restore(new_system.made, restored, snapshot=second.id)
    counts, wrong = ray.get(again.get_actor("sink").report.remote())
    assert (list(counts.values()), wrong) == ([100], [])


def test_an_earlier_snapshot_can_be_restored(new_system):
    system = new_system()
    alice = Account.options(name="alice").remote(1)
    early = system.snapshot()
    alice.deposit.tell(1)
    system.snapshot()
    restored = restore(new_system.made, system, snapshot=str(early.id))
    assert ray.get(restored.get_actor("alice").read.remote()) == 1


def test_a_snapshot_that_is_committed_just_before_the_new_life_begins_is_the_one_that_comes_back(
    new_system, monkeypatch
):
    system = new_system()
    account = Account.options(name="alice").remote(1)
    system.snapshot()
    account.deposit.tell(5)
    assert ray.get(account.read.remote()) == 6
    system.snapshot()
    system.shutdown()
    commit = max((Path(system.storage) / system.name / "log").iterdir())
    aside = commit.rename(Path(system.storage) / "late")

    def start_late(*arguments):
        aside.rename(commit)
        return start(*arguments)

    monkeypatch.setattr("rayshot.runtime.opening.from_snapshot.start", start_late)
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("alice").read.remote()) == 6


def test_half_of_a_system_dies_and_the_rest_is_shut_down_and_restored(new_system):
    system = new_system(failure=STOPS)
    accounts = {f"a{n}": Account.options(name=f"a{n}").remote(n) for n in range(6)}
    system.snapshot()
    for name in list(accounts)[:3]:
        pid = system.status().actors[name].pid
        kill(pid, signal.SIGKILL)
    with pytest.raises((SystemDown, ray.exceptions.ActorDiedError)):
        for _ in range(1000):
            ray.get([account.read.remote() for account in accounts.values()])
    system.shutdown()
    assert running(system) == []
    restored = restore(new_system.made, system)
    assert [ray.get(restored.get_actor(f"a{n}").read.remote()) for n in range(6)] == list(range(6))


def test_who_still_holds_an_earlier_life_shuts_down_nothing_of_the_next_one(new_system):
    earlier = new_system(failure=STOPS)
    Account.options(name="alice").remote(1)
    earlier.snapshot()
    kill(earlier.status().actors["alice"].pid, signal.SIGKILL)
    eventually(lambda: earlier.status().state == "stopped", 10)
    restored = rayshot.restore(earlier.name, storage=earlier.storage)
    new_system.made.append(restored)
    earlier.shutdown()
    assert ray.get(restored.get_actor("alice").read.remote()) == 1
    assert restored.snapshot().states() == {"alice": {"balance": 1}}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_processes_killed_in_mid_traffic_lose_duplicate_and_reorder_nothing(new_system, seed):
    """0 lost, 0 duplicated, 0 reordered over 270,000 numbered messages and at least two SIGKILLs."""
    rng = random.Random(seed)
    pairs, total = 3, 30_000
    rhythm = rayshot.SnapshotConfig(interval_s=0.2, num_to_keep=3)
    system = new_system(failure=STOPS, snapshots=rhythm)
    sinks = [Sink.options(name=f"sink{n}").remote() for n in range(pairs)]
    sources = [Source.options(name=f"source{n}").remote(sinks, total, 50) for n in range(pairs)]
    ray.get([actor.ready.remote() for actor in (*sinks, *sources)])
    system.snapshot()
    for source in sources:
        source.go_on.tell(source)
    system.snapshot()
    for _ in range(2):
        time.sleep(rng.uniform(0.1, 0.6))
        victims = rng.sample(sorted(system.status().actors.items()), rng.randint(1, 3))
        for _, status in victims:
            kill(status.pid, signal.SIGKILL)
        eventually(lambda: system.status().state == "stopped")  # noqa: B023 - called at once
        system = restore(new_system.made, system, snapshots=rhythm, failure=STOPS)
    sinks = [system.get_actor(f"sink{n}") for n in range(pairs)]
    for sink in sinks:
        eventually(lambda sink=sink: sum(ray.get(sink.report.remote())[0].values()) == pairs * total, 60)
        assert ray.get(sink.report.remote()) == ({f"source{n}": total for n in range(pairs)}, [])
    system.shutdown()  # and with it the retention, which might delete what is being verified
    for snapshot in rayshot.open(system.storage).system(system.name).snapshots():
        snapshot.verify()


def test_a_system_is_restored_in_a_new_cluster(tmp_path):
    """Two processes, two clusters: nothing but the storage is shared."""
    script = Path(__file__).with_name("two_clusters.py")
    for step, expected in (("first", "stored"), ("second", "restored alice=90 bob=110 life=2")):
        done = subprocess.run(
            [sys.executable, str(script), step, str(tmp_path / "shots")],
            capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().splitlines()[-1] == expected


# Refusals: a typed error, nothing executed, nothing started ------------------------------------------------------


@pytest.mark.parametrize("failure", [None, STOPS])
def test_a_handle_that_a_thread_uses_during_the_restore_finds_its_actor_there(new_system, failure):
    system = new_system(failure=failure)
    alice, over, found = Account.options(name="alice").remote(7), threading.Event(), []
    ray.get(alice.read.remote())
    system.snapshot()

    def use():
        while not over.is_set():
            with contextlib.suppress(SystemDown, ray.exceptions.ActorDiedError):  # until the new life begins
                found.append(ray.get(alice.read.remote()))

    with ThreadPoolExecutor() as pool:
        using = pool.submit(use)
        restored = restore(new_system.made, system, failure=failure)
        before = len(found)
        try:
            assert ray.get(restored.get_actor("alice").read.remote()) == 7
            eventually(lambda: len(found) > before or using.done(), 60)
        finally:
            over.set()
        using.result()
    assert set(found) == {7}


@pytest.fixture
def stored(new_system):
    system = new_system()
    Account.options(name="alice").remote(1)
    Renamed.options(name="carol").remote()
    snapshot = system.snapshot()
    system.shutdown()
    return system, snapshot


def refuse(system, error, /, **arguments):
    with pytest.raises(error) as caught:
        rayshot.restore(**{"name": system.name, "storage": system.storage, **arguments})
    assert running(system) == []
    return str(caught.value)


@pytest.mark.acceptance("G16")
def test_a_snapshot_signed_by_a_stranger_is_refused_unless_trust_is_typed_out(stored, new_system, monkeypatch):
    system, _ = stored
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", "another key that nobody has seen before")
    assert "key" in refuse(system, UnknownKey)
    new_system.made.append(rayshot.restore(system.name, storage=system.storage, allow_unsigned=True))
    assert ray.get(new_system.made[-1].get_actor("alice").read.remote()) == 1


def test_a_manifest_that_was_changed_is_refused(stored):
    system, snapshot = stored
    path = Path(system.storage) / system.name / "manifests" / str(snapshot.id)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    refuse(system, (BadSignature, rayshot.errors.Damaged, rayshot.errors.Untrusted))


def test_a_damaged_chunk_fails_the_restore_and_leaves_nothing_running(stored):
    system, snapshot = stored
    for chunk in snapshot.manifest.chunks:
        path = Path(system.storage) / system.name / chunk.key
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.chmod(0o600)
        path.write_bytes(data)
    refuse(system, (CorruptChunk, RestoreFailed))


@pytest.mark.acceptance("G18")
def test_a_class_that_is_gone_is_named_before_anything_starts(stored, monkeypatch, new_system):
    system, _ = stored
    from tests.runtime import workloads

    monkeypatch.delattr(workloads, "Renamed")
    assert "tests.runtime.workloads.Renamed" in refuse(system, CodeMismatch)
    restored = rayshot.restore(
        system.name, storage=system.storage, rename_classes={"tests.runtime.workloads.Renamed": Account}
    )
    new_system.made.append(restored)
    restored.get_actor("carol").remind.tell(3600)
    assert ray.get(restored.get_actor("carol").whoami.remote())[0] == "carol"


@pytest.mark.acceptance("G27")
def test_what_does_not_exist_is_refused_with_what_does(stored):
    system, snapshot = stored
    assert str(snapshot.id) in refuse(system, SnapshotNotFound, snapshot="1-coordinator-99")
    assert system.name in refuse(system, SystemNotFound, name="nobody")
    with pytest.raises(SystemNotFound):
        rayshot.restore(system.name, storage=Path(system.storage) / "nowhere")


def test_an_actor_that_had_asked_for_its_end_ends_after_a_restore_too(new_system):
    system = new_system()
    alice, bob = (Account.options(name=name).remote(1) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    alice.leave_with_a_photograph.tell()
    (snapshot,) = eventually(system.snapshots)
    eventually(lambda: "alice" not in system.actors())
    assert set(snapshot.actors) == {"alice", "bob"}
    restored = restore(new_system.made, system, snapshot=snapshot.id)
    eventually(lambda: "alice" not in restored.actors())
    assert ray.get(restored.get_actor("bob").read.remote()) == 1


def test_a_snapshot_of_a_running_system_goes_on_in_a_simulated_world(new_system):
    system = new_system()
    alice, bob = (Account.options(name=name).remote(100) for name in ("alice", "bob"))
    for _ in range(200):
        alice.transfer.tell(bob, 1)
        bob.transfer.tell(alice, 2)
    snapshot = system.snapshot()
    world = SimulatedSystem.from_snapshot(snapshot)
    before = sum(actor.balance for actor in world.actors.values())
    moving = [m.args[0] for channel in snapshot.channels.values() for m in channel.messages if m.method == "deposit"]
    assert before + sum(moving) == 200
    branch = world.branch(seed=1)
    for one in (world, branch):
        one.run()
        assert {name: actor.balance for name, actor in one.actors.items()} == {"alice": 300, "bob": -100}


def test_a_living_system_is_not_restored_over(new_system):
    system = new_system()
    alice = Account.options(name="alice").remote(1)
    system.snapshot()
    with pytest.raises(ConfigError, match="running"):
        rayshot.restore(system.name, storage=system.storage)
    assert ray.get(alice.read.remote()) == 1


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("B13", "X12")
@pytest.mark.parametrize("deaths", [2, 3])
def test_an_actor_whose_process_dies_before_it_is_there_is_made_again_a_few_times(
    new_system, tmp_path, monkeypatch, deaths
):
    system = new_system()
    assert ray.get(Account.options(name="alice").remote(7).read.remote()) == 7
    system.snapshot()
    system.shutdown()
    doom = tmp_path / "shots" / "doom"
    doom.write_text(str(deaths))

    def be_doomed(coordinator):
        from rayshot.runtime.coordinator import loader

        loader.Host = DoomedHost
        starts_processes(3)(coordinator)

    restoring_where(monkeypatch, be_doomed)
    if deaths < 3:
        restored = restore(new_system.made, system)
        assert ray.get(restored.get_actor("alice").read.remote()) == 7
    else:
        with pytest.raises(RestoreFailed, match="alice died while its state was loaded"):
            rayshot.restore(system.name, storage=system.storage)
        assert not running(system)
    assert doom.read_text() == "0"


@pytest.mark.wide("slow")
def test_a_restore_that_finds_no_room_for_an_actor_names_it_and_leaves_nothing_running(new_system, monkeypatch):
    system = new_system()
    big = Account.options(name="big", num_cpus=20).remote(7)
    assert ray.get(big.read.remote()) == 7
    system.snapshot()
    system.shutdown()
    hog = ray.remote(num_cpus=20)(Occupant).remote()
    ray.get(hog.is_there.remote())
    with monkeypatch.context() as patch:
        patch.setattr("rayshot.runtime.opening.from_snapshot.START_S", 2.0)
        with pytest.raises(RestoreFailed, match=r"big did not start within 2 s: has the cluster the resources\?"):
            rayshot.restore(system.name, storage=system.storage)
    assert not running(system)
    ray.kill(hog)
    restored = restore(new_system.made, system)
    assert ray.get(restored.get_actor("big").read.remote()) == 7


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("begin", ["init", "restore"])
def test_of_those_who_begin_a_system_at_once_one_does_and_the_others_hear_of_it(new_system, begin):
    system = new_system()
    account = Account.options(name="alice").remote(7)
    assert ray.get(account.read.remote()) == 7
    system.snapshot()
    system.shutdown()
    together = threading.Barrier(4)

    def start():
        together.wait()
        if begin == "init":
            return rayshot.init(system.name, storage=system.storage, fresh=True)
        try:
            return rayshot.restore(system.name, storage=system.storage)
        except ConfigError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        found = [one.result() for one in [pool.submit(start) for _ in range(4)]]
    systems = [one for one in found if isinstance(one, rayshot.System)]
    new_system.made.extend(systems)
    if begin == "init":
        assert len(systems) == 4
    else:
        assert len(systems) == 1
        assert ray.get(systems[0].get_actor("alice").read.remote()) == 7
    assert len({one.incarnation for one in systems}) == 1


def test_an_unknown_trust_is_refused(stored):
    refuse(stored[0], ConfigError, allow_unsigned="everybody")


@pytest.mark.acceptance("G25")
def test_bad_storages_are_refused_in_one_line(cluster, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    for storage in (file, "ftp://somewhere/shots", "memory://here", None, 5):
        with pytest.raises(ConfigError) as caught:
            rayshot.init("bank", storage=storage)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="a storage address is a path or a string"):
        rayshot.restore(storage=None)
