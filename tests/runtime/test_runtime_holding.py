"""What holds messages in an outbox: objects that are not there, calls whose handler runs; no Ray."""

import pickle
import threading
from types import SimpleNamespace

import pytest

from rayshot.errors import ActorExited
from rayshot.format.slots import FAILED, LARGE, VALUE, Slot, SlottedMessage
from rayshot.model.calls import OpenCall
from rayshot.runtime.channel import holding
from rayshot.runtime.wire.packets import unpack
from tests.runtime.one_process import CODEC
from tests.runtime.test_runtime_outbox import lane
from tests.waiting import eventually

__all__ = ["lane"]  # a fixture
pytestmark = pytest.mark.acceptance("O1")


class Reference:
    """Is ready when the test says so."""

    def __init__(self):
        self.callbacks = []
        self.ready = False

    def _on_ready(self, callback):
        self.callbacks.append(callback)

    def get_ready(self):
        self.ready = True
        for callback in self.callbacks:
            callback(None)


@pytest.fixture
def channel(lane, monkeypatch):
    """A channel to a receiver that answers at once; `came` are the messages, and the layouts beside them."""
    _, channel, receiver = lane
    channel.came = []

    def receive_with(batch, *beside):
        channel.came.append(unpack(beside[0]))
        return receiver.receive(batch)

    receiver.receive_with = receive_with
    channel.numbers = receiver.numbers
    channel.answer = receiver.answer
    monkeypatch.setattr(holding, "unready", lambda wanted: [one for one in wanted if not one.ready])
    for module in ("channel.outbox", "actor.channels"):
        monkeypatch.setattr(f"rayshot.runtime.{module}.values_size", lambda _slots: 0)
    return channel


def slotted(number, reference):
    return SlottedMessage.of(CODEC.tell("take", (number,)), (Slot(VALUE, reference),))


def hear():
    """Return when the channel has heard of all objects that are ready now: it hears on a thread of its own."""
    heard = threading.Event()
    holding._ready.put((SimpleNamespace(is_ready=lambda _number: heard.set()), 0))
    assert heard.wait(20)


def test_a_message_waits_for_all_its_objects_and_those_behind_it_for_the_message(channel):
    first, second = Reference(), Reference()
    message = SlottedMessage.of(CODEC.tell("take", (1,)), (Slot(VALUE, first), Slot(VALUE, second)))
    channel.append(message)
    channel.append(CODEC.tell("take", (2,)))
    first.get_ready()
    hear()
    assert channel.numbers == []
    assert channel.held_at == 0
    second.get_ready()
    eventually(lambda: channel.numbers == [1, 2])
    assert channel.held_at is None
    assert [number for (number, _) in channel.came[0]] == [1]


def test_large_arguments_fill_a_batch(channel):
    channel.append_open(OpenCall(CODEC.tell("take", (1,))))
    for number in (2, 3, 4):
        channel.append(SlottedMessage.of(CODEC.tell("take", (number,)), (Slot(LARGE, Reference(), size=2 << 20),)))
    channel.settle()
    eventually(lambda: channel.numbers == [1, 2])  # two calls are under way
    assert [[number for number, _ in layout] for layout in channel.came] == [[2]]


def test_the_end_of_a_handler_releases_its_calls_and_not_what_waits_for_objects(channel):
    waiting = Reference()
    call = OpenCall(CODEC.tell("take", (1,)))
    channel.append_open(call)
    channel.append(slotted(2, waiting))
    channel.append(CODEC.tell("take", (3,)))
    assert channel.held_at == 0
    channel.settle()
    assert channel.numbers == [1]
    assert channel.held_at == 0
    waiting.get_ready()
    channel.answer()
    eventually(lambda: channel.numbers == [1, 2, 3])


def test_a_call_that_is_open_behind_an_object_that_gets_ready_is_held_still(channel):
    waiting = Reference()
    channel.append(slotted(1, waiting))
    channel.append_open(OpenCall(CODEC.tell("take", (2,))))
    waiting.get_ready()
    eventually(lambda: channel.numbers == [1])
    assert channel.held_at == 0
    channel.settle()
    channel.answer()
    assert channel.numbers == [1, 2]


def test_what_waits_when_its_sender_ends_leaves_with_an_error_under_its_number(channel):
    channel.append(slotted(1, Reference()))
    channel.append(CODEC.tell("take", (2,)))
    with channel.room:
        channel.give_up_unready(ActorExited("alice ended"))
    assert channel.numbers == [1, 2]
    ((number, ((kind, error, _, _),)),) = channel.came[0]
    assert (number, kind) == (1, FAILED)
    assert isinstance(pickle.loads(error), ActorExited)


def test_what_waits_for_a_receiver_that_ends_is_undeliverable_like_all_behind_it(channel):
    channel.append(slotted(1, Reference()))
    channel.append(CODEC.tell("take", (2,)))
    with channel.room:
        channel.end("bob ended")
    assert channel.numbers == []
    assert (channel.pending, channel.slots, channel.held_at) == ([], {}, None)
