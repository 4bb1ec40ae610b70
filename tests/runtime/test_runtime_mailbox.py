"""What an actor's mailbox gives out, in its turn and to a handler that waits; no Ray."""

from rayshot.format.codec import Frame, split_frame
from rayshot.runtime.actor.mailbox import Mailbox
from tests.runtime.one_process import CODEC


def put(mailbox, sender, first, count):
    body = b"".join(CODEC.tell("take", (number,)) for number in range(first, first + count))
    mailbox.put(sender, Frame(first, count, body))


def handle(mailbox, limits):
    """Handle the next delivery; returns its sender and the numbers of its messages, or None."""
    delivery = mailbox.take(limits)
    if delivery is None:
        return None
    numbers = [CODEC.decode_tell(message)[1][0] for message in split_frame(delivery.frame)]
    assert numbers == list(range(delivery.frame.first, delivery.frame.last + 1))
    mailbox.position = delivery.frame.last
    mailbox.finish()
    return delivery.sender, numbers


def test_of_a_batch_that_reaches_over_a_limit_only_the_messages_up_to_it_are_handled():
    mailbox = Mailbox()
    put(mailbox, "alice", 1, 3)
    put(mailbox, "bob", 1, 2)
    put(mailbox, "alice", 4, 1)
    limits = {"alice": 2}
    assert handle(mailbox, limits) == ("alice", [1, 2])
    assert handle(mailbox, limits) == ("bob", [1, 2])
    assert handle(mailbox, limits) is None
    assert mailbox.processed == {"alice": 2, "bob": 2}
    assert handle(mailbox, {}) == ("alice", [3])
    assert handle(mailbox, {}) == ("alice", [4])


class CountingLimits(dict):
    """Counts the batches that are looked at."""

    looks = 0

    def get(self, sender, limit):
        self.looks += 1
        return limit


def test_however_often_a_handler_waits_each_answer_is_looked_at_once():
    mailbox, limits, looked_at = Mailbox(), CountingLimits(), {}
    put(mailbox, "alice", 1, 1)
    mailbox.take({})
    for number in range(1, 101):
        mailbox.watch()
        mailbox.put("bob", Frame(number, 1, CODEC.reply(-number, "answer", ok=True)))
        assert [message[1] for *_, message, _ in mailbox.answers(looked_at, limits, CODEC)] == [-number]
    assert limits.looks == 101  # with the message that is handled
    mailbox.position = 1
    mailbox.finish()
    mailbox.take({})
    mailbox.watch()
    assert list(mailbox.answers(looked_at, {}, CODEC)) == []  # another handler: what waits has been looked at
