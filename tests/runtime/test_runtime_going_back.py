"""Drivers of a system that goes back to its snapshots by itself, on the fake."""

from types import SimpleNamespace

import pytest

import rayshot
from rayshot.errors import ActorExited, NameTaken, NoAnswer, SystemStopped
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.driver import subscription
from rayshot.runtime.opening import ports
from rayshot.runtime.opening.system import System
from rayshot.runtime.wire.notifications import Covered
from tests.fake.threads import Thread
from tests.runtime.going_back import DIED, Thing, answer, going_back, outcome


@pytest.fixture
def world(monkeypatch):
    with going_back("alice", "bob") as world:
        yield world
        monkeypatch.undo()  # before what it patched is put back


def test_what_was_told_and_not_covered_is_told_again_in_the_next_life(world):
    alice = world.handle("alice")
    for number in range(5):
        alice.take.tell(number)
    world.settle()
    world.commit()
    for number in range(5, 10):
        alice.take.tell(number)
    world.settle()
    world.roll_back("alice")
    alice.take.tell(10)
    world.settle()
    assert world.contents("alice") == list(range(11))
    assert world.port.life.incarnation == 2


def test_a_method_of_a_handle_goes_on_in_the_next_life_and_a_system_counts_it(world):
    system = System(world.identity())
    tell = world.handle("alice").take.tell
    tell(1)
    world.settle()
    world.roll_back()
    world.settle()
    tell(2)
    world.settle()
    assert world.contents("alice") == [1, 2]
    assert (system.incarnation, system._port) == (2, world.port)
    assert system._identity.incarnation == 2


def test_nothing_is_kept_when_a_durable_snapshot_holds_it(world):
    alice = world.handle("alice")
    for number in range(100):
        alice.take.tell(number)
    alice.take.remote(100)
    world.settle()
    assert world.session.budget.used > 0
    world.commit()
    world.settle()
    assert world.session.budget.used == 0
    world.roll_back()
    world.settle()
    assert world.contents("alice") == list(range(101))


