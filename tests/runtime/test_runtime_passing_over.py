"""Answers that were handed over before their turn: how a mailbox passes over them, and keeps what is between them."""

import random

from rayshot.format.codec import Frame, split_frame
from rayshot.runtime.actor.mailbox import Mailbox
from tests.runtime.one_process import CODEC

SENDERS = ("a", "b")


def filled(chance):
    """A mailbox with random deliveries; and by sender its messages, which are answers or tells."""
    mailbox, messages = Mailbox(), {sender: [] for sender in SENDERS}
    for _ in range(chance.randrange(1, 40)):
        sender, count = chance.choice(SENDERS), chance.randrange(1, 5)
        first = len(messages[sender]) + 1
        new = [
            CODEC.reply(-number, "x" * 100, ok=True) if chance.random() < 0.8 else CODEC.tell("note", (number,))
            for number in range(first, first + count)
        ]
        messages[sender] += new
        mailbox.put(sender, Frame(first, count, b"".join(new)))
    return mailbox, messages


def test_at_random_what_is_no_answer_keeps_its_number_and_its_bytes_and_answers_become_short():
    for seed in range(300):
        chance = random.Random(seed)
        mailbox, messages = filled(chance)
        answers = {
            sender: [number for number, one in enumerate(of, 1) if one.startswith(b"\x94")]
            for sender, of in messages.items()
        }
        handed_over = {sender: set() for sender in SENDERS}
        for _ in range(3):
            for sender in SENDERS:
                new = {number: -number for number in answers[sender] if chance.random() < 0.6}
                new = {number: id_ for number, id_ in new.items() if number > mailbox.processed.get(sender, 0)}
                handed_over[sender] |= new.keys()
                mailbox.pass_over(sender, new, CODEC)
                assert new == {}
        for sender in SENDERS:
            number = mailbox.processed.get(sender, 0)
            assert handed_over[sender] >= {*range(1, number + 1)}, f"seed {seed}"
            ends = {sender: len(messages[sender])}
            for frame in mailbox.unprocessed(ends)[sender]:
                assert frame.first == number + 1, f"seed {seed}"
                for one in split_frame(frame):
                    number += 1
                    if number in handed_over[sender]:
                        assert one == CODEC.reply(-number, None, ok=True), f"seed {seed}"
                    else:
                        assert one == messages[sender][number - 1], f"seed {seed}"
            assert number == len(messages[sender]), f"seed {seed}"


def test_a_thousand_answers_behind_a_message_are_few_deliveries():
    mailbox = Mailbox()
    mailbox.put("a", Frame(1, 1, CODEC.tell("note", (1,))))
    for number in range(2, 1002):
        mailbox.put("a", Frame(number, 1, CODEC.reply(-number, "x" * 1000, ok=True)))
        mailbox.pass_over("a", {number: -number}, CODEC)
    assert len(mailbox) == 1
    assert len(mailbox._waiting) < 15
    assert mailbox.size_bytes < 20_000
    mailbox.take({})
    mailbox.position = 1
    mailbox.finish()
    mailbox.pass_over("a", {}, CODEC)
    assert mailbox.processed == {"a": 1001}
    assert not mailbox
