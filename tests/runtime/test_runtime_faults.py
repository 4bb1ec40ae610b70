"""SIGKILL at every step of a snapshot: the system goes on by itself, and nothing is lost, doubled or out of order."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import SnapshotAborted
from rayshot.log.records import CommitRecord
from rayshot.places.kinds import open_store
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.node import vault as vault_module
from rayshot.snapshots.upkeep.garbage import collect
from tests.processes import ROOT, search_path
from tests.runtime.healed import HEALS, STOPS, die_at, report, until_it_runs
from tests.runtime.heralds import Court, check_cut, die_there, host_of, processes_of
from tests.waiting import eventually

pytestmark = pytest.mark.ray
ABORTED_S = 10.0
HOURS_S = 7200.0


@pytest.fixture
def court(new_system):
    """A system that heals itself, with numbers on their way, and its first snapshot."""
    system = new_system(failure=HEALS, snapshots=SnapshotConfig(interval_s=None, timeout_s=60.0, num_to_keep=3))
    court = Court.assemble(system)
    court.tell()
    system.snapshot()
    court.tell()
    return court


def stored(system):
    return rayshot.open(system.storage).system(system.name)


def first_of(system):
    """The snapshot that was there before the fault: it still verifies."""
    first = stored(system).snapshots()[0]
    check_cut(first)
    return first


def goes_on(court, *, life=2, snapshot=None):
    """The system has gone back by itself to `snapshot`; nothing told before or since is lost, doubled or swapped."""
    system = court.system
    until_it_runs(system, life)
    system.wait_until_running(60)
    if snapshot is not None:
        assert eventually(lambda: report(system)["recoveries"])[-1].snapshot == snapshot.id
    court.tell()
    check_cut(system.snapshot())
    court.check()
    nothing_is_left(system)


def nothing_is_left(system):
    """What aborted snapshots left is collected, when it is old enough; what is retained stays."""
    eventually(lambda: not report(system)["snapshots"])
    for path in Path(system.storage).rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - HOURS_S,) * 2)
    store = open_store(system.storage)
    for _ in range(2):
        done = collect(store, system.name)
    assert not done.unreadable
    last = collect(store, system.name, dry_run=True)
    left = {kind: group for kind, group in last.groups.items() if group.marked.objects or group.removed.objects}
    assert not left, left
    for snapshot in stored(system).snapshots():
        assert snapshot.verify().sound


def the_abort(system):
    """The note of the snapshot that was aborted because an actor died."""
    (note,) = eventually(lambda: stored(system).aborts().notes, 30)
    assert note.reason == "actor_died"
    assert re.search("bob (died|was lost): ", note.detail), note.detail
    assert note.seconds < ABORTED_S
    return note


def missing(system):
    """For each snapshot under way, who has not recorded it."""
    return [one["missing"] for one in report(system)["snapshots"].values()]


def begin(system, order=None):
    """Begin a snapshot, and do not wait for it."""
    return system._identity.coordinator.snapshot.remote(order or SnapshotRequest())


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize(
    "place",
    [
        pytest.param("before_record", marks=pytest.mark.acceptance("B1")),
        pytest.param("after_record", marks=pytest.mark.acceptance("B2")),
        pytest.param("before_upload", marks=pytest.mark.acceptance("B5")),
    ],
)
def test_an_actor_that_is_killed_while_it_records_ends_the_snapshot_and_the_system_goes_back(court, place):
    system, first = court.system, first_of(court.system)
    die_there(host_of(system, "bob"), place)
    begin(system)
    assert "bob" in the_abort(system).missing
    goes_on(court, snapshot=first)


@pytest.mark.wide("slow")
@pytest.mark.acceptance("B3")
def test_an_actor_that_is_killed_when_one_of_its_markers_has_left_ends_the_snapshot_and_the_system_goes_back(
    court, tmp_path
):
    system, first, names = court.system, first_of(court.system), frozenset(court.heralds)
    gate, bob = tmp_path / "gate", host_of(system, "bob")
    # An answer would wait for the lock, which is held at the gate, on the thread that sends the marker.
    awaits = lambda host: any(channel.in_flight for channel in host._process.channels.out.values())  # noqa: E731
    eventually(lambda: not ray.get(bob.__ray_call__.remote(awaits)))
    die_there(bob, "after_marker", gate=str(gate))
    begin(system, SnapshotRequest(initiators=("bob",), helpers=frozenset({"bob"}), reached=names))
    eventually(lambda: missing(system) == [("bob",)], 30)  # his first marker spreads to all: his report has not left
    gate.touch()
    note = the_abort(system)
    assert (note.snapshot.initiator, note.missing) == ("bob", ("bob",))
    goes_on(court, snapshot=first)


@pytest.mark.acceptance("B4")
def test_an_actor_that_is_killed_while_messages_to_it_are_recorded_ends_the_snapshot_and_the_system_goes_back(
    court, tmp_path
):
    system, first = court.system, first_of(court.system)
    gate = tmp_path / "gate"
    court.heralds["alice"].wait_for.tell(str(gate))
    eventually(Path(f"{gate}.seen").exists)
    court.tell()  # alice's share of it lies in her mailbox, and that of the others is under way
    begin(system)
    eventually(lambda: missing(system) == [("alice",)])
    os.kill(system.status().actors["bob"].pid, signal.SIGKILL)
    assert the_abort(system).missing == ("alice",), "bob had recorded"
    gate.touch()
    goes_on(court, snapshot=first)


@pytest.fixture
def slow_vault(court, tmp_path):
    """The vault stands still in the midst of an upload until there is the file that this returns."""
    hold_vault(court.system, tmp_path / "vault")
    return tmp_path / "vault"


def hold_vault(system, gate):
    def stand_still(_, gate=str(gate)):
        def wait(place):
            assert place == "mid_upload"
            Path(f"{gate}.seen").touch()
            while not Path(gate).exists():
                time.sleep(0.01)

        vault_module.failpoint = wait

    ray.get(vault_of(system).__ray_call__.remote(stand_still))


def vault_of(system):
    (name,) = (name for name in processes_of(system) if "/vault/" in name)
    return ray.get_actor(name, namespace="rayshot")


@pytest.mark.acceptance("B5")
def test_an_actor_that_is_killed_while_its_vault_writes_ends_the_snapshot_and_the_system_goes_back(court, slow_vault):
    system, first = court.system, first_of(court.system)
    begin(system)
    eventually(Path(f"{slow_vault}.seen").exists)
    os.kill(system.status().actors["bob"].pid, signal.SIGKILL)
    until_it_runs(system)
    slow_vault.touch()
    assert the_abort(system).missing == (), "all had recorded, and it was being stored"
    goes_on(court, snapshot=first)


@pytest.mark.acceptance("B6")
def test_what_an_actor_had_handed_over_before_it_was_killed_commits_and_is_what_comes_back(court):
    system = court.system
    bob = system.status().actors["bob"].pid
    die_there(system._identity.coordinator, "before_announce", victim=bob)
    begin(system)
    until_it_runs(system)
    _, second = stored(system).snapshots()
    check_cut(second)
    goes_on(court, snapshot=second)


@pytest.mark.acceptance("B6")
def test_what_an_actor_had_handed_over_commits_and_is_restored_in_a_system_that_stops_too(new_system, tmp_path):
    system = new_system(failure=STOPS)
    court = Court.assemble(system)
    court.tell()
    system.snapshot()
    court.tell()
    court.check()
    gate = tmp_path / "vault"
    hold_vault(system, gate)
    begin(system)
    eventually(Path(f"{gate}.seen").exists)
    os.kill(system.status().actors["bob"].pid, signal.SIGKILL)
    eventually(lambda: system.status().state == "stopped", 30)
    gate.touch()
    _, second = eventually(lambda: len(found := stored(system).snapshots()) == 2 and found)
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    court.system, court.heralds = restored, restored.actors()
    assert stored(system).restored_from()[2] == second.id
    court.check()


def committed(system):
    """The snapshots of all COMMIT records, in order."""
    return [record.snapshot for record in stored(system).records() if isinstance(record, CommitRecord)]


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize(
    ("place", "counts"),
    [
        pytest.param("before_commit", False, marks=pytest.mark.acceptance("B7")),
        pytest.param("after_commit", True, marks=pytest.mark.acceptance("B8")),
    ],
)
def test_a_coordinator_that_is_killed_at_a_commit_has_a_successor_and_the_commit_is_there_once_or_not_at_all(
    court, place, counts
):
    system, first = court.system, first_of(court.system)
    die_at(system, place)
    with pytest.raises(SnapshotAborted) as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "coordinator_lost"
    court.tell()
    last = eventually(lambda: taken(system), 60)
    second = [SnapshotId(1, "coordinator", 2)] if counts else []
    assert committed(system) == [first.id, *second, last.id]
    court.tell()
    check_cut(system.snapshot())
    court.check()
    assert (system.incarnation, report(system)["recoveries"]) == (1, ()), "nobody had died, so nobody went back"
    nothing_is_left(system)


def taken(system):
    try:
        return system.snapshot()
    except SnapshotAborted:
        return None


@pytest.mark.wide("slow")
@pytest.mark.acceptance("B9")
@pytest.mark.parametrize("all_die", [False, True], ids=["the system lives", "all processes are killed too"])
def test_a_program_that_is_killed_leaves_a_system_that_the_next_one_goes_on_with(new_system, tmp_path, all_die):
    name, storage = f"heralds{all_die}", tmp_path / "shots"
    command = [sys.executable, "-m", "tests.runtime.herald_program", ray.get_runtime_context().gcs_address]
    with subprocess.Popen(
        [*command, name, storage], cwd=ROOT, env={**os.environ, **search_path()}, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout.readline() == "begun\n"
        time.sleep(0.5)
        program.kill()
    if all_die:
        kill_all(rayshot.attach(name))
    resume = partial(rayshot.resume, name, storage=storage, begin=pytest.fail)
    system = resume(takeover=all_die)
    new_system.made.append(system)
    court = Court(system, system.actors(), teller="the next program")
    court.tell()
    check_cut(system.snapshot())
    court.check()
    assert system.incarnation == 1 + all_die


def kill_all(system):
    """End all processes of a system at once; Ray starts again none that it was told to kill."""
    pids = [actor["pid"] for actor in report(system)["actors"].values()]
    for process in (system._identity.coordinator, vault_of(system)):
        ray.kill(process)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not processes_of(system))


@pytest.mark.wide("slow")
@pytest.mark.acceptance("B12")
def test_an_actor_that_ray_may_restart_is_not_made_anew_but_comes_back_from_the_snapshot(new_system, tmp_path):
    system, born = new_system(failure=HEALS), tmp_path / "born"
    court = Court.assemble(system, born=str(born), bob={"max_restarts": -1, "max_task_retries": -1})
    court.tell()
    first = system.snapshot()
    for life in (2, 3):
        court.tell()
        os.kill(report(system)["actors"]["bob"]["pid"], signal.SIGKILL)
        court.tell()  # these wait for him, and find no fresh state: there the first one would be another than expected
        until_it_runs(system, life)
        system.wait_until_running(60)
    court.check()
    assert eventually(lambda: report(system)["recoveries"])[-1].snapshot == first.id
    assert sorted(born.read_text().split()) == sorted(court.heralds), "each constructor ran once"


@pytest.mark.wide("slow")
@pytest.mark.acceptance("B15")
def test_a_vault_that_is_killed_in_mid_upload_costs_one_snapshot_and_states_are_read_from_the_storage(court):
    system, first = court.system, first_of(court.system)
    die_there(vault_of(system), "mid_upload")
    with pytest.raises(SnapshotAborted) as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "store_unavailable"
    court.tell()
    last = eventually(lambda: taken(system), 60)
    assert committed(system) == [first.id, last.id]
    assert report(system)["incarnation"] == 1, "nobody went back"
    os.kill(system.status().actors["bob"].pid, signal.SIGKILL)
    goes_on(court, snapshot=last)
