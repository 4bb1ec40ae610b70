"""What users and machines do wrong stops nothing that need not stop, hangs nobody, and leaves nothing behind."""

import contextlib
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import ConfigError, RayshotError, SnapshotAborted, SystemDown
from rayshot.runtime.channel.credit import CREDIT_BYTES
from rayshot.runtime.channel.outbox import BATCH_BYTES_MAX
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.driver import coordinator_client
from rayshot.runtime.node.capture import Capturer, read_spill, spill_folder, sweep_spills
from tests.pods import UNSHARE, name_spaces_can_be_made
from tests.processes import runs
from tests.runtime.healed import STOPS
from tests.runtime.hostile import Rogue, Sticky, Stillborn, Strict
from tests.runtime.librarian import ForkingLibrarian
from tests.runtime.take_over import kill_coordinator
from tests.runtime.workloads import Account, Metronome
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def left_of(system):
    """Ray names of what is left of a system."""
    actors = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if actor["name"].startswith(f"rayshot/{system.name}/")]


@pytest.fixture
def rogue(system):
    rogue = Rogue.options(name="rogue").remote()
    assert ray.get(rogue.read.remote()) == 0
    return rogue


def test_whatever_pickling_raises_aborts_the_snapshot_and_nothing_else(system, rogue):
    rogue.hold_process_lock.tell()
    ray.get(rogue.read.remote())
    with pytest.raises(SnapshotAborted, match=r"rogue\['state'\]") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "capture_failed"
    rogue.let_go.tell()
    assert ray.get(rogue.read.remote()) == 0
    assert system.snapshot().states() == {"rogue": {"count": 0}}


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_state_that_wants_to_end_its_process_aborts_the_snapshot_and_nothing_else(system, rogue, error):
    rogue.hold_leaver.tell(error)
    with pytest.raises(SnapshotAborted, match=rf"rogue.* (raised|captured:) {error.__name__}") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "capture_failed"
    ray.get(rogue.let_go.remote())  # a tell may be in flight while the state is captured
    assert system.snapshot().states() == {"rogue": {"count": 0}}


def test_a_dead_letter_names_its_method_however_the_message_was_packed(system):
    account = Account.options(name="alice").remote(1)
    account.deposit.tell("1")
    account.deposit.tell(["1"])
    account.deposit.tell(amount="1")
    with pytest.raises(TypeError):
        ray.get(account.deposit.remote(["1"]))
    assert ray.get(account.read.remote()) == 1
    assert [letter.method for letter in system.dead_letters()] == ["deposit"] * 3


def test_an_actor_begins_no_system_and_stays_one(system, rogue):
    for begin in ("init", "restore"):
        with pytest.raises(ConfigError, match=r"actor 'rogue' of system .* give it the handles"):
            ray.get(rogue.begin_a_system.remote(begin, system.name, system.storage))
    assert ray.get(rogue.read.remote()) == 0
    assert system.snapshot().states() == {"rogue": {"count": 0}}


def test_a_handler_that_raises_no_exception_but_worse_is_an_error_of_its_caller(system, rogue):
    with pytest.raises(RuntimeError, match="CancelledError"):
        ray.get(rogue.cancel.remote(), timeout=20)
    rogue.cancel.tell()
    assert ray.get(rogue.read.remote(), timeout=20) == 0
    assert len(system.dead_letters()) == 1
    assert system.snapshot().states() == {"rogue": {"count": 0}}


def test_an_error_of_another_system_in_a_handler_loses_no_message(system, rogue):
    for number in range(1000):
        rogue.take.tell(number, stop_at=10)
    assert ray.get(rogue.read.remote(), timeout=20) == 1000
    assert len(system.dead_letters()) == 1


def test_a_timer_that_cannot_be_set_is_the_handlers_error(system, rogue):
    rogue.remind_of_a_lock.tell()
    for seconds in (-1.0, math.inf, math.nan, 1e11):
        rogue.remind_in.tell(seconds)
    assert ray.get(rogue.read.remote(), timeout=20) == 0
    errors = [letter.error.splitlines()[-1] for letter in system.dead_letters()]
    assert len(errors) == 5
    assert "MessageNotSerializable" in errors[0]
    assert all("ConfigError" in error for error in errors[1:])


