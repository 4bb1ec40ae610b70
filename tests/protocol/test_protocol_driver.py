import pytest

from rayshot.protocol.driver import ENDED_KEPT_MAX, Driver
from rayshot.protocol.driver_events import (
    AnswerArrived,
    CallMade,
    CutCommitted,
    FetchAgain,
    MessagesHanded,
    OutcomeCame,
    OutcomeLost,
    ReleaseMessages,
    SendTagged,
    SystemRolledBack,
)
from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded, SnapshotEnded
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.retained_calls import RetainedCalls
from tests.protocol.facts import answered

K = SnapshotId(1, "coordinator", 1)


def test_messages_are_numbered_per_receiver(driver):
    assert driver.handle(BatchTaken("p", 2)) == (SendTagged("p", 1, 1, 2, ()),)
    assert driver.handle(BatchTaken("q", 1)) == (SendTagged("q", 1, 1, 1, ()),)
    assert driver.handle(BatchTaken("p", 1)) == (SendTagged("p", 1, 3, 1, ()),)
    driver.handle(BatchAcknowledged("p", 2))
    assert (driver.unacknowledged("p"), driver.unacknowledged("q"), driver.unacknowledged("r")) == (1, 1, 0)


@pytest.mark.acceptance("P3")
def test_what_a_driver_keeps_up_to_a_number_does_not_move_with_what_it_tells_later(driver):
    driver.handle(BatchTaken("p", 2))
    assert (driver.kept_up_to("p", 2), driver.kept_up_to("q", 2)) == (2, 0)
    driver.handle(BatchTaken("p", 3))
    driver.handle(CutCommitted(K, {"p": 2}))
    assert (driver.kept_up_to("p", 2), driver.kept_up_to("p", 9)) == (0, 5)
    driver.handle(CutCommitted(K, {}, ended=frozenset({"p"})))
    assert driver.kept_up_to("p", 5) == 0


def test_a_driver_that_keeps_nothing_forgets_a_receiver_that_ended():
    driver = Driver("driver:1", retains=False)
    driver.handle(BatchTaken("p", 2))
    driver.handle(ReceiverEnded("p"))
    driver.handle(ReceiverEnded("q"))
    assert driver.unacknowledged("p") == 0
    assert driver.handle(CutCommitted(K, {"p": 2})) == ()


def test_the_tags_of_an_answer_are_passed_on_until_the_snapshot_ends(driver):
    driver.handle(AnswerArrived((K,)))
    assert driver.tags == (K,)
    assert driver.handle(BatchTaken("p", 1)) == (SendTagged("p", 1, 1, 1, (K,)),)
    driver.handle(SnapshotEnded(K))
    assert driver.handle(BatchTaken("p", 1)) == (SendTagged("p", 1, 2, 1, ()),)


def test_a_late_answer_does_not_bring_an_ended_snapshot_back(driver):
    driver.handle(SnapshotEnded(K, floor=5))
    driver.handle(AnswerArrived((K, SnapshotId(1, "coordinator", 4))))
    assert driver.tags == ()


def test_tags_of_another_incarnation_are_no_news(driver):
    driver.handle(AnswerArrived((SnapshotId(2, "coordinator", 1),)))
    driver.handle(SnapshotEnded(SnapshotId(2, "coordinator", 1), floor=9))
    driver.handle(AnswerArrived((K,)))
    assert driver.tags == (K,)


def test_what_a_durable_cut_covers_is_released(driver):
    driver.handle(BatchTaken("p", 5))
    assert driver.handle(CutCommitted(K, {"p": 3, "q": 1})) == (ReleaseMessages("p", 3),)
    assert driver.handle(CutCommitted(K, {"p": 3})) == ()


def test_after_a_rollback_everything_behind_the_cut_is_sent_again_under_its_numbers(driver):
    driver.handle(BatchTaken("p", 5))
    driver.handle(BatchTaken("q", 2))
    driver.handle(BatchAcknowledged("p", 4))
    driver.handle(CutCommitted(K, {"p": 1}))
    assert driver.handle(SystemRolledBack(2, {"p": 2})) == (SendTagged("p", 2, 3, 3, ()), SendTagged("q", 2, 1, 2, ()))
    assert driver.handle(BatchTaken("p", 1)) == (SendTagged("p", 2, 6, 1, ()),)