def test_who_has_told_too_much_that_no_snapshot_holds_waits_and_then_hears_why(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.channel.retained.RETAINED_BYTES_MAX", 200)
    for file in ("channel", "port"):
        monkeypatch.setattr(f"rayshot.runtime.driver.{file}.ROOM_WAIT_S", 0.1)
    alice = world.handle("alice")
    alice.take.tell("x" * 300)
    world.settle()
    for send in (alice.take.tell, alice.take.remote):
        with pytest.raises(SystemStopped, match=r"no durable snapshot holds what this program told.*interval_s"):
            send(1)
    world.commit()
    world.settle()
    alice.take.tell(2)
    world.settle()
    assert world.contents("alice")[1:] == [2]


def test_an_actor_that_the_snapshot_lacks_is_made_again(world):
    made = Thing.options(name="made").remote(1)
    made.take.tell(2)
    world.settle()
    world.roll_back()
    world.settle()
    assert world.spawned == [(1, "made"), (2, "made")]
    assert world.contents("made") == [1, 2]
    world.commit()
    world.settle()
    world.roll_back("made")
    world.settle()
    assert world.spawned == [(1, "made"), (2, "made")]


def test_a_driver_does_not_go_on_before_an_actor_is_made_again_that_ray_refused_at_first(world, monkeypatch):
    refusals = [door.CallFailed("no answer now"), door.CallFailed("nor now")]

    def refuse(*made, maker):
        if refusals:
            raise refusals.pop()
        return world.spawn(*made, maker=maker)

    monkeypatch.setattr("rayshot.runtime.driver.maker.AGAIN_S", 0.0)
    Thing.options(name="made").remote(1).take.tell(2)
    world.settle()
    monkeypatch.setattr("rayshot.runtime.driver.maker.spawn_host", refuse)
    world.roll_back()
    world.settle()
    assert (refusals, world.contents("made")) == ([], [1, 2])


def test_an_acknowledgement_of_an_earlier_life_says_nothing_of_the_present_one(world):
    late = world.cluster.withheld["receive"] = []
    world.handle("alice").take.tell(1)
    while not late:
        world.happen()
    del world.cluster.withheld["receive"]
    world.roll_back()
    world.tell_news()
    while world.port.life.incarnation == 1:
        world.happen()
    late[0]()
    world.happen(-1)  # the driver hears of it
    assert world.session.machine.offer().sent == {}, "it has not arrived in this life"
    world.settle()
    assert world.session.machine.offer().sent == {"alice": 1}
    assert world.contents("alice") == [1]


def test_after_a_rollback_an_actor_that_is_not_there_yet_is_waited_for(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.driver.succession.RETURN_S", 60.0)
    world.make("carol")
    world.handle("carol").take.tell(1)
    world.settle()
    world.roll_back()
    world.settle()
    world.cluster.schedule.pass_s(30.0)
    assert "carol" not in world.hosts
    world.make("carol")  # by another program
    world.cluster.schedule.pass_s(1.0)
    world.settle()
    assert world.contents("carol") == [1]


def test_what_mentions_an_actor_that_is_made_again_waits_for_it(world):
    made, alice = Thing.options(name="made").remote(1), world.handle("alice")
    world.settle()
    alice.take.tell(1, made)
    world.settle()
    world.roll_back()
    world.tell_news()
    while "made" not in world.hosts or not world.hosts["made"].process.arrived:
        assert not world.hosts["alice"].process.arrived
        world.happen()
    world.settle()
    assert world.handled("alice") == [["take", 1, "made"]]


@pytest.mark.acceptance("P6")
def test_nobody_waits_again_for_an_actor_that_had_no_room_in_time_behind_a_rollback(world, monkeypatch):
    Thing.options(name="made").remote(1)
    world.settle()
    world.roll_back()
    world.tell_news()
    while "made" not in world.session.machine.starting & world.port.life.made_again:
        world.happen()
    waits = []
    monkeypatch.setattr("rayshot.runtime.door.door.wait", lambda refs, **_: waits.append(refs))
    monkeypatch.setattr(
        type(world.port.life.peers), "find", lambda *_: SimpleNamespace(hello=SimpleNamespace(remote=object))
    )
    for _ in range(3):
        world.port.maker.meet_again(world.port.life)
    assert len(waits) == 1


@pytest.mark.acceptance("P5")
def test_a_mention_that_waits_for_room_holds_its_own_message_and_none_that_others_send_meanwhile(world, monkeypatch):
    made, alice = Thing.options(name="made").remote(1), world.handle("alice")
    monkeypatch.setattr("rayshot.runtime.driver.channel.OUTBOX_MESSAGES_MAX", 0)
    alice.take.tell(1)
    creation = world.cluster.withheld["hello"] = []
    waiting = Thread(alice.take.tell, (3, made))
    waiting.begin()
    assert waiting.waits_for
    alice.take.remote(2)  # a call waits for no room
    del world.cluster.withheld["hello"]
    while world.hosts["alice"].process.arrived < 2:
        world.happen()
    for come in creation:
        come()
    waiting.join()
    world.settle()
    assert world.contents("alice") == [1, 2, 3]
    kept = world.session.machine._channels["alice"].retained
    assert [messages.last for messages in kept if messages.actors] == [3]


def test_an_actor_that_was_told_of_itself_and_ends_before_it_is_known_to_run_leaves_its_driver_whole():
    with going_back("alice", "bob", heals=False) as world:
        alice, late = world.handle("alice"), world.cluster.withheld.setdefault("receive", [])
        made = Thing.options(name="made").remote(1)
        made.take.tell(2, made)
        while not late:
            world.happen()
        del world.cluster.withheld["receive"]
        alice.take.tell(3, made)
        while world.events:
            world.happen()
        world.hosts["made"].end()
        world.port.life.learn_why("made")
        world.settle()
        alice.take.tell(4)
        world.settle()
        assert world.contents("alice") == [3, 4]


def test_an_anonymous_actor_that_is_dropped_ends_in_the_life_that_survives(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.wire.dropped_handles.PAUSE_S", 0.0)
    made = Thing.remote(1)
    name = made.name
    world.settle()
    world.roll_back()
    world.settle()
    del made
    world.settle()
    assert world.ended == {name}


def test_an_actor_whose_end_did_not_happen_takes_what_was_told_before_it_and_later(world):
    alice = world.handle("alice")
    tell = alice.take.tell
    tell(1)
    tell(2)
    world.hosts["alice"].end()
    world.settle()
    for refused in (tell, world.handle("alice").take.tell):
        with pytest.raises(ActorExited):
            refused(3)
    assert len(world.session.dead_letters.all()) == 2
    world.roll_back()
    world.settle()
    tell(4)
    alice.take.tell(5)
    world.settle()
    assert world.contents("alice") == [1, 2, 4, 5]


def test_how_many_calls_may_wait_at_an_actor_is_known_too_when_its_end_did_not_happen(world):
    made = Thing.options(max_pending_calls=1).remote(1)
    world.settle()
    world.commit()
    world.hosts[made.name].end()
    made.take.tell(2)
    world.settle()
    with pytest.raises(ActorExited):
        made.take.tell(3)
    world.roll_back()
    world.settle()
    made.take.remote(4)
    with pytest.raises(door.TooManyCalls):
        made.take.remote(5)


def test_an_outcome_that_was_lost_in_an_earlier_life_is_asked_for_in_the_present_one(world):
    world.handle("alice").take.remote(1)
    alice = world.hosts["alice"]
    while not alice.fetches:
        world.happen()
    alice.holds = True
    world.roll_back()
    world.settle()
    assert alice.process.outcomes == {1: 1}
    alice.holds, alice.lost = False, NoAnswer("it is lost")
    alice.settle()
    world.handle("bob").take.tell(2)
    world.settle()
    assert alice.process.outcomes == {}
    assert world.contents("bob") == [2]


def test_a_driver_remembers_only_of_the_last_actors_why_they_ended(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.driver.life.ENDED_KEPT_MAX", 2)
    for name in ("carol", "dave", "erin"):
        world.handle(name).take.tell(1)
        world.settle()
    assert list(world.port.life.ended) == ["dave", "erin"]


def test_of_an_actor_that_ended_in_a_durable_snapshot_nothing_is_kept(world):
    alice = world.handle("alice")
    alice.take.tell(1)
    world.settle()
    rayshot.kill(alice)
    alice.take.remote(2)
    world.settle()
    world.commit()
    world.settle()
    assert (world.session.budget.used, list(world.session.channels)) == (0, [])
    world.roll_back()
    world.settle()
    with pytest.raises(ActorExited, match="'alice' has ended"):
        world.handle("alice").take.tell(3)
    with pytest.raises(NameTaken):
        Thing.options(name="alice").remote(1)


def test_an_order_to_end_follows_the_system_into_its_next_life(world):
    alice = world.handle("alice")
    world.roll_back()
    world.settle()
    rayshot.kill(alice)
    world.settle()
    assert world.ended == {"alice"}


def test_a_call_of_a_living_actor_gets_its_outcome_in_the_next_life_and_one_of_a_dead_actor_an_error(world):
    refs = [world.handle(name).take.remote(1) for name in ("alice", "bob")]
    for _ in range(6):
        world.happen()
    world.roll_back("bob")
    world.settle()
    assert outcome(refs[0]) == 1
    assert isinstance(outcome(refs[1]), DIED)
    assert [world.contents(name) for name in ("alice", "bob")] == [[1], [1]]


def test_behind_an_answer_of_a_life_that_is_not_known_nothing_is_numbered(world):
    alice, bob = world.handle("alice"), world.handle("bob")
    alice.take.remote(1)
    while not world.hosts["alice"].process.mailbox:
        world.happen()
    world.commit()
    world.roll_back()
    world.recorded.append((2, "coordinator", 7))
    world.hosts["alice"].handle_next()
    bob.take.tell(1)
    while world.events:
        world.happen()
    assert not world.session.machine.may_number
    assert world.session.channel("bob").transported == 0
    world.settle()
    assert world.contents("bob") == [1]
    (batch,) = [batch for name, batch in world.taken if name == "bob"]
    assert [tag.counter for tag in batch.tags] == [7]


def test_news_that_a_plain_task_brings_of_a_life_that_is_not_known_wait_for_it_too(world):
    bob = world.handle("bob")
    bob.take.tell(1)
    world.settle()
    world.roll_back()
    ports.hear(world.identity().life, [(2, "coordinator", 7)])
    bob.take.tell(2)
    while world.events:
        world.happen()
    assert world.session.channel("bob").transported == 1
    world.settle()
    assert world.contents("bob") == [1, 2]
    assert all([tag.counter for tag in batch.tags] == [7] for _, batch in world.taken if batch.incarnation == 2)


def test_what_a_snapshot_waits_for_is_followed_into_the_next_life(world):
    world.handle("alice").take.tell(1)
    told = world.session.told()
    world.roll_back()
    assert world.session.await_taken(told, 0.0) == ["alice"]
    world.settle()
    assert world.port.life.incarnation == 2
    assert world.session.await_taken(told, 0.0) == []


def test_a_program_that_shuts_its_system_down_follows_it_no_more(world):
    world.handle("alice").take.tell(1)
    world.settle()
    world.roll_back()
    world.port.close(SystemStopped("it was shut down"))
    world.settle()
    assert world.polls == []
    assert world.port.life.incarnation == 1
    with pytest.raises(SystemStopped):
        world.handle("alice").take.tell(2)


def test_a_driver_that_cannot_follow_says_so(world):
    world.handle("alice").take.tell(1)
    world.settle()
    answer(world.polls.pop(), Covered(1, SnapshotId(1, "coordinator", 1), {"alice": -1}, {}, frozenset()))
    with pytest.raises(AssertionError):
        world.settle()
    with pytest.raises(SystemStopped, match="cannot follow system 'system' any more"):
        world.handle("alice").take.tell(2)


def test_while_the_coordinator_is_started_again_a_driver_asks_it_for_news_again(world, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.driver.subscription.AGAIN_S", 0.0)
    for _ in range(2):
        answer(world.polls.pop(), OSError())
        world.settle()
    assert len(world.polls) == 1


def test_a_call_for_news_that_was_lost_is_made_anew_and_its_late_answer_does_not_count(world):
    world.cluster.schedule.pass_s(subscription.SILENT_S - 1)
    assert len(world.polls) == 1
    world.cluster.schedule.pass_s(2)
    assert len(world.polls) == 2
    answer(world.polls.pop(0), None)
    world.roll_back()
    world.settle()
    assert world.port.life.incarnation == 2
    assert len(world.polls) == 1


def test_what_comes_late_from_an_earlier_life_says_nothing_of_what_is_told_again(world):
    alice = world.handle("alice")
    late = world.cluster.withheld["receive"] = []
    alice.take.tell(1)
    while not late:
        world.happen()
    world.roll_back()
    while world.port.life.incarnation == 1:
        if not world.events:
            world.tell_news()
        world.happen()
    channel = world.session.channel("alice")
    while not channel.in_flight:
        world.happen()
    late.pop(0)()
    world.happen(-1)  # the driver hears of it
    assert (world.session.machine.unacknowledged("alice"), channel.has_arrived(1)) == (1, False)
    del world.cluster.withheld["receive"]
    for come in late:
        come()
    world.settle()
    assert world.contents("alice") == [1]