def test_an_actor_that_fails_by_itself_stops_with_its_system_and_is_gone_after_the_shutdown(new_system):
    system = new_system(failure=STOPS)
    strict = Strict.options(name="strict").remote()
    assert ray.get(strict.read.remote()) == 1
    strict.fail.tell()
    eventually(lambda: system.status().state == "stopped" or None, 20)
    with pytest.raises((SystemDown, ray.exceptions.RayError)):
        ray.get(strict.read.remote(), timeout=20)
    system.shutdown()
    eventually(lambda: left_of(system) == [] or None, 20)


@pytest.mark.acceptance("X12")
def test_an_actor_whose_timer_is_due_when_its_system_stops_has_nothing_to_complain_of(system, tmp_path):
    metronomes = [Metronome.options(name=f"m{n}").remote() for n in range(4)]
    strict = Strict.options(name="strict").remote()
    ray.get([strict.read.remote(), *(metronome.count.remote() for metronome in metronomes)])
    hosts = ray.get(system._identity.coordinator.actors.remote())
    complaints = {name: tmp_path / name for name in hosts if name != "strict"}
    for name, file in complaints.items():
        listen = lambda _, file=file: logging.getLogger("rayshot").addHandler(logging.FileHandler(file))  # noqa: E731
        ray.get(hosts[name].__ray_call__.remote(listen))
    strict.fail.tell()
    for name, file in complaints.items():
        ray.get(hosts[name].__ray_call__.remote(lambda self: self._worker.join(20)))
        assert not file.read_text(), file.read_text()


def test_a_shutdown_ends_everything_though_the_coordinator_was_just_killed(new_system):
    system = new_system()
    ray.get(Rogue.options(name="rogue").remote().read.remote())
    kill_coordinator(system)
    system.shutdown()
    eventually(lambda: left_of(system) == [] or None, 20)


def test_an_actor_that_never_starts_holds_neither_the_others_nor_the_shutdown(new_system):
    system = new_system()
    never = Rogue.options(name="never", num_cpus=500).remote()
    never.take.tell(1)
    rogue = Rogue.options(name="rogue").remote()
    assert ray.get(rogue.read.remote(), timeout=20) == 0
    system.shutdown()
    eventually(lambda: left_of(system) == [] or None, 20)


@pytest.mark.acceptance("B15")
def test_the_next_snapshot_commits_after_the_vault_was_killed(system, rogue):
    system.snapshot()
    (name,) = [name for name in left_of(system) if "/vault/" in name]
    vault = ray.get_actor(name, namespace="rayshot")
    os.kill(ray.get(vault.__ray_call__.remote(lambda self: os.getpid())), signal.SIGKILL)

    def snapshot():
        try:
            return system.snapshot()
        except SnapshotAborted:
            return None

    assert eventually(snapshot, 60).states() == {"rogue": {"count": 0}}
    assert system.status().state == "running"


def test_settings_that_cannot_work_are_refused_before_anything_happens(system, tmp_path):
    for bad in (
        {"timeout_s": math.inf},
        {"interval_s": math.nan},
        {"interval_s": True},
        {"num_to_keep": 1.5},
        {"max_concurrent": 0},
        {"min_pause_s": -1},
    ):
        with pytest.raises(ConfigError, match=next(iter(bad))):
            rayshot.SnapshotConfig(**bad)
    with pytest.raises(ConfigError, match="SnapshotConfig"):
        system.configure({"interval_s": 1})
    with pytest.raises(ConfigError, match="SnapshotConfig"):
        rayshot.init("other", storage=tmp_path, snapshots={"interval_s": 1})
    assert system.status().state == "running"


