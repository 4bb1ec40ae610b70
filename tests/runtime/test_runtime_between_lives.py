"""What threads of a program do while its system goes back to a snapshot, on the fake."""

import pytest

from rayshot.errors import SystemRecovering
from rayshot.runtime.driver.life import DriverLife
from rayshot.runtime.driver.port import DriverPort
from tests.fake.threads import Thread
from tests.runtime.going_back import Thing, going_back, outcome


@pytest.fixture
def world(monkeypatch):
    with going_back("alice", "bob") as world:
        yield world
        monkeypatch.undo()  # before what it patched is put back


def test_who_waits_for_room_goes_on_in_the_next_life(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.channel.retained.RETAINED_BYTES_MAX", 200)
    alice = world.handle("alice")
    alice.take.tell("x" * 300)
    world.settle()
    waiting = Thread(alice.take.tell, (1,))
    waiting.begin()
    assert waiting.waits_for
    world.roll_back()
    world.tell_news()
    world.settle()
    assert waiting.waits_for
    world.commit()
    world.settle()
    assert world.contents("alice")[1:] == [1]


def stop_and_hear_of_it(world):
    world.handle("alice").take.tell(1)
    world.settle()
    world.stop()
    world.handle("alice").take.tell(2)
    world.settle()


def test_an_actor_that_is_made_while_the_system_goes_back_is_made_in_its_next_life(world):
    stop_and_hear_of_it(world)
    made = Thing.remote(1)
    made.take.tell(2)
    world.begin()
    world.settle()
    assert world.spawned == [(2, made.name)]
    assert world.contents(made.name) == [1, 2]


@pytest.mark.parametrize("name", [None, "made"])
def test_an_actor_whose_process_started_just_before_a_rollback_is_made_in_the_next_life(world, monkeypatch, name):
    def start_late(*made, maker):
        host = world.spawn(*made, maker=maker)
        if world.life == 1:
            world.roll_back()
            world.settle()
        return host

    monkeypatch.setattr("rayshot.runtime.driver.maker.spawn_host", start_late)
    made = Thing.options(**({} if name is None else {"name": name})).remote(1)
    made.take.tell(2)
    world.settle()
    assert [life for life, _ in world.spawned] == [1, 2]
    assert world.contents(made.name) == [1, 2]


@pytest.mark.parametrize(("owner", "method"), [(DriverLife, "find"), (DriverPort, "_fetch_of")])
def test_a_call_whose_receiver_was_found_just_before_a_rollback_goes_to_the_process_of_the_next_life(
    world, monkeypatch, owner, method
):
    find = getattr(owner, method)

    def find_early(*arguments, **options):
        found = find(*arguments, **options)
        if world.life == 1:
            world.roll_back("alice")
            world.settle()
        return found

    monkeypatch.setattr(owner, method, find_early)
    ref = world.handle("alice").take.remote(1)
    world.settle()
    assert outcome(ref) == 1
    assert world.contents("alice") == [1]


def test_an_actor_with_a_name_is_made_when_the_system_is_back(world, monkeypatch):
    stop_and_hear_of_it(world)
    with pytest.raises(SystemRecovering, match="no news of its next life"):
        Thing.options(name="made").remote(1)
    monkeypatch.setattr("rayshot.runtime.driver.session.RECOVERY_WAIT_S", 60.0)
    making = Thread(lambda: Thing.options(name="made").remote(1).take.tell(2))
    making.begin()
    assert making.waits_for
    world.begin()
    world.settle()
    assert world.spawned == [(2, "made")]
    assert world.contents("made") == [1, 2]


def test_while_the_system_goes_back_a_call_waits_and_what_is_told_does_not(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.driver.session.RECOVERY_WAIT_S", 60.0)
    alice = world.handle("alice")
    alice.take.tell(1)
    world.settle()
    world.stop()
    alice.take.tell(2)
    world.settle()
    assert world.port.life.rolls_back
    alice.take.tell(3)
    refs = []
    calling = Thread(lambda: refs.append(alice.take.remote(4)))
    calling.begin()
    assert calling.waits_for
    world.begin("alice")
    world.settle()
    assert outcome(refs[0]) == 4
    assert world.contents("alice") == [1, 2, 3, 4]


def test_a_call_does_not_wait_for_ever_for_a_system_that_goes_back(world):
    alice = world.handle("alice")
    alice.take.tell(1)
    world.settle()
    world.stop()
    alice.take.tell(2)
    world.settle()
    with pytest.raises(SystemRecovering, match="goes back to its last snapshot by itself"):
        alice.take.remote(2)


def test_who_waits_for_what_was_told_waits_again_for_what_had_arrived_in_an_earlier_life(world):
    found = []
    world.handle("alice").take.tell(1)
    world.settle()
    late = world.cluster.withheld["receive"] = []
    world.handle("bob").take.tell(2)
    told = world.session.told()
    waiting = Thread(lambda: found.append(world.session.await_taken(told, 60.0)))
    waiting.begin()
    assert waiting.waits_for
    world.roll_back()
    world.tell_news()
    world.settle()
    *of_others, of_bob = late
    of_bob()
    world.settle()
    assert waiting.waits_for, "for alice, to whom it is told again"
    for come in of_others:
        come()
    world.settle()
    assert found == [[]]
