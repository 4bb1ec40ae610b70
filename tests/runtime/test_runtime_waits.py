"""Nobody waits for ever: for a coordinator that hangs, a program that died, a receiver that is behind."""

import _thread
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ray

import rayshot
from rayshot.errors import ActorDied, NoAnswer, SnapshotAborted, SystemRecovering, SystemStopped
from rayshot.log.log import CommitLog
from rayshot.places.local import LocalStore
from rayshot.runtime.coordinator import commit_queue, pending_snapshots
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.door.door import NAMESPACE
from rayshot.runtime.door.naming import coordinator_name
from rayshot.runtime.driver import coordinator_client, drain, progress, snapshot_request
from rayshot.runtime.driver.session import DriverSession
from rayshot.runtime.opening import status
from rayshot.runtime.opening import system as runtime_system
from tests.processes import search_path
from tests.runtime.healed import STOPS
from tests.runtime.starter import Waiter, begin
from tests.runtime.take_over import kill_coordinator
from tests.runtime.workloads import Account, Sluggish
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def state_of(name):
    try:
        coordinator = ray.get_actor(coordinator_name(name), namespace=NAMESPACE)
        return ray.get(coordinator.state.remote())
    except (ValueError, ray.exceptions.RayActorError):
        return None


def pid_of(system, actor):
    """The process of an actor that has joined; None before."""
    if state_of(system) is None:
        return None
    hosts = ray.get(ray.get_actor(coordinator_name(system), namespace=NAMESPACE).actors.remote())
    return ray.get(hosts[actor].status.remote())["pid"] if actor in hosts else None


def is_watched(name):
    coordinator = ray.get_actor(coordinator_name(name), namespace=NAMESPACE)
    return ray.get(coordinator.__ray_call__.remote(lambda self: self._life.starter.is_watched))


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def coordinator_pid(system):
    coordinator = system._identity.coordinator
    return ray.get(coordinator.__ray_call__.remote(lambda self: os.getpid()))