def test_a_receiver_that_sleeps_is_sent_a_bounded_number_of_bytes(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    alice.pause.tell(3.0)
    for number in range(150):
        alice.keep.tell(bytes([number]) * (1 << 20))
    status = system.status().actors["alice"]
    assert status.mailbox <= (CREDIT_BYTES + 2 * BATCH_BYTES_MAX) >> 20
    assert ray.get(alice.kept_value.remote(), timeout=60)[0] == 149


def test_a_capture_that_hangs_in_its_child_costs_one_snapshot(new_system):
    system = new_system(snapshots=SnapshotConfig(timeout_s=2.0))
    sticky = Sticky.options(name="sticky").remote()
    assert ray.get(sticky.read.remote()) == 1
    began = time.monotonic()
    with pytest.raises(SnapshotAborted, match="timeout"):
        system.snapshot()
    assert time.monotonic() - began < 10
    system.configure(SnapshotConfig(timeout_s=60.0))
    assert list(system.snapshot().states()) == ["sticky"]


def test_spills_of_dead_actors_are_swept_and_those_of_living_ones_stay(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    prefix = f"rayshot-{Path('/proc/self/ns/pid').stat().st_ino}"
    names = [f"{prefix}-{ended.pid}-1.spill", f"{prefix}-{os.getpid()}-1.spill", f"{prefix}-x-1.spill", "other"]
    for name in names:
        (tmp_path / name).touch()
    assert sweep_spills(str(tmp_path)), "there is one of a living process"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_the_spill_of_an_actor_that_nobody_has_buried_yet_is_swept(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    eventually(lambda: Path(f"/proc/{dead.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    (tmp_path / f"rayshot-{Path('/proc/self/ns/pid').stat().st_ino}-{dead.pid}-1.spill").touch()
    assert not sweep_spills(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    dead.wait()


@pytest.mark.skipif(not name_spaces_can_be_made(), reason="this user may make no name space of processes")
def test_a_vault_leaves_the_spill_of_an_actor_alone_that_lives_in_another_container(tmp_path):
    capturer = Capturer("alice", str(tmp_path))
    capturer.method = "fork"
    captured = capturer.capture(SimpleNamespace(state=lambda: [1, 2, 3], instance=None)).wait(30.0)
    script = f"from rayshot.runtime.node.capture import sweep_spills; assert not sweep_spills({str(tmp_path)!r})"
    subprocess.run([*UNSHARE, sys.executable, "-c", script], check=True)
    assert read_spill(captured)


FORKING = """
import os, sys, threading, time
from types import SimpleNamespace
from rayshot.runtime.node.capture import Capturer
from tests.runtime.hostile import Stuck

def fork():
    capturer, stuck = Capturer("alice", sys.argv[1]), Stuck()
    capturer.method = "fork"
    print(capturer.capture(SimpleNamespace(state=lambda: stuck, instance=None))._pid, flush=True)
    time.sleep(600)

threading.Thread(target=fork).start()
"""


def test_a_child_that_hangs_dies_with_its_actor(tmp_path):
    with subprocess.Popen([sys.executable, "-c", FORKING, tmp_path], stdout=subprocess.PIPE, text=True) as actor:
        child = int(actor.stdout.readline())
        try:
            assert runs(child)
            actor.kill()
            eventually(lambda: not runs(child))
        finally:
            actor.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_a_system_that_is_shut_down_in_mid_snapshot_leaves_no_spill(system, tmp_path):
    forking, bob = ForkingLibrarian.options(name="forking").remote(), Account.options(name="bob").remote(1)
    forking.keep.tell(1)
    ray.get([forking.kept.remote(), bob.read.remote()])
    pid = system.status().actors["forking"].pid
    bob.pause_and_say_so.tell(str(tmp_path / "paused"), 20.0)
    eventually((tmp_path / "paused").exists)
    system._identity.coordinator.snapshot.remote(SnapshotRequest())
    spills = lambda: list(Path(spill_folder()).glob(f"rayshot-*-{pid}-*"))  # noqa: E731
    eventually(spills)
    eventually(lambda: "forking" not in next(iter(system.status().snapshots)).missing)
    host = ray.get(system._identity.coordinator.actors.remote())["forking"]
    ray.get(host.__ray_call__.remote(lambda self: self._process.runner.lock.acquire()))  # it hears of no end any more
    system.shutdown()
    assert spills() == []


def test_what_a_constructor_sent_before_it_failed_was_never_sent(system):
    bob = Account.options(name="bob").remote(1)
    ray.get(bob.read.remote())
    Stillborn.options(name="bad").remote(bob, 0.5)
    for mode in ("chandy-lamport", "aligned", "stop-the-world", "chandy-lamport"):
        snapshot = system.snapshot(mode=mode)
        snapshot.verify()
        assert snapshot.states() == {"bob": {"balance": 1}}
    assert list(eventually(lambda: system.actors() if len(system.actors()) == 1 else None)) == ["bob"]


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize(
    ("method", "error", "said"),
    [
        ("fetch", OSError("no room for it"), r"defect.*rogue: its record was not handed over.*no room for it"),
        ("_hand_over", ValueError("bytes are too large"), r"rogue: its record was not handed over.*too large"),
    ],
)
def test_a_record_that_cannot_be_handed_over_aborts_its_snapshot_at_once(system, rogue, method, error, said):
    host = ray.get(system._identity.coordinator.actors.remote())["rogue"]

    def spoil(self):
        def fail(_):
            delattr(self._process.recording.deliveries, method)  # once
            raise error

        setattr(self._process.recording.deliveries, method, fail)

    ray.get(host.__ray_call__.remote(spoil))
    with pytest.raises(SnapshotAborted, match=said):
        system.snapshot()
    assert system.snapshot().states() == {"rogue": {"count": 0}}


def test_a_record_that_was_lost_on_its_way_aborts_its_snapshot_at_once(system, rogue):
    host = ray.get(system._identity.coordinator.actors.remote())["rogue"]

    def lose(self):
        deliveries = self._process.recording.deliveries

        def fetch(snapshot):
            del deliveries.fetch  # once
            deliveries.fetch(snapshot)
            return deliveries.fetch(snapshot)  # as Ray calls again when no answer comes

        deliveries.fetch = fetch

    ray.get(host.__ray_call__.remote(lose))
    with pytest.raises(SnapshotAborted, match="rogue: its record was lost on its way") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "capture_failed"
    assert system.snapshot().states() == {"rogue": {"count": 0}}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_a_system_without_actors_is_photographed_as_it_is(system, mode):
    assert system.snapshot(mode=mode).states() == {}
    bob = Account.options(name="bob").remote(1)
    assert system.snapshot(mode=mode).states() == {"bob": {"balance": 1}}
    bob.leave.tell()
    eventually(lambda: system.actors() == {} or None)
    assert system.snapshot(mode=mode).states() == {}


@pytest.mark.wide("slow")
@pytest.mark.parametrize("mode", ["aligned", "stop-the-world"])
def test_a_snapshot_that_nobody_will_end_lets_go_of_the_actors_in_the_end(new_system, tmp_path, monkeypatch, mode):
    system = new_system(snapshots=SnapshotConfig(timeout_s=3.0), storage=tmp_path / "shots")
    alice, bob = (Account.options(name=name).remote(0) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    system.connect("bob", "alice")
    bob.pause.tell(5.0)
    raised = []
    thread = threading.Thread(target=photograph, args=(system, mode, raised), daemon=True)
    thread.start()
    eventually(lambda: system.status().snapshots or None)
    shutil.rmtree(tmp_path / "shots")
    (tmp_path / "shots").write_text("no folder: the next coordinator cannot start")
    monkeypatch.setattr(coordinator_client, "SILENT_S", 2.0)
    kill_coordinator(system)
    bob.transfer.tell(alice, 1)
    assert eventually(lambda: ray.get(alice.read.remote()) == 1 or None, 20)
    thread.join(120)
    assert raised == [SnapshotAborted]  # also where no coordinator ever takes over


def photograph(system, mode, raised):
    try:
        system.snapshot(mode=mode)
    except RayshotError as error:
        raised.append(type(error))
