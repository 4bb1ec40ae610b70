"""The actors that a driver makes, and the messages that mention them."""

import pytest

from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import (
    ActorMade,
    ActorsMentioned,
    CallMade,
    CutCommitted,
    OutcomeCame,
    ReleaseMessages,
    SendTagged,
    SystemRolledBack,
)
from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded
from rayshot.protocol.identity import SnapshotId
from tests.protocol.facts import FIRST, answered


def made(driver, name):
    """The driver makes an actor, and tells it its creation."""
    driver.handle(ActorMade(name))
    return driver.handle(BatchTaken(name, 1))


def tells_q_of(driver, actors):
    """The first message to q mentions these actors, whose names are one letter each."""
    driver.handle(ActorsMentioned("q", 1, frozenset(actors)))
    return driver.handle(BatchTaken("q", 1))


@pytest.fixture(params=[False, True], ids=["retains nothing", "retains"])
def either(request):
    return Driver("d", 1, retains=request.param)


def test_a_message_that_mentions_an_actor_leaves_behind_its_creation_and_with_all_that_stand_behind_it(either):
    assert made(either, "p") == (SendTagged("p", 1, 1, 1, ()),)
    either.handle(ActorsMentioned("q", 3, frozenset("p")))
    assert either.handle(BatchTaken("q", 5)) == (SendTagged("q", 1, 1, 2, ()),)
    assert either.handle(BatchTaken("q", 1)) == ()
    assert either.handle(BatchTaken("r", 1)) == (SendTagged("r", 1, 1, 1, ()),)
    either.validate()
    assert either.handle(BatchAcknowledged("p", 1))[-1] == SendTagged("q", 1, 3, 4, ())
    assert not either.starting
    either.validate()


def test_the_first_message_may_mention_several_and_leaves_when_the_last_of_them_has_started(either):
    made(either, "p")
    made(either, "s")
    assert tells_q_of(either, "ps") == ()
    for started in ("p", "s"):
        either.validate()
        effects = either.handle(BatchAcknowledged(started, 1))
    assert effects[-1] == SendTagged("q", 1, 1, 1, ())


def test_an_actor_that_has_ended_holds_nothing(either):
    made(either, "p")
    tells_q_of(either, "p")
    assert either.handle(ReceiverEnded("p")) == (SendTagged("q", 1, 1, 1, ()),)


def test_behind_a_rollback_an_actor_that_the_cut_lacks_starts_again_and_holds_what_mentions_it():
    driver = Driver("d", 1, retains=True)
    for name in ("p", "s", "t"):
        made(driver, name)
        driver.handle(BatchAcknowledged(name, 1))
    for number, name in enumerate("pst", 1):
        driver.handle(ActorsMentioned("q", number, frozenset(name)))
    assert driver.handle(BatchTaken("q", 3)) == (SendTagged("q", 1, 1, 3, ()),)
    back = {"sent": {"s": 1, "t": 0}, "ended": frozenset("t")}
    assert driver.missing(**back) == ["p"]
    effects = driver.handle(SystemRolledBack(2, **back))
    assert driver.starting == {"p"}
    assert effects == (ReleaseMessages("t", 1), SendTagged("p", 2, 1, 1, ()))
    driver.validate()
    assert driver.handle(BatchAcknowledged("p", 1)) == (SendTagged("q", 2, 1, 3, ()),)
    driver.handle(CutCommitted(SnapshotId(2, "coordinator", 1), {"p": 1, "s": 1}))
    assert driver.missing({}, ()) == []


def test_what_mentions_an_actor_waits_for_answers_too():
    driver = Driver("d", 1, retains=True)
    made(driver, "p")
    driver.handle(BatchAcknowledged("p", 1))
    driver.handle(BatchTaken("r", 1))
    driver.handle(answered("r", 1))
    tells_q_of(driver, "p")
    effects = driver.handle(SystemRolledBack(2, {}))
    assert [one.receiver for one in effects] == ["p", "r"]
    assert driver.handle(BatchAcknowledged("p", 1)) == ()  # it has started; the answer is missing
    assert driver.handle(answered("r", 1, 2)) == (SendTagged("q", 2, 1, 1, ()),)
    driver.validate()


def test_an_actor_has_started_though_a_cut_that_holds_its_creation_is_told_before_the_acknowledgement():
    driver = Driver("d", 1, retains=True)
    made(driver, "p")
    tells_q_of(driver, "p")
    driver.handle(CutCommitted(FIRST, {"p": 1}))
    assert driver.handle(BatchAcknowledged("p", 1)) == (SendTagged("q", 1, 1, 1, ()),)


def test_what_ends_is_sent_nothing_more_though_it_waits_for_itself():
    driver = Driver("d", 1, retains=False)
    made(driver, "p")
    driver.handle(ActorsMentioned("p", 2, frozenset("p")))
    driver.handle(BatchTaken("p", 1))
    tells_q_of(driver, "p")
    assert driver.handle(ReceiverEnded("p")) == (SendTagged("q", 1, 1, 1, ()),)
    driver.validate()


def test_a_creation_that_is_numbered_late_waits_for_no_answer_that_follows_from_its_actor():
    driver = Driver("d", 1, retains=True)
    driver.handle(ActorMade("p"))
    tells_q_of(driver, "p")
    driver.handle(CallMade("q", 7, 1))
    driver.handle(ReceiverEnded("q"))
    driver.handle(OutcomeCame("q", 7, (), 1))  # it says that q has ended
    assert driver.handle(BatchTaken("p", 2)) == (SendTagged("p", 1, 1, 2, ()),)
    driver.handle(BatchAcknowledged("p", 2))
    assert driver.handle(SystemRolledBack(2, {})) == (SendTagged("p", 2, 1, 1, ()),)  # its second message waits
    assert driver.handle(BatchAcknowledged("p", 1)) == (SendTagged("q", 2, 1, 1, ()),)
    driver.validate()


def test_an_actor_that_has_ended_in_a_cut_is_never_made_again_though_its_creation_was_not_numbered():
    driver = Driver("d", 1, retains=True)
    driver.handle(ActorMade("p"))
    tells_q_of(driver, "p")
    effects = driver.handle(CutCommitted(FIRST, {}, ended=frozenset("p")))
    assert effects == (SendTagged("q", 1, 1, 1, ()),)
    assert driver.missing({}, ()) == []


def test_of_many_actors_that_are_told_of_each_other_each_message_waits_once():
    driver, names = Driver("d", 1, retains=True), [f"w{number:04}" for number in range(400)]
    for name in names:
        driver.handle(ActorMade(name))
    for name in names:
        driver.handle(ActorsMentioned(name, 2, frozenset(names)))
        driver.handle(BatchTaken(name, 2))
    for name in names:
        assert len(driver._mentioning) == 1
        effects = driver.handle(BatchAcknowledged(name, 1))
    assert len(effects) == len(names)