def test_what_a_restored_process_holds_needs_no_acknowledgement_any_more(driver):
    driver.handle(BatchTaken("p", 5))
    driver.handle(SystemRolledBack(2, {"p": 5}))
    assert driver.unacknowledged("p") == 0


def test_a_rollback_that_is_told_twice_or_late_is_heeded_once(driver):
    driver.handle(BatchTaken("p", 1))
    driver.handle(SystemRolledBack(3, {}))
    assert driver.handle(SystemRolledBack(3, {})) == ()
    assert driver.handle(SystemRolledBack(2, {})) == ()
    assert driver.incarnation == 3


def test_nothing_released_is_ever_needed_again(driver):
    driver.handle(BatchTaken("p", 5))
    driver.handle(CutCommitted(K, {"p": 3}))
    with pytest.raises(AssertionError, match="released"):
        driver.handle(SystemRolledBack(2, {"p": 2}))


def test_of_a_process_that_ended_in_a_durable_cut_nothing_is_kept(driver):
    driver.handle(BatchTaken("p", 5))
    driver.handle(answered("p", 1))
    ended = frozenset({"p"})
    assert driver.handle(CutCommitted(K, {}, ended)) == (ReleaseMessages("p", 5),)
    assert driver.handle(SystemRolledBack(2, {}, ended)) == ()
    assert driver.handle(answered("p", 4)) == driver.handle(ReceiverEnded("p")) == ()
    assert driver.handle(BatchAcknowledged("p", 5)) == (), "it comes late"
    driver.validate()
    assert (driver._channels, driver._order.receivers, driver._order._held) == ({}, set(), {})
    assert (driver._order.gone, driver._order._over) == (set(), set())
    assert driver.awaits is None


def test_a_process_that_ended_in_a_durable_cut_keeps_nothing_waiting_while_its_answers_are_in_the_list(driver):
    for receiver in "qp":
        driver.handle(BatchTaken(receiver, 1))
        driver.handle(answered(receiver, 1))
    driver.handle(BatchTaken("r", 1))
    driver.handle(CutCommitted(K, {}, frozenset({"p"})))
    assert driver.handle(SystemRolledBack(2, {}, frozenset({"p"}))) == (SendTagged("q", 2, 1, 1, ()),)
    assert driver.awaits == ("q", 1)
    assert driver.handle(answered("q", 1, 2)) == (SendTagged("r", 2, 1, 1, ()),)


def test_a_driver_of_many_snapshots_remembers_a_bounded_number_of_ends_and_what_it_forgot_is_no_other_news(driver):
    ends = [SnapshotId(1, "coordinator", counter) for counter in range(1, 2 * ENDED_KEPT_MAX + 1)]
    for snapshot in ends:
        driver.handle(AnswerArrived((snapshot,)))
        driver.handle(SnapshotEnded(snapshot))
    assert len(driver._tombstones) == ENDED_KEPT_MAX
    driver.handle(AnswerArrived((ends[-1], ends[-ENDED_KEPT_MAX], ends[0])))
    assert driver.tags == (ends[0],)
    driver.handle(SnapshotEnded(ends[0]))  # the next receiver says it again
    assert driver.tags == ()


def test_in_a_new_life_a_message_waits_until_what_was_answered_before_it_is_answered_again(driver):
    driver.handle(BatchTaken("book", 1))
    driver.handle(answered("book", 1))
    driver.handle(BatchTaken("teller", 2))
    assert driver.handle(SystemRolledBack(2, {})) == (SendTagged("book", 2, 1, 1, ()),)
    assert driver.awaits == ("book", 1)
    assert driver.handle(answered("book", 1, 2)) == (SendTagged("teller", 2, 1, 2, ()),)
    assert driver.awaits is None
    assert driver.handle(BatchTaken("book", 1)) == (SendTagged("book", 2, 2, 1, ()),)


