"""Programs that attach under a name: when they died and come back, they go on where they were."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError, NameInUse, NoAnswer, NotReady
from rayshot.protocol.identity import label_of
from rayshot.runtime.coordinator import enrolment as coordinator_enrolment
from rayshot.runtime.coordinator.pending_snapshots import keys_missing
from rayshot.runtime.driver import coordinator_client, enrolment
from rayshot.runtime.driver.coordinator_client import CoordinatorClient
from rayshot.runtime.opening import ports
from tests.processes import search_path
from tests.runtime.healed import HEALS, Ledger, kill, kill_in, pid_of, report, unable_to_roll_back, until_it_runs
from tests.runtime.take_over import kill_coordinator
from tests.waiting import eventually

pytestmark = pytest.mark.ray
LINES = 100


@pytest.fixture
def system(new_system):
    """A system that heals itself, with a ledger."""
    system = new_system(failure=HEALS)
    begin()
    system.snapshot()
    return system


def begin():
    for name in ("ledger", "other"):
        ray.get(Ledger.options(name=name).remote().read.remote())


def start(system, name="ingest-7", lines=LINES, dies_at=-1):
    """A program that writes lines of the ledger in a process of its own."""
    words = [ray.get_runtime_context().gcs_address, system.name, name, str(lines), str(dies_at)]
    command = [sys.executable, "-m", "tests.runtime.program", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **search_path()}
    )


def ended(process):
    """Wait until a program has ended. Returns what earlier processes of it had told, as it was told."""
    out, errors = process.communicate(timeout=120)
    assert out.strip().isdecimal(), errors
    return int(out)


def lines_of(system, actor="ledger"):
    return ray.get(system.get_actor(actor).read.remote(), timeout=30)


def attached_as(system, name="ingest-7"):
    """Attach this process once more, as if it were another one."""
    saved = ports._begun[:]
    ports._begun.clear()
    try:
        return rayshot.attach(system.name, as_=name)
    finally:
        ports._begun[:] = saved


def in_coordinator(system, **limits):
    coordinator = system._identity.coordinator
    ray.get(
        coordinator.__ray_call__.remote(lambda _: [setattr(coordinator_enrolment, *item) for item in limits.items()])
    )


def test_a_program_that_died_goes_on_behind_what_it_had_told(system):
    assert ended(start(system, dies_at=50)) == 0
    told = ended(start(system, dies_at=80))
    assert 40 <= told <= 50, "the last line before an answer has arrived, those behind it may not have"
    assert ended(start(system)) >= 70
    assert lines_of(system) == list(range(LINES))


@pytest.mark.wide("slow")
def test_it_goes_on_through_rollbacks_and_deaths_of_the_coordinator(system):
    assert ended(start(system, dies_at=30)) == 0
    kill(system, "other")  # nothing of the program is in a snapshot
    until_it_runs(system)
    system.wait_until_running(30)
    assert ended(start(system, dies_at=60)) == 0
    kill_coordinator(system)
    until_it_runs(system, life=1)
    told = ended(start(system, dies_at=90))
    assert told >= 50
    kill(system, "ledger")
    until_it_runs(system, life=3)
    system.wait_until_running(30)
    assert lines_of(system) == list(range(told)), "what it was told never becomes less"
    assert ended(start(system)) == told
    assert lines_of(system) == list(range(LINES))


@pytest.mark.wide("slow")
def test_what_it_told_is_known_in_a_system_that_was_restored(system, tmp_path):
    assert ended(start(system, dies_at=50)) == 0
    system.snapshot()
    for _ in range(3):  # a driver without a name would be forgotten by now
        system.snapshot()
    held = len(system.snapshots()[-1].states()["ledger"]["lines"])
    system.shutdown()
    restored = rayshot.restore(storage=tmp_path / "shots")
    try:
        assert ended(start(restored)) == held
        assert lines_of(restored) == list(range(LINES))
        assert [label_of(sender) for sender, _ in restored.snapshot().channels].count("ingest-7") >= 2
    finally:
        restored.shutdown()


def test_behind_a_restore_of_an_earlier_snapshot_the_counts_are_those_of_that_snapshot(system, tmp_path):
    attached = attached_as(system)
    ledger = attached.get_actor("ledger")
    ray.get([ledger.write.remote(line) for line in range(4)])
    early = attached.snapshot()
    ray.get(ledger.write.remote(4))
    attached.snapshot()
    system.shutdown()
    restored = rayshot.restore(system.name, storage=tmp_path / "shots", snapshot=early.id)
    try:
        assert attached_as(restored).told == {"ledger": 4}
    finally:
        restored.shutdown()


def test_whatever_is_killed_each_line_counts_once_and_in_order(system):
    chance, dies_at, told = random.Random(7), 0, [0]
    for _ in range(4):
        dies_at = chance.randrange(told[-1], told[-1] + LINES // 4)
        program = start(system, dies_at=dies_at)
        time.sleep(chance.uniform(1.0, 4.0))
        kill_in(until_it_runs(system, life=1), chance.choice(["ledger", "other"]))
        out, errors = program.communicate(timeout=120)
        assert out.strip().isdecimal(), errors
        told.append(int(out))
        if chance.random() < 0.5:
            kill_coordinator(system)
    until_it_runs(system, life=1)
    ended(start(system))
    assert lines_of(system) == list(range(LINES)), told
    assert told == sorted(told)


@pytest.mark.wide("slow")
def test_programs_of_other_names_are_others(system):
    assert ended(start(system, dies_at=20)) == 0
    assert ended(start(system, name="ingest-8", lines=5)) == 0


def test_while_a_program_lives_no_other_gets_its_name(system, monkeypatch):
    attached = attached_as(system)
    assert attached.told == {}
    in_coordinator(system, DEATH_S=1.0)
    with pytest.raises(NameInUse, match="'ingest-7'"):
        attached_as(system)
    attached.get_actor("ledger").write.tell(1)
    eventually(lambda: lines_of(system) == [1])
    assert attached_as(system, "ingest-8").told == {}


@pytest.mark.wide("slow")
def test_a_coordinator_that_takes_over_knows_who_has_a_name(system):
    attached = attached_as(system)
    kill_coordinator(system)
    until_it_runs(system, life=1)
    in_coordinator(system, DEATH_S=1.0)
    with pytest.raises(NameInUse):
        attached_as(system)
    attached.get_actor("ledger").write.tell(1)
    eventually(lambda: lines_of(system) == [1])


def test_creations_do_not_count(system):
    attached = attached_as(system)
    made = attaching_through(attached, lambda: Ledger.options(name="made").remote())
    for line in range(3):
        made.write.tell(line)
    ray.get(made.read.remote())
    forget(system, attached)
    again = attached_as(system)
    assert again.told == {"made": 4}
    system.snapshot()
    kill(system, "made")
    until_it_runs(system)
    system.wait_until_running(30)
    forget(system, again)
    assert attached_as(system).told == {"made": 4}, "who made it is part of its state"


def test_what_a_plain_task_of_a_program_asks_does_not_count(system):
    attached = attached_as(system)
    ledger = attached.get_actor("ledger")
    ray.get(ledger.write.remote(1))
    assert ray.get(ray.remote(num_cpus=0)(lambda ledger: ray.get(ledger.read.remote())).remote(ledger)) == [1]
    forget(system, attached)
    assert attached_as(system).told == {"ledger": 1}


def attaching_through(attached, make):
    ports._begun.append(attached._port)
    try:
        return make()
    finally:
        ports._begun.remove(attached._port)


def forget(system, attached):
    """As if the process of this driver had died."""
    attached._port.close(rayshot.errors.SystemStopped("it is gone", system=system.name))
    coordinator, name = system._identity.coordinator, attached._port.name
    lose = lambda self: (self.drivers._drivers.pop(name), self.drivers._tell_of_death(name))  # noqa: E731
    ray.get(coordinator.__ray_call__.remote(lose))


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.parametrize("name", ["", "a b", "-x", "driver:1", "x" * 101, 7])
def test_what_cannot_be_a_name_is_refused(system, name):
    with pytest.raises(ConfigError, match="cannot name a program"):
        rayshot.attach(system.name, as_=name)


def test_a_process_that_is_a_driver_already_gets_no_name(system):
    with pytest.raises(ConfigError, match="is a driver of system"):
        rayshot.attach(system.name, as_="ingest-7")
    assert lines_of(system) == []


def test_a_task_gets_no_name_as_its_process_outlives_it(system):
    task = ray.remote(num_cpus=0)(lambda name: rayshot.attach(name, as_="ingest-7").told)
    with pytest.raises(ConfigError, match="in a program or in a plain actor"):
        ray.get(task.remote(system.name))


def test_without_a_name_nothing_is_told(system):
    assert system.told == {}
    assert report(system)["state"] == "running"


def test_who_gave_up_is_dead_also_if_it_announces_itself_later(system):
    def late(self):
        self.give_up_driver("driver:1.ingest-7")
        self.watch_driver("driver:1.ingest-7", [ray.put(1)], b"here")
        return "driver:1.ingest-7" in self.drivers

    assert not ray.get(system._identity.coordinator.__ray_call__.remote(late))


def test_a_program_is_not_let_in_for_as_long_as_the_system_cannot_go_back(system, tmp_path):
    with unable_to_roll_back(system, tmp_path, "other"):
        in_coordinator(system, RECOVERY_WAIT_S=0.5)
        with pytest.raises(NotReady, match=r"'ingest-7' was not let in for 0\.5 s: the system is recovering"):
            attached_as(system)
        in_coordinator(system, RECOVERY_WAIT_S=300.0)
        with pytest.raises(NotReady, match=r"driver:1\.ingest-7 has died"):  # who died is given up at once
            ray.get(
                system._identity.coordinator.__ray_call__.remote(
                    lambda self: self.enrolment._let_in("driver:1.ingest-7")
                )
            )
    assert attached_as(system).told == {}


def test_a_program_that_gave_up_attaching_keeps_no_name(system, tmp_path, monkeypatch):
    def silent(*_args, **_options):
        raise NoAnswer("the coordinator")

    with unable_to_roll_back(system, tmp_path, "other"):
        with monkeypatch.context() as patch, pytest.raises(NoAnswer):
            patch.setattr(enrolment, "LOOK_S", 0.1)
            patch.setattr(CoordinatorClient, "ask", silent)
            attached_as(system)
        known = lambda self: [driver for driver in self.drivers._drivers if label_of(driver)]  # noqa: E731
        eventually(lambda: ray.get(system._identity.coordinator.__ray_call__.remote(known)) == [] or None)
    assert attached_as(system).told == {}


def test_an_actor_that_hangs_keeps_a_program_waiting_no_longer_than_said(new_system):
    system = new_system()
    begin()
    in_coordinator(system, RECOVERY_WAIT_S=0.5, CLOSE_S=0.5)
    pid = pid_of(system, "ledger")
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(NotReady, match=r"ledger did not answer for 0\.5 s"):
        attached_as(system)
    os.kill(pid, signal.SIGCONT)
    in_coordinator(system, RECOVERY_WAIT_S=300.0, CLOSE_S=30.0)
    assert attached_as(system).told == {}


def test_a_program_that_gives_the_keys_is_let_in_at_its_second_try(system, monkeypatch):
    def lack_keys_once(self):
        ask = self._life.ask

        def refuse(_request):
            self._life.ask = ask
            raise keys_missing()

        self._life.ask = refuse

    ray.get(system._identity.coordinator.__ray_call__.remote(lack_keys_once))
    monkeypatch.setattr(coordinator_client, "offer_keys", lambda *_: True)
    assert attached_as(system).told == {}
