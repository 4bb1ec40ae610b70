"""Messages in flight that a scratch process loads: of every kind, with what lies beside them."""

import os
import pickle

import msgpack
import pytest

from rayshot.format.codec import PICKLED, Codec
from rayshot.format.pickling import dump_names, slot
from rayshot.model.handle import ActorHandle
from rayshot.proving.prover import spread
from rayshot.proving.trial import PROVED, Trial
from tests.proving import kinds
from tests.proving.conftest import SPECIFICATION

pytestmark = pytest.mark.acceptance("R1")

CODEC = Codec(ActorHandle, lambda handle: handle.name, lambda name: ActorHandle("bank", name, None, None))
BOB = ActorHandle("bank", "bob", None, None)


class Beside:
    """Stands in a message for a slot."""

    def __init__(self, index):
        self.index = index

    def __reduce__(self):
        return slot, (self.index,)


@pytest.fixture
def ask_of(prover):
    """Loads messages, given as (message, [(kind of slot, its parts), ...]), numbered from 1."""

    def ask_of(*messages, names=()):
        parts = [part for message, slots in messages for part in (message, *(one for _, of in slots for one in of))]
        counted = tuple(
            (number, tuple((kind, len(of)) for kind, of in slots)) for number, (_, slots) in enumerate(messages, 1)
        )
        trial = Trial("alice", SPECIFICATION, tuple(map(len, parts)), names=dump_names(dict(names)), messages=counted)
        file = spread(parts, "/dev/shm")
        try:
            return prover.ask(trial, file)
        finally:
            os.close(file)

    return ask_of


def with_slots(*slots):
    payload = pickle.dumps(("take", tuple(map(Beside, range(len(slots)))), {}), protocol=5)
    return msgpack.packb([PICKLED, "pickle", payload]), slots


def pickled(value):
    return [pickle.dumps(value, protocol=5)]


def test_messages_of_every_kind_come_back(ask_of):
    tell, pickle_of_it = CODEC.tell("take", (1, "x", BOB)), CODEC.tell("take", ({"of": (kinds.Plain(), BOB)},))
    creation = CODEC.create(SPECIFICATION, pickle_of_it)
    error = CODEC.reply(2, ValueError("no"), ok=False)
    answered = [tell, pickle_of_it, CODEC.call(1, pickle_of_it), CODEC.reply(1, [2], ok=True), error, creation]
    assert ask_of(*((message, ()) for message in (*answered, CODEC.end(dropped=False)))) == PROVED


@pytest.mark.parametrize("wrap", [bytes, lambda tell: CODEC.call(1, tell), lambda tell: CODEC.create(b"", tell)])
def test_what_does_not_come_back_is_named_by_its_number_in_every_kind(ask_of, wrap):
    fine, registered = CODEC.tell("take", (1,)), CODEC.tell("take", (kinds.Registered("one"),))
    answer = ask_of((fine, ()), (wrap(registered), ()), (wrap(registered), ()))
    assert (answer.word, answer.error, answer.path) == ("refuted", "KeyError", "message 2")


def test_what_lies_beside_a_message_comes_back_and_a_recorded_error_is_none_of_the_drill_s(ask_of):
    beside = with_slots(("value", pickled([1])), ("object", pickled({2})), ("failed", pickled(KeyError("lost"))))
    assert ask_of(beside) == PROVED
    answer = ask_of(beside, with_slots(("value", pickled(kinds.Registered("one")))))
    assert (answer.word, answer.error, answer.path) == ("refuted", "KeyError", "message 2")


def test_a_class_that_moved_stands_where_the_message_says_the_old_one(ask_of):
    names = {f"{kinds.__name__}.Hanging": kinds.Plain}
    assert ask_of((CODEC.tell("take", (kinds.Hanging(),)), ()), names=names) == PROVED


def test_an_error_of_the_outside_is_no_verdict_and_names_its_message_too(ask_of):
    answer = ask_of((CODEC.tell("take", (kinds.Disconnected(),)), ()))
    assert (answer.word, answer.path) == ("unproved", "message 1")