@pytest.fixture
def start_elsewhere(cluster):
    """Starts `starter.py` in the cluster of the tests; ends it if nobody else did."""
    programs = []

    def start(what, storage, flag):
        address = ray.get_runtime_context().gcs_address
        script = Path(__file__).with_name("starter.py")
        program = subprocess.Popen(
            [sys.executable, script, what, address, storage, flag],
            env=os.environ | search_path(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        programs.append(program)
        return program

    yield start
    for program in programs:
        program.kill()
        program.communicate()


@pytest.mark.acceptance("X10")
def test_a_life_that_was_fenced_out_ends_without_having_taken_a_snapshot(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    log = CommitLog(LocalStore(Path(system.storage)), system.name)
    log.refresh()
    log.begin_epoch(system.incarnation + 1, "a coordinator in another cluster")
    eventually(lambda: system.status().state == "stopped", 30)
    assert "a coordinator in another cluster has taken its storage over" in system.status().detail
    with pytest.raises(SystemStopped):
        ray.get(alice.read.remote())


@pytest.mark.wide("slow")
@pytest.mark.acceptance("X10")
def test_a_coordinator_that_hangs_is_waited_for_no_longer_than_said(system, coordinator_pid, monkeypatch):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    for room, limit in ((snapshot_request, "LOOK_S"), (snapshot_request, "PING_S"), (coordinator_client, "SILENT_S")):
        monkeypatch.setattr(room, limit, 0.5)
    with stopped(coordinator_pid):
        with pytest.raises(NoAnswer, match=r"the coordinator of system .* has not answered for 0\.5 s"):
            system.snapshot()
        for question in (system.status, system.actors, system.topology, lambda: system.get_actor("alice")):
            with pytest.raises(NoAnswer):
                question()
        assert ray.get(alice.read.remote()) == 1
    monkeypatch.undo()
    assert system.snapshot().states() == {"alice": {"balance": 1}}


def test_a_stop_with_little_time_does_not_wait_for_the_next_coordinator(system, tmp_path, monkeypatch):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    alice.pause_until.tell(tmp_path / "go")
    monkeypatch.setattr(
        coordinator_client.CoordinatorClient, "check_running", lambda _: pytest.fail("nobody may answer in time")
    )
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(system.order, SnapshotRequest(), 25.0)
        eventually(lambda: system.status().snapshots or None)
        kill_coordinator(system)
        with pytest.raises(SnapshotAborted, match="the coordinator died while it took the snapshot"):
            asked.result(30)
        (tmp_path / "go").touch()


def test_who_waits_for_the_way_back_with_little_time_waits_for_no_answer_longer(system, coordinator_pid, monkeypatch):
    def goes_back(*_):
        raise SystemRecovering("it goes back")

    monkeypatch.setattr(snapshot_request, "_ordered", goes_back)
    with stopped(coordinator_pid), pytest.raises(NoAnswer, match="has not answered for 1 s"):
        system.order(SnapshotRequest(), 0.5)


def test_a_snapshot_goes_on_also_if_nobody_says_how_far_it_is(system, tmp_path, monkeypatch):
    alice = Account.options(name="alice").remote(1)
    alice.pause_until.tell(tmp_path / "go")
    shown = []

    def describe(_status):
        (tmp_path / "go").touch()
        raise NoAnswer("silent")

    monkeypatch.setattr(snapshot_request, "describe", describe)
    monkeypatch.setattr(progress.ProgressLine, "wanted", True)
    monkeypatch.setattr(progress.ProgressLine, "show", lambda _, text: shown.append(text))
    assert system.snapshot().states() == {"alice": {"balance": 1}}
    assert f"the coordinator of system {system.name!r} does not say how far it is" in shown


@pytest.mark.parametrize("stops", [False, True], ids=["a snapshot", "a stop"])
def test_ctrl_c_says_what_becomes_of_the_snapshot_and_harms_nothing(system, tmp_path, caplog, stops):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    alice.pause_until.tell(tmp_path / "go")
    eventually(lambda: system.status().actors["alice"].handler == "pause_until")
    order = SnapshotRequest("stop-the-world", "night", final=True) if stops else SnapshotRequest()
    with ThreadPoolExecutor(1) as pressing:
        pressing.submit(lambda: eventually(lambda: system.status().snapshots) and _thread.interrupt_main())
        with pytest.raises(KeyboardInterrupt):
            system.order(order)
    assert re.search(
        r"Ctrl-C: .* goes on with the s\w+, now snapshot \S+: 0/1 recorded, waiting for alice", caplog.text
    )
    (tmp_path / "go").touch()
    (taken,) = eventually(system.snapshots)
    assert taken.states() == {"alice": {"balance": 1}}
    if stops:
        eventually(lambda: system.status().state == "stopped")
    else:
        assert ray.get(alice.read.remote()) == 1


def let_storage_hang(coordinator):
    """It stores nothing any more, and nobody waits long for that."""

    def hang(self):
        commit_queue.CLOSE_S = 0.1
        pending_snapshots.STORE_S = 0.5
        self._life.committer.store = lambda *_arguments: time.sleep(1e6)

    ray.get(coordinator.__ray_call__.remote(hang))


@pytest.mark.acceptance("X10")
def test_a_storage_that_hangs_lets_those_go_on_who_wait_for_it(new_system):
    system = new_system(snapshots=rayshot.SnapshotConfig(timeout_s=1.0))
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    coordinator = system._identity.coordinator
    let_storage_hang(coordinator)
    first = coordinator.snapshot.remote(SnapshotRequest())
    with pytest.raises(SnapshotAborted, match="did not begin within its time-out"):
        system.snapshot()
    with pytest.raises(ray.exceptions.RayTaskError, match="the storage has not answered"):
        ray.get(first)
    assert ray.get(alice.read.remote()) == 1


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("X10")
@pytest.mark.parametrize("max_failures", [0, 3], ids=["it stops", "it goes back"])
def test_a_storage_that_hangs_lets_those_go_on_who_wait_for_it_also_when_an_actor_dies(new_system, max_failures):
    failure = rayshot.FailureConfig(max_failures=max_failures)
    system = new_system(failure=failure, snapshots=rayshot.SnapshotConfig(timeout_s=2.0))
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    system.snapshot()
    coordinator = system._identity.coordinator
    let_storage_hang(coordinator)
    asked = coordinator.snapshot.remote(SnapshotRequest())
    eventually(lambda: [one for one in system.status().snapshots if one.recorded] or None)
    os.kill(system.status().actors["alice"].pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayTaskError, match="the storage has not answered"):
        ray.get(asked, timeout=30)


def test_who_attaches_to_a_system_that_is_stopped_hears_why(new_system, tmp_path):
    system = new_system("bank", failure=STOPS)
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    os.kill(system.status().actors["alice"].pid, signal.SIGKILL)
    eventually(lambda: state_of("bank") == "stopped", 30)
    attached = rayshot.init("bank", storage=tmp_path / "shots")
    with pytest.raises(ActorDied, match="'alice'"):
        Account.options(name="bob").remote(1)
    attached.shutdown()


@pytest.mark.wide("slow")
@pytest.mark.acceptance("B13", "X10")
def test_a_restore_survives_its_program(new_system, start_elsewhere, tmp_path):
    flag = tmp_path / "flag"
    system = new_system("bank")
    Waiter.options(name="waiter").remote(str(flag))
    system.snapshot()
    system.shutdown()
    flag.touch()
    program = start_elsewhere("restore", system.storage, flag)
    eventually(lambda: pid_of("bank", "waiter"), 60)
    program.kill()
    flag.unlink()
    attached = rayshot.init("bank", storage=system.storage)
    new_system.made.append(attached)
    assert ray.get(attached.get_actor("waiter").read.remote()) == str(flag)
    assert attached.incarnation == 2


@pytest.mark.wide("slow")
@pytest.mark.acceptance("B13", "X10")
def test_a_restore_whose_program_was_killed_before_it_had_ordered_it_is_taken_over_by_the_next_one(
    new_system, start_elsewhere, tmp_path
):
    flag = tmp_path / "flag"
    flag.touch()
    system = new_system("bank")
    system.snapshot()
    system.shutdown()
    program = start_elsewhere("restore_slowly", system.storage, flag)
    eventually(lambda: state_of("bank") == "loading" and is_watched("bank"), 60)
    program.kill()
    restored = rayshot.restore(storage=system.storage)
    new_system.made.append(restored)
    assert restored.incarnation == 3


@pytest.mark.wide("slow")
@pytest.mark.acceptance("X10")
def test_a_restore_loads_an_actor_again_whose_process_is_stopped(new_system, tmp_path, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.opening.from_snapshot.START_S", 10.0)
    flag = tmp_path / "flag"
    system = new_system("bank")
    Waiter.options(name="waiter").remote(str(flag))
    system.snapshot()
    system.shutdown()
    flag.touch()
    with ThreadPoolExecutor(1) as pool:
        restored = pool.submit(rayshot.restore, system.storage)
        os.kill(eventually(lambda: pid_of("bank", "waiter"), 60), signal.SIGSTOP)  # it is killed soon
        flag.unlink()
        new_system.made.append(restored.result())
    assert ray.get(new_system.made[-1].get_actor("waiter").read.remote()) == str(flag)


@pytest.mark.wide("slow")
@pytest.mark.acceptance("X10")
def test_a_system_whose_program_was_killed_while_it_began_is_begun_again(new_system, start_elsewhere, tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    storage = tmp_path / "shots"
    program = start_elsewhere("resume", storage, flag)
    eventually(lambda: state_of("bank") == "beginning" and is_watched("bank"), 60)
    program.kill()
    flag.unlink()
    system = rayshot.resume("bank", storage=storage, begin=begin(str(flag)))
    new_system.made.append(system)
    assert ray.get(system.get_actor("waiter").read.remote()) == str(flag)
    assert (system.incarnation, [str(snapshot.id) for snapshot in system.snapshots()]) == (2, ["2-coordinator-1"])


@pytest.mark.wide("slow")
@pytest.mark.acceptance("C6", "X11")
def test_a_slow_actor_that_a_thread_floods_holds_no_snapshot_up_and_the_result_says_what_it_lacks(system, caplog):
    slow = Sluggish.options(name="slow").remote(0.0)
    slow.work.tell(8.0)
    told = 0

    def flood():
        nonlocal told
        with contextlib.suppress(SystemStopped):  # of the end of the test
            while True:
                slow.note.tell("x" * 10_000)
                told += 1

    threading.Thread(target=flood, daemon=True).start()
    eventually(lambda: system._port.session.channel("slow").full, 60)
    snapshot = system.snapshot()
    assert snapshot.left_out["slow"] > 0
    assert f"does not hold {snapshot.left_out['slow']:,} to slow" in caplog.text
    (driver,) = {channel.sender for channel in snapshot.channels}
    assert snapshot.channel(driver, "slow").sent + snapshot.left_out["slow"] <= told + 3
    snapshot.verify()


@pytest.mark.acceptance("X11")
def test_an_actor_that_waits_for_room_is_waited_for_once(system, monkeypatch):
    monkeypatch.setattr(drain, "BIRTH_S", 0.5)
    alice = Account.options(name="alice").remote(100)
    assert ray.get(alice.read.remote()) == 100
    waiting = Account.options(name="waiting", resources={"moon": 1}).remote(0)
    waiting.deposit.tell(1)
    assert system.snapshot().left_out == {"waiting": 2}
    monkeypatch.setattr(drain, "BIRTH_S", 1e6)
    looks, look = [], DriverSession.await_taken
    monkeypatch.setattr(DriverSession, "await_taken", lambda *arguments: looks.append(1) or look(*arguments))
    second = system.snapshot()
    assert (second.left_out, second.states()) == ({"waiting": 2}, {"alice": {"balance": 100}})
    assert len(looks) == 1


@pytest.mark.acceptance("X11")
def test_a_snapshot_reads_nothing_back_from_the_storage(system, monkeypatch):
    alice = Account.options(name="alice").remote(1)
    for _ in range(3):
        system.snapshot()
    calls = []

    def counted(name):
        true = getattr(LocalStore, name)

        def call(*arguments, **more):
            calls.append(name)
            return true(*arguments, **more)

        return call

    for name in ("read_range", "list", "create"):
        monkeypatch.setattr(LocalStore, name, counted(name))
    snapshot = system.snapshot()
    assert (calls, snapshot.left_out) == ([], {})
    assert snapshot.states() == {"alice": {"balance": 1}}
    assert calls
    assert snapshot == system.snapshots()[-1]
    assert ray.get(alice.read.remote()) == 1


def test_a_system_is_not_stopped_over_messages_that_nobody_has_taken(system, monkeypatch):
    monkeypatch.setattr(drain, "BIRTH_S", 0.5)
    monkeypatch.setattr(runtime_system, "STOP_S", 0.5)
    Account.options(name="waiting", resources={"moon": 1}).remote(0)
    with pytest.raises(SnapshotAborted, match=r"waiting has not taken the messages of this program within 0\.5 s"):
        system.stop_with_savepoint("move")
    assert (system.status().state, system.snapshots()) == ("running", [])


def test_a_system_does_not_begin_without_an_actor_that_it_was_to_begin_with(new_system, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime_system, "BEGIN_S", 0.5)

    def make(_system):
        Account.options(name="waiting", resources={"moon": 1}).remote(0)

    with pytest.raises(SystemStopped, match=r"waiting did not start.* within 0.5 s.* has not begun"):
        rayshot.resume("bank", storage=tmp_path / "shots", begin=make)
    assert state_of("bank") is None


@pytest.mark.wide("slow")
@pytest.mark.acceptance("P7")
def test_a_handler_that_does_not_end_is_named_in_the_detail_of_the_status(new_system, monkeypatch):
    monkeypatch.setattr(status, "LONG_S", 0.5)
    system = new_system("endless")
    slow = Sluggish.options(name="slow").remote(0.0)
    for _ in range(200):
        slow.note.tell("one after the other: none of these runs for long")
    ray.get(slow.note.remote("the last"))
    assert system.status().detail == ""
    slow.work.tell(3)
    found = eventually(lambda: system.status().detail)
    assert re.fullmatch(r"work of actor 'slow' has run for \d+ s or more, and all else waits there", found)
    eventually(lambda: system.status().detail == "", 20)
