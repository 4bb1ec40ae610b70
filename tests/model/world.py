"""A world in memory for tests of the model: what is sent lies in lists, and the clock stands until it is set."""

import pytest

from rayshot.errors import NameTaken
from rayshot.format.codec import Codec
from rayshot.format.pickling import dump_state, load_state
from rayshot.model.calls import OpenCall
from rayshot.model.cell import Cell
from rayshot.model.current import enter
from rayshot.model.handle import ActorHandle
from rayshot.model.methods import durable_inside
from rayshot.model.port import OutPort, provide_port
from rayshot.model.reply import Reply
from rayshot.model.specification import ActorSpecification


class Sent(list):
    """The messages of one channel, encoded."""

    append_plain, end_receiver = OutPort.append_plain, OutPort.end_receiver

    def __init__(self, codec):
        self.codec = codec


class World:
    """A port of the process `name` in the system `bank`; `cell` is the actor that lives there."""

    def __init__(self, name="alice"):
        self.system = "bank"
        self.codec = Codec(ActorHandle, lambda handle: handle.name_in(self.system), self.handle)
        self.now = 0.0
        self.cell = Cell(name, self, lambda: self.now)
        self.sent = {}
        self.answers = []
        self.spawned = []
        self.taken, self.ended = set(), set()
        self.requests = []
        self.outcomes = []

    def handle(self, name, methods=None):
        return ActorHandle(self.system, name, None if methods is None else frozenset(methods), self)

    # What a model asks of its world ----------------------------------------------------------------------------

    def channel(self, receiver):
        return self.sent.setdefault(receiver, Sent(self.codec))

    def call(self, receiver, tell, *, durable=False):
        if durable:
            raise durable_inside(self.cell.name, receiver)
        call = OpenCall(tell)
        self.channel(receiver).append(call)
        self.cell.open_calls.append(call)
        return Reply(self.cell, call, receiver)

    def is_there(self, name):
        return False if name in self.ended else True if name in self.taken else None

    def handle_of(self, name):
        return self.handle(name)

    def spawn(self, specification, name, args, kwargs):
        if name in self.taken | self.ended:
            raise NameTaken(f"{name} is there")
        self.spawned.append((specification, name, args, kwargs))
        return self.handle(name or "unnamed", specification.methods)

    def answer(self, sender, call_id, value, *, ok):
        self.answers.append((sender, call_id, value, ok))

    def await_answers(self, questions, count, timeout_s):
        """The first ones are answered, as many as `outcomes` has."""
        for question, outcome in zip([one for one in questions if not one.is_answered], self.outcomes, strict=False):
            question.outcome = outcome

    def request_snapshot(self):
        self.requests.append("snapshot")

    def request_end(self):
        self.requests.append("end")

    def has_own_mail(self):
        return False

    # What tests do ---------------------------------------------------------------------------------------------

    def construct(self, user_class, *args, options=None, **kwargs):
        """Let the cell process the message that makes it an actor of `user_class`; returns the instance."""
        specification = ActorSpecification.of(user_class, options or {})
        self.receive(self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs)))
        return self.cell.instance

    def receive(self, *messages):
        """Let the cell process encoded messages, each as a handler of its own."""
        for message in messages:
            (fields,) = self.codec.unpacker(message)
            before = enter(self.cell)
            try:
                self.cell.handle(fields)
            finally:
                enter(before)
                self.cell.open_calls.clear()

    def tell(self, method, *args, **kwargs):
        """Let the cell process a tell."""
        self.receive(self.codec.tell(method, args, kwargs))

    def messages(self, receiver):
        """(method, args) of what was sent to `receiver`."""
        tells = (message.tell if isinstance(message, OpenCall) else message for message in self.sent.get(receiver, ()))
        return [(method, tuple(args)) for method, args, _ in map(self.codec.decode_tell, tells)]

    def moved(self):
        """Another world, whose cell was loaded from a pickle of this cell's state."""
        other = World(self.cell.name)
        pickled = dump_state(self.cell.state(), self.cell.name, self.cell.instance)
        specification = ActorSpecification.unpack(self.cell.specification.pack())
        provide_port(lambda: other)
        own = other.cell.become(specification, specification.resolve())
        other.cell.load(load_state(pickled.stream, pickled.buffers, own), specification.version)
        return other


@pytest.fixture
def world():
    """A world that this process belongs to while the test runs."""
    made = World()
    provide_port(lambda: made)
    yield made
    provide_port(lambda: None)
