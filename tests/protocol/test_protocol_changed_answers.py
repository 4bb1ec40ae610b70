"""A driver sees that a later life answers a call otherwise, if it has sent anything behind the first answer."""

import random
from collections import defaultdict

from rayshot.protocol import seen_answers
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import (
    AnswerArrived,
    CallMade,
    CutCommitted,
    FetchAgain,
    MessagesHanded,
    OutcomeCame,
    OutcomeLost,
    SystemRolledBack,
    TellOfChange,
)
from rayshot.protocol.events import BatchTaken, ReceiverEnded
from rayshot.protocol.identity import SnapshotId

K = SnapshotId(1, "coordinator", 1)


def sends(driver, receiver):
    return changes(driver.handle(BatchTaken(receiver, 1)))


def says(driver, answer, number=1, life=1, *, again=False):
    """The answer to that message to q comes."""
    return changes(driver.handle(AnswerArrived((), "q", number, life, answer=answer, again=again)))


def changes(effects):
    return [effect for effect in effects if isinstance(effect, TellOfChange)]


def goes_back(driver, life=2, **numbers):
    return changes(driver.handle(SystemRolledBack(life, {}, **numbers)))


def acted(driver):
    """The driver called q, got an answer, and sent something to p behind it."""
    sends(driver, "q")
    says(driver, b"old")
    sends(driver, "p")


def test_another_answer_is_told_with_both_and_with_the_first_message_behind_it(driver):
    acted(driver)
    sends(driver, "q")
    goes_back(driver)
    assert says(driver, b"new", life=2) == [TellOfChange("q", 1, b"old", b"new", ("p", 1))]


def test_the_same_answer_is_no_change(driver):
    acted(driver)
    goes_back(driver)
    assert says(driver, b"old", life=2) == []


def test_an_answer_behind_which_nothing_was_sent_is_not_told_until_something_is(driver):
    sends(driver, "q")
    says(driver, b"old")
    goes_back(driver)
    assert says(driver, b"new", life=2) == []
    assert sends(driver, "p") == [TellOfChange("q", 1, b"old", b"new", ("p", 1))]
    assert sends(driver, "p") == []


def test_an_answer_that_became_the_same_again_before_anything_was_sent_is_no_change(driver):
    sends(driver, "q")
    says(driver, b"old")
    goes_back(driver)
    says(driver, b"new", life=2)
    goes_back(driver, 3)
    says(driver, b"old", life=3)
    assert sends(driver, "p") == []


def test_after_a_second_rollback_it_is_compared_with_what_was_told_last(driver):
    acted(driver)
    goes_back(driver)
    says(driver, b"new", life=2)
    goes_back(driver, 3)
    assert says(driver, b"new", life=3) == []
    goes_back(driver, 4)
    assert says(driver, b"old", life=4) == [TellOfChange("q", 1, b"new", b"old", ("p", 1))]


def test_an_answer_of_a_life_that_was_over_before_the_driver_saw_it_is_compared_with_nothing(driver):
    acted(driver)
    goes_back(driver)
    goes_back(driver, 3)
    assert says(driver, b"new", life=2) == []
    assert says(driver, b"old", life=3) == []


def test_an_answer_that_a_durable_cut_holds_never_changes(driver):
    acted(driver)
    driver.handle(CutCommitted(K, {"q": 1}, received={"q": 1}))
    assert len(driver._order.seen) == 0
    driver.handle(SystemRolledBack(2, {"q": 1}, received={"q": 1}))
    assert says(driver, b"new", life=2) == []


def test_a_cut_between_the_answer_and_what_was_sent_behind_it_holds_the_answer(driver):
    sends(driver, "q")
    says(driver, b"old")
    driver.handle(CutCommitted(K, {"q": 1}, received={"q": 1}))
    sends(driver, "p")
    driver.handle(SystemRolledBack(2, {"q": 1}, received={"q": 1}))
    assert driver.awaits is None


def test_an_answer_that_a_cut_owes_is_compared(driver):
    acted(driver)
    numbers = {"received": {"q": 1}, "owed": {"q": (1,)}}
    driver.handle(CutCommitted(K, {"q": 1}, **numbers))
    driver.handle(SystemRolledBack(2, {"q": 1}, **numbers))
    assert len(says(driver, b"new", life=2)) == 1


def test_what_only_the_driver_got_in_the_place_of_an_error_is_not_what_the_program_saw(driver):
    driver.handle(BatchTaken("q", 1))
    driver.handle(CallMade("q", 1, 1))
    driver.handle(OutcomeLost("q", 1))  # the process died: the program has Ray's error
    sends(driver, "p")
    for life, answer in ((2, b"old"), (3, b"new")):
        goes_back(driver, life)
        assert driver.handle(MessagesHanded("q", 1)) == (FetchAgain("q", 1, 1),)
        assert changes(driver.handle(OutcomeCame("q", 1, (), life, answer=answer, again=True))) == []


def test_an_answer_of_a_later_life_that_comes_before_the_news_of_it_is_the_one_that_counts(driver):
    sends(driver, "q")
    assert says(driver, b"old", life=2) == []
    goes_back(driver)
    sends(driver, "p")
    goes_back(driver, 3)
    assert says(driver, b"new", life=3) == [TellOfChange("q", 1, b"old", b"new", ("p", 1))]