def test_what_is_new_in_a_new_life_waits_behind_what_was_seen_in_the_old_one(driver):
    driver.handle(BatchTaken("book", 1))
    driver.handle(answered("book", 1))
    driver.handle(SystemRolledBack(2, {}))
    assert driver.handle(BatchTaken("teller", 1)) == ()
    assert driver.handle(BatchTaken("till", 2)) == ()
    assert driver.handle(BatchTaken("teller", 1)) == ()
    sent = driver.handle(answered("book", 1, 2))
    assert sent == (SendTagged("teller", 2, 1, 2, ()), SendTagged("till", 2, 1, 2, ()))


def test_a_message_does_not_wait_for_answers_of_its_own_receiver_which_keeps_the_order_anyway(driver):
    driver.handle(BatchTaken("q", 1))
    driver.handle(answered("q", 1))
    for number in range(1, 4):
        driver.handle(BatchTaken("p", 1))
        driver.handle(answered("p", number))
    driver.handle(BatchTaken("q", 1))
    assert driver.handle(SystemRolledBack(2, {})) == (SendTagged("q", 2, 1, 1, ()),)
    assert driver.handle(answered("q", 1, 2)) == (SendTagged("p", 2, 1, 3, ()),)
    assert driver.handle(answered("p", 3, 2)) == driver.handle(answered("p", 1, 2)) == ()
    assert driver.handle(answered("p", 2, 2)) == (SendTagged("q", 2, 2, 1, ()),)


def test_a_cut_of_a_life_that_the_driver_does_not_know_yet_changes_nothing(driver):
    driver.handle(BatchTaken("p", 3))
    later = CutCommitted(SnapshotId(2, "coordinator", 1), {"p": 3}, received={"p": 3})
    assert driver.handle(later) == ()
    assert driver.handle(SystemRolledBack(2, {"p": 1})) == (SendTagged("p", 2, 2, 2, ()),)
    assert driver.handle(later) == (ReleaseMessages("p", 3),)


def test_behind_an_answer_of_a_later_life_nothing_is_numbered_until_that_life_is_known(driver):
    driver.handle(BatchTaken("p", 1))
    assert driver.handle(answered("p", 1, 2)) == ()
    assert not driver.may_number
    with pytest.raises(AssertionError, match="a message is numbered behind"):
        driver.handle(BatchTaken("q", 1))
    assert driver.handle(SystemRolledBack(2, {"p": 1})) == ()
    assert driver.may_number
    driver.handle(BatchTaken("q", 1))
    assert driver.handle(SystemRolledBack(3, {"p": 1})) == (), "it had seen the answer before it told q"


def test_the_tags_of_a_later_life_are_passed_on_from_its_beginning(driver):
    later = SnapshotId(3, "coordinator", 1)
    driver.handle(AnswerArrived((later,), incarnation=3))
    driver.handle(SystemRolledBack(2, {}))
    assert (driver.tags, driver.may_number) == ((), False)
    driver.handle(SystemRolledBack(3, {}))
    assert (driver.tags, driver.may_number) == ((later,), True)


def called(driver, receiver, call_id, number):
    driver.handle(CallMade(receiver, call_id, number))
    driver.handle(BatchTaken(receiver, 1))


def test_an_outcome_that_no_cut_holds_is_asked_for_again_when_its_call_has_left_again(driver):
    called(driver, "p", 1, 1)
    called(driver, "p", 2, 2)
    for call_id in (1, 2):
        driver.handle(OutcomeCame("p", call_id, incarnation=1))
    driver.handle(SystemRolledBack(2, {}))
    assert set(driver.due) == {"p"}
    assert driver.handle(MessagesHanded("p", 1)) == (FetchAgain("p", 1, 1),)
    assert driver.handle(MessagesHanded("p", 2)) == (FetchAgain("p", 2, 2),)
    assert driver.handle(MessagesHanded("p", 2)) == ()
    assert set(driver.due) == set()


