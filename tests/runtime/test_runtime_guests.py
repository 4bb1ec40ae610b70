"""Plain tasks and plain actors hand on what actors answered, and no snapshot holds the effect without its cause."""

import threading

import pytest
import ray

from rayshot.errors import SnapshotAborted
from rayshot.runtime.opening.ports import driver_port, hear
from tests.runtime.workloads import Account
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@ray.remote(num_cpus=0)
def read(account):
    """A plain task that returns what an actor answered."""
    return ray.get(account.read.remote())


@ray.remote(num_cpus=0)
def withdraw(account, amount):
    account.deposit.tell(-amount)
    ray.get(account.read.remote())
    return amount


@ray.remote(num_cpus=0)
def tags_of(_answer, account):
    """A plain task that is given an answer, and then sends: the snapshots of which it brings the news."""
    account.deposit.tell(0)
    port = driver_port(account._system)
    port.session.told()
    return port.session.machine.tags


@ray.remote(num_cpus=0)
def tags_of_error(answers, account):
    """As `tags_of`, of an answer that is an error."""
    with pytest.raises(ValueError, match="no such luck"):
        ray.get(answers)
    account.deposit.tell(0)
    port = driver_port(account._system)
    port.session.told()
    return port.session.machine.tags


@pytest.fixture
def under_way(system, tmp_path):
    """A snapshot that alice has recorded and bob has not: `go` lets him; `take()` gives what came of it."""
    alice, bob = (Account.options(name=name).remote(100) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    bob.pause_until.tell(str(tmp_path / "recorded"))
    taken = []

    def photograph():
        try:
            taken.append(system.snapshot())
        except SnapshotAborted as error:
            taken.append(error)

    thread = threading.Thread(target=photograph)
    thread.start()
    eventually(lambda: [snapshot.missing for snapshot in system.status().snapshots] == [("bob",)])
    yield (
        alice,
        bob,
        system.status().snapshots[0].id,
        (tmp_path / "recorded").touch,
        lambda: (thread.join(), taken[0])[1],
    )
    (tmp_path / "recorded").touch()
    thread.join()


def is_withheld(system, name):
    host = ray.get(system._identity.coordinator.actors.remote())[name]
    return ray.get(host.__ray_call__.remote(lambda self: bool(getattr(self._process.outcomes, "_withheld", ()))))


@pytest.mark.acceptance("O6")
def test_what_a_task_returns_is_in_no_snapshot_before_its_cause(system, under_way):
    alice, bob, _, go, take = under_way
    moved = threading.Event()

    def move():
        bob.deposit.tell(ray.get(withdraw.remote(alice, 10)))
        moved.set()

    mover = threading.Thread(target=move)
    mover.start()
    eventually(lambda: moved.is_set() or is_withheld(system, "alice"))
    system._port.session.await_taken(system._port.session.told(), 10)
    go()
    snapshot = take()
    mover.join()
    in_flight = [message.args[0] for state in snapshot.channels.values() for message in state.messages]
    balances = [state["balance"] for state in snapshot.states().values()]
    assert sum(balances) + sum(amount for amount in in_flight if isinstance(amount, int)) == 200


@pytest.mark.acceptance("O6")
def test_a_task_that_is_given_an_answer_brings_the_news_that_came_with_it(under_way):
    alice, _, snapshot, _, _ = under_way
    assert snapshot in ray.get(tags_of.remote(alice.read.remote(), alice))


@pytest.mark.acceptance("O6")
def test_a_task_that_is_given_an_error_brings_the_news_that_came_with_it(under_way):
    alice, _, snapshot, _, _ = under_way
    error = alice.fail.remote()
    assert snapshot in ray.get(tags_of_error.remote([error], alice))
    with pytest.raises(ValueError, match="no such luck") as raised:
        ray.get(error)
    assert isinstance(raised.value, ray.exceptions.RayTaskError)


@pytest.mark.wide("slow")
@pytest.mark.acceptance("O6")
def test_a_snapshot_that_waits_for_who_waits_for_a_task_is_given_up(under_way):
    alice, _, _, _, take = under_way
    assert ray.get(read.remote(alice)) == 100
    error = take()
    assert isinstance(error, SnapshotAborted)
    assert "a plain task waits for an answer of 'alice'" in error.message


@pytest.mark.acceptance("O6")
def test_news_of_an_earlier_system_of_the_same_name_and_number_is_not_this_ones(new_system, tmp_path):
    first = new_system("bank")
    hear(first._identity.life, [(1, "coordinator", 1)])
    first._port.session.told()
    assert first._port.session.machine.tags
    first.shutdown()
    second = new_system("bank", storage=tmp_path / "other")
    assert second.incarnation == first.incarnation
    second._port.session.told()
    assert not second._port.session.machine.tags


@pytest.mark.acceptance("O6")
def test_news_is_heard_while_the_port_is_busy(system):
    """Ray unpickles a result, which brings the news, under a lock that the port waits for when it heeds answers."""
    listener = threading.Thread(target=hear, args=(system._identity.life, [(1, "coordinator", 9)]), daemon=True)
    with system._port.session.lock:
        listener.start()
        listener.join(20)
        assert not listener.is_alive()


@pytest.mark.acceptance("O6")
def test_a_program_calls_on_threads_while_it_takes_snapshots(system):
    alice, bob = (Account.options(name=name).remote(100) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    done = threading.Event()

    def call():
        while not done.is_set():
            ray.get([alice.read.remote(), bob.read.remote()])

    callers = [threading.Thread(target=call, daemon=True) for _ in range(2)]
    for caller in callers:
        caller.start()
    try:
        assert len({system.snapshot().id for _ in range(20)}) == 20
    finally:
        done.set()
    for caller in callers:
        caller.join(20)
        assert not caller.is_alive()
