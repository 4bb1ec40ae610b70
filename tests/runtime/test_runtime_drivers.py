"""Handles work wherever they are: in plain tasks, plain actors and threads; and drivers that die are forgotten."""

import gc
import os
import signal
import threading
import time
import weakref

import pytest
import ray

import rayshot
from rayshot.errors import ActorExited, ConfigError, NoAnswer, SystemDown, SystemStopped
from rayshot.protocol.identity import is_driver
from rayshot.runtime.coordinator import driver_watch
from rayshot.runtime.door import notes
from rayshot.runtime.door.naming import find_coordinator
from rayshot.runtime.driver.port import DriverPort
from tests.runtime.healed import STOPS, kill, until_it_runs
from tests.runtime.take_over import after_take_over, kill_coordinator
from tests.runtime.test_runtime_calls import snapshot_with_in_flight
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@ray.remote(num_cpus=0)
def work(alice):
    """A plain task: makes an actor, tells it and calls both."""
    mine = Account.options(name="made").remote(10)
    mine.deposit.tell(1)
    alice.deposit.tell(5)
    return mine, ray.get([mine.read.remote(), alice.read.remote()])


@ray.remote(num_cpus=0)
class Worker:
    """A plain actor that keeps a handle."""

    def __init__(self, handle):
        self.handle = handle

    def deposit(self, amount):
        self.handle.deposit.tell(amount)
        return ray.get(self.handle.read.remote())

    def deposit_in_a_thread(self, amount):
        thread = threading.Thread(target=self.handle.deposit.tell, args=(amount,))
        thread.start()
        thread.join()
        return ray.get(self.handle.read.remote())

    def look(self):
        return self.handle.deposit is not None

    def make(self):
        return Account.remote(3)

    def ask_until_down(self):
        """Why calls, and then what is told, are refused."""
        refusals = []
        for send in (self.handle.read.remote, lambda: self.handle.deposit.tell(1)):
            while True:
                try:
                    send()
                except (SystemDown, RecursionError) as error:
                    refusals.append(type(error).__name__)
                    break
                time.sleep(0.01)
        return refusals

    def pid(self):
        return os.getpid()


def drivers_in(snapshot):
    """The drivers of which a snapshot counts messages."""
    return {channel.sender for channel in snapshot.channels if is_driver(channel.sender)}


def others_in(system):
    return drivers_in(system.snapshot()) - {system._port.name}


def tell_of_death(system, *names):
    """What the coordinator does where it sees that drivers died."""
    for name in names:
        ray.get(
            system._identity.coordinator.__ray_call__.remote(lambda self, name=name: self.drivers._tell_of_death(name))
        )


@pytest.mark.acceptance("O6")
def test_a_plain_task_tells_calls_and_makes_actors(system):
    alice = Account.options(name="alice").remote(1)
    made, balances = ray.get(work.remote(alice))
    assert balances == [11, 6]
    made.deposit.tell(1)
    assert ray.get(made.read.remote()) == 12
    assert sorted(system.snapshot().actors) == ["alice", "made"]


@pytest.mark.acceptance("O6")
def test_what_a_task_tells_arrives_though_its_process_takes_no_other_task(system):
    @ray.remote(num_cpus=0, max_calls=1)
    def deposit(account):
        for _ in range(100):
            account.deposit.tell(1)

    alice = Account.options(name="alice").remote(0)
    ray.get(deposit.remote(alice))
    eventually(lambda: ray.get(alice.read.remote()) == 100, 60)


@pytest.mark.acceptance("O6")
def test_a_plain_actor_tells_calls_and_makes_actors_in_its_threads_too(system):
    worker = Worker.remote(Account.options(name="alice").remote(1))
    assert ray.get(worker.deposit.remote(2)) == 3
    assert ray.get(worker.deposit_in_a_thread.remote(3)) == 6
    assert ray.get(ray.get(worker.make.remote()).read.remote()) == 3
    assert len(others_in(system)) == 1


def other_driver(system):
    """An actor, a plain actor that has told it 2, and the driver that the plain actor's process is."""
    alice = Account.options(name="alice").remote(1)
    worker = Worker.remote(alice)
    ray.get(worker.deposit.remote(2))
    (driver,) = others_in(system)
    return alice, worker, driver