def test_an_outcome_that_is_being_fetched_is_asked_for_again_only_if_an_earlier_life_gave_it(driver):
    called(driver, "p", 1, 1)
    called(driver, "p", 2, 2)
    driver.handle(SystemRolledBack(2, {}))
    assert set(driver.due) == set()
    driver.handle(OutcomeCame("p", 1, incarnation=2))
    driver.handle(OutcomeCame("p", 2, incarnation=1))
    assert driver.handle(MessagesHanded("p", 2)) == (FetchAgain("p", 2, 2),)


def test_a_fetch_that_failed_with_its_process_is_made_again_in_the_next_life(driver):
    called(driver, "p", 1, 1)
    called(driver, "p", 2, 2)
    driver.handle(OutcomeLost("p", 1))
    assert set(driver.due) == set(), "nobody knows yet that this life is over"
    driver.handle(SystemRolledBack(2, {}))
    driver.handle(OutcomeLost("p", 2))
    assert driver.handle(MessagesHanded("p", 2)) == (FetchAgain("p", 1, 1), FetchAgain("p", 2, 2))


def test_an_outcome_that_the_next_life_gave_already_is_not_asked_for_again(driver):
    called(driver, "p", 1, 1)
    driver.handle(OutcomeCame("p", 1, incarnation=2))
    driver.handle(SystemRolledBack(2, {"p": 1}))
    assert (set(driver.due), driver.awaits) == (set(), None)


def test_what_a_cut_holds_as_processed_is_not_asked_for_again(driver):
    for number, receiver in enumerate("ppq", 1):
        called(driver, receiver, number, 1 if receiver == "q" else number)
        driver.handle(OutcomeCame(receiver, number, incarnation=1))
    driver.handle(CutCommitted(K, {"p": 2}, frozenset({"q"}), {"p": 1}))
    driver.handle(SystemRolledBack(2, {"p": 2}, frozenset({"q"}), {"p": 1}))
    assert set(driver.due) == {"p"}
    assert driver.handle(MessagesHanded("p", 2)) == (FetchAgain("p", 2, 2),)


def test_what_a_cut_of_this_life_has_processed_keeps_nothing_waiting_though_its_outcome_comes_later(driver):
    called(driver, "p", 1, 1)
    called(driver, "q", 2, 1)
    for receiver, call_id in (("p", 1), ("q", 2)):
        driver.handle(OutcomeCame(receiver, call_id, incarnation=1))
    driver.handle(BatchTaken("p", 1))
    assert driver.handle(SystemRolledBack(2, {})) == (SendTagged("p", 2, 1, 1, ()), SendTagged("q", 2, 1, 1, ()))
    for receiver in "pq":
        driver.handle(MessagesHanded(receiver, 1))
    driver.handle(CutCommitted(SnapshotId(2, "coordinator", 1), {"p": 1, "q": 1}, received={"p": 0, "q": 1}))
    driver.handle(OutcomeCame("q", 2, incarnation=2))
    assert driver.handle(OutcomeCame("p", 1, incarnation=2)) == (SendTagged("p", 2, 2, 1, ()),)


def test_an_ended_receiver_may_answer_what_was_not_sent_to_it(driver):
    driver.handle(CallMade("p", 1, 1))
    driver.handle(OutcomeCame("p", 1))
    assert driver.awaits is None
    assert driver.handle(BatchTaken("q", 1)) == (SendTagged("q", 1, 1, 1, ()),)
    assert driver.handle(SystemRolledBack(2, {})) == (SendTagged("q", 2, 1, 1, ()),)


def test_a_driver_that_keeps_nothing_counts_no_calls():
    driver = Driver("driver:1", retains=False)
    driver.handle(OutcomeCame("p", 1, (K,), 1))
    assert driver.tags == (K,)
    with pytest.raises(AssertionError, match="counts no calls"):
        driver.handle(CallMade("p", 1, 1))
    assert driver._calls == RetainedCalls()


