"""Answers to a driver that come behind those to later calls: cuts hold calls as processed, and not answered."""

import random

import pytest

from rayshot.protocol.driver_events import (
    AnswerArrived,
    CallMade,
    CutCommitted,
    EvictionOffer,
    FetchAgain,
    MessagesHanded,
    OfferTaken,
    OutcomeCame,
    SendTagged,
    SystemRolledBack,
)
from rayshot.protocol.events import BatchAcknowledged, BatchTaken
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record
from rayshot.protocol.recovery_events import Evicted

K = SnapshotId(1, "coordinator", 1)


def call(driver, receiver, call_id, number):
    effects = driver.handle(BatchTaken(receiver, 1))
    driver.handle(CallMade(receiver, call_id, number))
    return effects


def sent(receiver, life, first, count=1):
    return SendTagged(receiver, life, first, count, ())


def late(number, life=1, receiver="q"):
    return AnswerArrived((), receiver, number, life, late=True)


def test_a_message_waits_for_late_answers_of_its_own_receiver_too(driver):
    driver.handle(BatchTaken("q", 2))
    driver.handle(late(2))
    driver.handle(BatchTaken("q", 1))
    driver.handle(late(1))
    driver.handle(BatchTaken("q", 1))
    assert driver.handle(SystemRolledBack(2, {})) == (sent("q", 2, 1, 2),)
    assert driver.handle(late(1, 2)) == ()
    assert driver.handle(late(2, 2)) == (sent("q", 2, 3, 2),), "both answers are given"


def test_a_prompt_answer_behind_a_late_one_does_not_count_and_the_late_one_does(driver):
    driver.handle(BatchTaken("q", 2))
    driver.handle(late(1))
    driver.handle(AnswerArrived((), "q", 2, 1))
    driver.handle(BatchTaken("q", 1))
    driver.handle(SystemRolledBack(2, {}))
    assert driver.handle(late(1, 2)) == (sent("q", 2, 3),)


def test_a_call_that_a_cut_holds_without_its_answer_is_not_given_again_by_it(driver):
    for number in (1, 2):
        call(driver, "q", number, number)
    for number in (2, 1):
        driver.handle(OutcomeCame("q", number, (), 1, late=True))
    driver.handle(BatchTaken("p", 1))
    numbers = {"received": {"q": 2}, "owed": {"q": (1,)}}
    driver.handle(CutCommitted(K, {"q": 2}, **numbers))
    assert driver.handle(SystemRolledBack(2, {"q": 2}, **numbers)) == ()
    assert driver.awaits == ("q", 1), "the cut holds the other one"
    driver.handle(CutCommitted(SnapshotId(2, "coordinator", 1), {"q": 2}, **numbers))
    assert driver.awaits == ("q", 1)
    assert driver.handle(MessagesHanded("q", 2)) == (FetchAgain("q", 1, 1),), "nobody else would fetch it"
    assert driver.handle(OutcomeCame("q", 1, (), 2, late=True)) == (sent("p", 2, 1),)


def test_what_a_later_cut_holds_as_answered_is_forgotten(driver):
    for number in (1, 2, 3):
        call(driver, "q", number, number)
        driver.handle(OutcomeCame("q", number, (), 1, late=True))
    driver.handle(BatchAcknowledged("q", 3))
    driver.handle(CutCommitted(K, {"q": 3}, received={"q": 3}, owed={"q": (1, 3)}))
    assert [*driver._calls.numbers("q")] == [1, 3]
    assert driver._order.given == [("q", 1), ("q", 2), ("q", 3)], "the first one is not held"
    driver.handle(CutCommitted(K._replace(counter=2), {"q": 3}, received={"q": 3}, owed={"q": (3,)}))
    assert driver._order.given == [("q", 3)]
    driver.handle(CutCommitted(K._replace(counter=3), {"q": 3}, received={"q": 3}))
    assert [*driver._calls.numbers("q")] == driver._order.given == []


def test_a_driver_that_asks_much_beside_a_call_that_is_never_answered_keeps_nothing_else(driver):
    call(driver, "q", 1, 1)
    for number in range(2, 1001):
        call(driver, "q", number, number)
        driver.handle(OutcomeCame("q", number, (), 1, late=True))
        if number % 10 == 0:
            snapshot = SnapshotId(1, "coordinator", number)
            driver.handle(CutCommitted(snapshot, {"q": number}, received={"q": number}, owed={"q": (1,)}))
    assert ([*driver._calls.numbers("q")], driver._order.given, len(driver._channels["q"].retained)) == ([1], [], 0)


def test_an_offer_names_the_calls_that_are_not_answered_and_these_are_not_forgotten(driver):
    for number in (1, 2, 3):
        call(driver, "q", number, number)
    for number in (3, 2):
        driver.handle(OutcomeCame("q", number, (), 1, late=True))
    driver.handle(BatchAcknowledged("q", 3))
    offer = driver.offer()
    assert offer == EvictionOffer({"q": 3}, {"q": 3}, {"q": [1]})
    driver.handle(OfferTaken(1, offer))
    assert ([*driver._calls.numbers("q")], driver._order.given) == ([1], [])
    evicted = Evicted(1, driver.name, offer.sent, offer.received, owed=offer.owed)
    assert evicted.is_held({"q": 3}, {"q": 3}, (), {"q": (1,)})
    assert not evicted.is_held({"q": 3}, {"q": 3}, (), {"q": (1, 2)})
    assert evicted.is_held({"q": 4}, {"q": 4}, (), {"q": (4,)})
    assert evicted.is_held({}, {}, {"q"}, {"q": (2,)})


def test_two_evictions_add_up():
    chance = random.Random(5)
    for _ in range(2000):
        answered = [{*chance.sample(range(1, 8), chance.randint(1, 5))} for _ in range(2)]
        evictions = [
            Evicted(1, "driver:1", {}, {"q": max(of)}, owed={"q": [n for n in range(1, max(of)) if n not in of]})
            for of in answered
        ]
        both = evictions[1].and_before(evictions[0])
        cut = chance.randint(0, 8)
        owed = [n for n in range(1, cut + 1) if chance.random() < 0.5]
        needed = answered[0] | answered[1]
        is_held = all(n <= cut and n not in owed for n in needed)
        assert both.is_held({}, {"q": cut}, (), {"q": owed}) == is_held, (answered, cut, owed)


def test_a_record_owes_no_answers_to_messages_that_it_does_not_hold():
    with pytest.raises(AssertionError, match=r"owes 'driver:1' \(3,\)"):
        Record(K, "q", received={"driver:1": 2}, environment={"driver:1": 2}, owed={"driver:1": (3,)})