def test_an_answer_of_an_earlier_life_that_is_heard_later_is_compared_too(driver):
    """It had arrived in the process, and nothing was sent until the next life."""
    driver.handle(BatchTaken("q", 1))
    driver.handle(CallMade("q", 1, 1))
    goes_back(driver)
    driver.handle(OutcomeCame("q", 1, (), 1, answer=b"old"))
    sends(driver, "p")
    assert driver.handle(MessagesHanded("q", 1)) == (FetchAgain("q", 1, 1),)
    found = changes(driver.handle(OutcomeCame("q", 1, (), 2, answer=b"new", again=True)))
    assert found == [TellOfChange("q", 1, b"old", b"new", ("p", 1))]


def test_answers_without_bytes_are_not_compared(driver):
    sends(driver, "q")
    says(driver, b"")
    sends(driver, "p")
    goes_back(driver)
    assert says(driver, b"new", life=2) == []
    acted(driver)


def test_an_actor_that_has_ended_in_the_new_life_changes_nothing(driver):
    acted(driver)
    goes_back(driver)
    assert changes(driver.handle(ReceiverEnded("q"))) == []


def test_no_more_answers_are_compared_than_the_bound_says(driver, monkeypatch):
    monkeypatch.setattr(seen_answers, "KEPT_MAX", 2)
    for number in (1, 2, 3):
        sends(driver, "q")
        says(driver, b"old", number)
    sends(driver, "p")
    goes_back(driver)
    assert [len(says(driver, b"new", number, 2)) for number in (1, 2, 3)] == [1, 1, 0]
    driver.handle(CutCommitted(SnapshotId(2, "coordinator", 1), {}, received={"q": 3}))
    sends(driver, "q")
    says(driver, b"old", 4, 2)
    sends(driver, "p")
    goes_back(driver, 3, received={"q": 3})
    assert len(says(driver, b"new", 4, 3)) == 1, "room for it came with the cut"


class Story:
    """A driver, and what must be told of it, counted in another way: from lists of all that happened."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.driver, self.life = Driver("driver:1"), 1
        self.sent = defaultdict(int)
        self.done = []  # ("saw", key) and ("sent", key), in their order
        self.belief, self.newest = {}, {}  # what the program was last told, and what was answered last
        self.saw_in, self.again = {}, set()  # in which life it got an answer; what this life has given again
        self.held = defaultdict(int)
        self.told = 0

    def play(self):
        for _ in range(self.chance.randrange(5, 60)):
            self.chance.choice([self.send, self.send, self.answer, self.answer, self.answer, self.cut, self.back])()
            self.driver.validate()

    def expect(self, effects):
        """What is told is what follows from the lists."""
        followed = {}
        for place, (what, key) in enumerate(self.done):
            if what == "saw":
                followed[key] = next((other for did, other in self.done[place:] if did == "sent"), None)
        due = {
            key: TellOfChange(*key, self.belief[key], now, followed[key])
            for key, now in self.newest.items()
            if now != self.belief[key] and followed[key] is not None
        }
        found = changes(effects)
        assert {(one.receiver, one.number): one for one in found} == due
        assert len(found) == len(due)
        for key in due:
            self.belief[key] = self.newest[key]
        self.told += len(due)

    def send(self):
        receiver = self.chance.choice("pqr")
        self.sent[receiver] += 1
        self.done.append(("sent", (receiver, self.sent[receiver])))
        self.expect(self.driver.handle(BatchTaken(receiver, 1)))

    def answer(self):
        receiver = self.chance.choice("qr")
        numbers = range(self.held[receiver] + 1, self.sent[receiver] + 1)
        if not numbers:
            return
        key, now = (receiver, self.chance.choice(numbers)), self.chance.choice([b"a", b"b"])
        if key in self.again or self.saw_in.get(key) == self.life:
            return
        if key in self.belief:
            self.again.add(key)
            self.newest[key] = now
        else:
            self.belief[key] = self.newest[key] = now
            self.saw_in[key] = self.life
            self.done.append(("saw", key))
        self.expect(self.driver.handle(AnswerArrived((), *key, self.life, answer=now)))

    def cut(self):
        """A durable cut holds some calls, with all that was answered before them."""
        order = [key for what, key in self.done if what == "saw"]
        held = order[: self.chance.randrange(len(order) + 1)]
        for receiver, number in held:
            self.held[receiver] = max(self.held[receiver], number)
        for key in [key for key in self.belief if key[1] <= self.held[key[0]]]:
            del self.newest[key]
            del self.belief[key]
            self.done = [one for one in self.done if one != ("saw", key)]
            self.again.discard(key)
        snapshot = SnapshotId(self.life, "coordinator", len(self.done) + 1)
        self.expect(self.driver.handle(CutCommitted(snapshot, {}, received=dict(self.held))))

    def back(self):
        self.life += 1
        self.again.clear()
        self.expect(self.driver.handle(SystemRolledBack(self.life, {}, received=dict(self.held))))


def test_in_any_order_of_answers_messages_cuts_and_rollbacks_all_changes_are_told_once_and_nothing_else():
    told = 0
    for seed in range(1500):
        story = Story(seed)
        story.play()
        told += story.told
    assert told > 500