def test_messages_between_two_answers_wait_for_the_first_one_only(driver):
    driver.handle(BatchTaken("p", 1))
    driver.handle(answered("p", 1))
    driver.handle(BatchTaken("q", 1))
    driver.handle(answered("q", 1))
    driver.handle(BatchTaken("p", 1))
    driver.handle(BatchTaken("r", 3))
    driver.handle(answered("p", 2))
    driver.handle(BatchTaken("r", 1))
    assert driver.handle(SystemRolledBack(2, {})) == (SendTagged("p", 2, 1, 1, ()),)
    assert driver.handle(answered("p", 1, 2)) == (SendTagged("q", 2, 1, 1, ()),)
    assert driver.handle(answered("q", 1, 2)) == (SendTagged("p", 2, 2, 1, ()), SendTagged("r", 2, 1, 3, ()))
    assert driver.handle(answered("p", 2, 2)) == (SendTagged("r", 2, 4, 1, ()),)


def test_what_the_cut_has_processed_is_not_waited_for(driver):
    driver.handle(BatchTaken("p", 2))
    driver.handle(answered("p", 1))
    driver.handle(BatchTaken("q", 1))
    driver.handle(answered("p", 2))
    driver.handle(BatchTaken("q", 1))
    assert driver.handle(SystemRolledBack(2, {"p": 2}, received={"p": 1})) == (SendTagged("q", 2, 1, 1, ()),)
    assert driver.awaits == ("p", 2), "it is in the mailbox of the cut"
    assert driver.handle(answered("p", 2, 2)) == (SendTagged("q", 2, 2, 1, ()),)


def test_an_answer_of_the_old_life_that_comes_late_is_waited_for_too(driver):
    driver.handle(BatchTaken("p", 1))
    driver.handle(SystemRolledBack(2, {}))
    driver.handle(answered("p", 1, 1))
    assert driver.handle(BatchTaken("q", 1)) == ()
    assert driver.handle(answered("p", 1, 2)) == (SendTagged("q", 2, 1, 1, ()),)


def test_nothing_waits_for_an_answer_of_a_process_that_ended_again(driver):
    driver.handle(BatchTaken("p", 1))
    driver.handle(answered("p", 1))
    driver.handle(BatchTaken("q", 1))
    driver.handle(ReceiverEnded("p"))
    driver.handle(SystemRolledBack(2, {}))
    assert driver.awaits == ("p", 1), "the rollback may have undone its end"
    assert driver.handle(ReceiverEnded("p")) == (SendTagged("q", 2, 1, 1, ()),)
    assert driver.handle(SystemRolledBack(3, {}, frozenset({"p"}))) == (
        ReleaseMessages("p", 1),
        SendTagged("q", 3, 1, 1, ()),
    )


def test_a_cut_that_has_an_answered_message_processed_ends_the_wait_for_it(driver):
    driver.handle(BatchTaken("p", 1))
    driver.handle(answered("p", 1))
    driver.handle(BatchTaken("q", 1))
    driver.handle(SystemRolledBack(2, {}))
    later = SnapshotId(2, "coordinator", 1)
    assert driver.handle(CutCommitted(later, {"p": 1}, received={"p": 1})) == (
        ReleaseMessages("p", 1),
        SendTagged("q", 2, 1, 1, ()),
    )
    assert driver.handle(SystemRolledBack(3, {"p": 1}, received={"p": 1})) == (SendTagged("q", 3, 1, 1, ()),)


def test_an_answered_message_that_a_cut_has_only_in_a_mailbox_is_waited_for_in_the_next_life(driver):
    driver.handle(BatchTaken("p", 1))
    driver.handle(answered("p", 1))
    driver.handle(BatchTaken("q", 1))
    driver.handle(CutCommitted(K, {"p": 1}, received={"p": 0}))  # recorded before it was processed
    assert driver.handle(SystemRolledBack(2, {"p": 1}, received={"p": 0})) == ()
    assert driver.handle(answered("p", 1, 2)) == (SendTagged("q", 2, 1, 1, ()),)


def test_a_driver_that_asks_much_keeps_what_no_durable_cut_holds_and_no_more(driver):
    for number in range(1, 1001):
        driver.handle(BatchTaken("p", 1))
        driver.handle(answered("p", number))
        if number % 10 == 0:
            driver.handle(CutCommitted(SnapshotId(1, "coordinator", number), {"p": number}, received={"p": number}))
    assert (driver._order.receivers, len(driver._channels["p"].retained)) == (set(), 0)