@pytest.mark.acceptance("O6")
def test_a_driver_whose_process_was_killed_is_closed_and_then_forgotten(system):
    alice, worker, driver = other_driver(system)
    os.kill(ray.get(worker.pid.remote()), signal.SIGKILL)
    eventually(lambda: driver not in drivers_in(system.snapshot()), 60)
    last, host = system.snapshot(), ray.get(system._identity.coordinator.actors.remote())["alice"]
    assert last.states() == {"alice": {"balance": 3}}
    assert last.verify().trust.value == "trusted"

    def counters(self):
        process = self._process
        machine = process.runner.participant
        return {*process.channels.mailbox.processed, *machine._arrived, *machine._closed_at}

    assert driver not in ray.get(host.__ray_call__.remote(counters))
    assert ray.get(alice.read.remote()) == 3


@pytest.mark.acceptance("O6")
def test_a_hundred_drivers_leave_no_counter(system):
    alice = Account.options(name="alice").remote(0)
    assert ray.get(alice.read.remote()) == 0
    ports = [DriverPort(system._identity) for _ in range(100)]
    for port in ports:
        port.handle_of("alice").deposit.tell(1)
    eventually(lambda: ray.get(alice.read.remote()) == 100)
    assert len(others_in(system)) == 100
    tell_of_death(system, *(port.name for port in ports))
    closed = system.snapshot()
    assert closed.states() == {"alice": {"balance": 100}}
    eventually(lambda: not others_in(system))
    for port in ports:
        port.close(SystemStopped("the test is over"))


@pytest.mark.acceptance("O6")
def test_lives_that_are_over_leave_no_thread_and_no_port_in_a_process(new_system):
    def live(name):
        system = new_system(name)
        ports.append(weakref.ref(system._port))
        assert ray.get(Account.remote(1).read.remote()) == 1
        system.shutdown()
        new_system.made.remove(system)

    def threads():
        return sum(thread.name.startswith("rayshot-dropped") for thread in threading.enumerate())

    ports, before = [], threads()
    for n in range(3):
        live(f"life{n}")

    def is_over():
        gc.collect()
        return threads() <= before and [port() is None for port in ports] == [True, True, False]

    eventually(is_over, 60)  # the last one says of its system that it was shut down


@pytest.mark.acceptance("O6")
def test_drivers_of_earlier_lives_leave_no_counter_after_a_restore(new_system):
    system = new_system("bank")
    alice = Account.options(name="alice").remote(1)
    ray.get(Worker.remote(alice).deposit.remote(2))
    assert len(drivers_in(system.snapshot())) == 2
    system.shutdown()
    restored = rayshot.restore(storage=system.storage)
    new_system.made.append(restored)
    assert drivers_in(restored.snapshot()) == set()
    assert ray.get(restored.get_actor("alice").read.remote()) == 3
    assert drivers_in(restored.snapshot()) == {restored._port.name}


@pytest.mark.acceptance("O6")
def test_a_message_of_an_earlier_lifes_driver_that_is_in_flight_is_counted_until_it_is_handled(new_system, tmp_path):
    system = new_system("bank")
    taken = snapshot_with_in_flight(system, tmp_path / "gate", lambda alice: alice.deposit.tell(5))
    assert [message.method for message in taken.channel(system._port.name, "alice").messages] == ["deposit"]
    system.shutdown()
    restored = rayshot.restore(storage=system.storage)
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("alice").read.remote()) == 6
    eventually(lambda: drivers_in(restored.snapshot()) == {restored._port.name})


@pytest.mark.acceptance("O6")
def test_a_plain_actor_goes_on_with_a_later_life_of_the_system(new_system):
    system = new_system("bank")
    worker = Worker.remote(Account.options(name="alice").remote(1))
    assert ray.get(worker.deposit.remote(2)) == 3
    system.snapshot()
    system.shutdown()
    restored = rayshot.restore(storage=system.storage)
    new_system.made.append(restored)

    def goes_on():  # a moment after the restore it may not have heard that the first life is over
        try:
            return ray.get(worker.deposit.remote(0))
        except (SystemStopped, ray.exceptions.RayActorError):
            return None

    assert eventually(goes_on) == 3
    assert ray.get(worker.deposit.remote(4)) == 7


@pytest.mark.acceptance("O6")
def test_a_plain_actor_hears_of_a_death_while_the_coordinator_still_answers(new_system):
    """It does not attach to the same life again, though its coordinator would take it."""
    system = new_system(failure=STOPS)
    worker = Worker.remote(Account.options(name="alice").remote(1))
    assert ray.get(worker.deposit.remote(2)) == 3
    os.kill(system.status().actors["alice"].pid, signal.SIGKILL)
    assert ray.get(worker.ask_until_down.remote(), timeout=60) == ["ActorDied", "ActorDied"]


@pytest.mark.acceptance("O6")
def test_a_process_that_knew_a_system_which_is_over_makes_actors_in_the_one_that_runs(new_system):
    first = new_system("first")
    worker = Worker.remote(Account.options(name="alice").remote(1))
    assert ray.get(worker.look.remote()), "attached, and nothing sent of which an answer would tell it more"
    first.shutdown()
    eventually(lambda: find_coordinator(first.name) is None, 60)
    second = new_system("second")
    assert ray.get(ray.get(worker.make.remote()).read.remote()) == 3
    assert len(second.actors()) == 1


@pytest.mark.acceptance("O6")
def test_a_plain_task_that_makes_an_actor_must_know_of_which_system(new_system):
    @ray.remote(num_cpus=0, max_calls=1)
    def make():
        return Account.remote(1)

    with pytest.raises(SystemStopped, match="belongs to no rayshot system"):
        ray.get(make.remote())
    new_system("first")
    new_system("second")
    with pytest.raises(
        ConfigError, match=r"the systems first, second: say which, as in Class\.options\(system='first'"
    ):
        ray.get(make.remote())


@pytest.mark.acceptance("O6")
def test_one_process_is_one_driver_however_often_it_attaches(system):
    again = rayshot.init(system.name, storage=system.storage)
    assert again._port is system._port


@pytest.mark.wide("slow")
@pytest.mark.acceptance("O6")
def test_the_death_of_a_driver_is_seen_by_a_coordinator_that_took_over(system):
    _alice, worker, driver = other_driver(system)
    kill_coordinator(system)
    after_take_over(system.snapshot)
    watched = lambda self: list(self.drivers._drivers)  # noqa: E731
    coordinator = system._identity.coordinator
    eventually(lambda: driver in ray.get(coordinator.__ray_call__.remote(watched)), 30)
    os.kill(ray.get(worker.pid.remote()), signal.SIGKILL)
    eventually(lambda: driver not in drivers_in(system.snapshot()), 60)


@pytest.mark.acceptance("O6")
def test_the_death_of_a_driver_while_nobody_coordinates_is_seen_by_the_next_coordinator(system):
    _alice, worker, driver = other_driver(system)
    kill_coordinator(system, ray.get(worker.pid.remote()))
    after_take_over(system.snapshot)
    eventually(lambda: driver not in drivers_in(system.snapshot()), 60)


@pytest.mark.wide("slow")
def test_a_driver_that_died_before_its_coordinator_stays_dead_when_the_system_goes_back(system):
    _alice, worker, driver = other_driver(system)
    system.snapshot()
    os.kill(ray.get(worker.pid.remote()), signal.SIGKILL)
    coordinator = system._identity.coordinator
    eventually(lambda: driver in ray.get(coordinator.__ray_call__.remote(lambda self: self.drivers.dead)), 30)
    time.sleep(2 * driver_watch.LOOK_S)  # so that it has looked whether it may forget the driver
    kill_coordinator(system)
    assert after_take_over(lambda: system.status().state == "running")
    kill(system, "alice")
    until_it_runs(system)
    eventually(lambda: driver not in drivers_in(system.snapshot()), 60)
    eventually(lambda: driver not in notes.of_drivers(system.name).all())


@pytest.mark.acceptance("O6")
def test_a_driver_that_counts_as_dead_by_mistake_hears_of_it(system):
    alice = Account.options(name="alice").remote(1)
    assert ray.get(alice.read.remote()) == 1
    tell_of_death(system, system._port.name)

    def refused():
        try:
            ray.get(alice.read.remote())
        except (SystemStopped, NoAnswer) as error:
            return "counts as dead" in str(error)
        return False

    eventually(refused)
    with pytest.raises(SystemStopped, match="counts as dead"):
        eventually(lambda: alice.deposit.tell(1))


@ray.remote(num_cpus=0)
def wait():
    """A plain task whose result never comes."""
    threading.Event().wait()


@ray.remote(num_cpus=0)
class Hasty:
    """A plain actor that dies when it has begun to make an actor. The creation waits for its argument."""

    def make(self):
        Account.options(name="late").remote(wait.remote())
        os.kill(os.getpid(), signal.SIGKILL)


def test_an_actor_whose_maker_died_before_it_had_sent_the_creation_ends_and_snapshots_go_on(system):
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(Hasty.remote().make.remote())

    def why():
        try:
            ray.get(system.get_actor("late").read.remote(), timeout=1.0)
        except ActorExited as error:
            return str(error)
        except ray.exceptions.GetTimeoutError:
            return ""

    assert "died before the creation had arrived" in eventually(why, 60)
    eventually(lambda: "late" not in system.actors())  # the actor tells the coordinator, and then those who ask
    assert set(system.snapshot().states()) == {"alice"}
