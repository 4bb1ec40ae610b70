"""What a simulated actor sends and makes, and what becomes of messages to actors that have ended."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from math import inf
from typing import Any

from rayshot.errors import OutsideHandler
from rayshot.format.codec import CALL, Codec
from rayshot.model.calls import OpenCall, encode_reply, not_answered
from rayshot.model.cell import Cell
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.handle import ActorHandle
from rayshot.model.methods import durable_inside
from rayshot.model.port import OutPort
from rayshot.model.reply import Reply
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import is_driver
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.actor_surroundings import ActorSurroundings
from rayshot.simulation.bodies.named_world import name_in
from rayshot.simulation.world.packets import Packet
from rayshot.simulation.world.process import Process


class ProcessOutPort(OutPort):
    """The sending end of one channel."""

    __slots__ = ("_process", "_receiver", "codec")

    def __init__(self, process: "ActorPort", receiver: str) -> None:
        self._process = process
        self.codec = process.codec
        self._receiver = receiver

    def append(self, message: bytes) -> None:
        """Send an encoded message."""
        self._process.send(self._receiver, message)


class ActorPort(Process):
    """See the module. The messages of a handler are numbered when it has ended, or waits.

    `children` are the actors that the running handler made. `ending`: it handles nothing more. `sends` is what handlers
    have sent and has not left; None: no handler runs. `requests` counts the snapshots that handlers asked for.
    """

    world: ActorSurroundings
    cell: Cell

    def __init__(self, name: str, machine: Participant, world: ActorSurroundings) -> None:
        super().__init__(name, machine, world)
        self.system = world.system
        self.codec = Codec(ActorHandle, lambda handle: name_in(handle, world), self.handle_of)
        self.children: list[str] = []
        self.ending = False
        self.sends: list[tuple[str, bytes | OpenCall]] | None = None
        self.requests = 0
        self._gone: set[str] = set()
        self._refused: dict[str, int] = {}
        self._sent_count = 0

    def handle_of(self, name: str) -> ActorHandle:
        """This process's handle of the actor `name`."""
        return ActorHandle(self.system, name, None, self)

    def is_there(self, name: str) -> bool | None:
        """See Port."""
        return self.world.is_there(name)

    def channel(self, receiver: str) -> OutPort:
        """The channel to `receiver`."""
        return ProcessOutPort(self, receiver)

    def send(self, receiver: str, message: bytes | OpenCall) -> None:
        """Send when the running handler has ended. Raises OutsideHandler if no handler runs."""
        if self.sends is None:
            raise OutsideHandler(
                f"a handle that actor {self.name!r} holds was used outside its handlers: "
                "in a test use world.get_actor(name), which sends as the test's driver"
            )
        self.sends.append((receiver, message))
        self._sent_count += 1

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Reply:
        """Send a call; when the handler ends, it is known whether it wants a reply."""
        if durable:
            raise durable_inside(self.name, receiver)
        call = OpenCall(tell)
        self.send(receiver, call)
        self.cell.open_calls.append(call)
        return Reply(self.cell, call, receiver)

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it its constructor's call."""
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        name = self._free_name(specification.class_name) if name is None else name
        made = self.world.spawn(specification, name)
        self.children.append(made)
        self.send(made, message)
        return ActorHandle(self.system, made, frozenset(specification.methods), self)

    def _free_name(self, class_name: str) -> str:
        """The first name for an anonymous actor that is free: a program may have given one by hand."""
        while self.world.is_taken(name := self.cell.name_child(class_name)):
            pass
        return name

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """Send the outcome of a call back."""
        if is_driver(sender):
            self.world.answer_driver(self, sender, call_id, value, ok=ok)
            return
        self.send(sender, encode_reply(self.codec, call_id, value, ok=ok))

    def is_gone(self, caller: str) -> bool:
        """See CellPort."""
        return not self.world.takes_answers(caller) if is_driver(caller) else caller in self._gone

    def sent_so_far(self) -> int:
        """See CellPort."""
        return self._sent_count

    def leave_all(self) -> None:
        """The handler waits: what it has sent leaves."""
        self.cell.ask()
        sends, self.sends = self.sends or [], []
        self.send_all(sends)

    @contextmanager
    def parked(self) -> Iterator[None]:
        """While the handler is parked, nothing is sent; then all is as it was."""
        sends, self.sends = self.sends, None
        sender, slots = self.cell.now.sender, self.cell.now.slots
        try:
            yield
        finally:
            self.sends, self.cell.now.sender, self.cell.now.slots = sends, sender, slots

    @property
    def gone(self) -> AbstractSet[str]:
        """The actors that have ended, as far as this one knows."""
        return self._gone

    def request_snapshot(self) -> None:
        """Begin a snapshot when the running handler has ended."""
        self.requests += 1

    def request_end(self) -> None:
        """End when the running handler has ended."""
        self.ending = True

    def has_own_mail(self) -> bool:
        """Whether messages are waiting that this actor sent to itself."""
        return bool(self.mailbox.get(self.name))

    def put(self, receiver: str, message: bytes) -> None:
        """See Process; a message for an actor that has ended is lost."""
        if receiver in self._gone:
            self._lose(receiver, self.name, 0, message, f"actor {receiver!r} ended")
            return
        super().put(receiver, message)
        if receiver != self.name and receiver not in self.ready:
            self.world.find(self, receiver)

    def receiver_ended(self, receiver: str) -> None:
        """See Process; messages that wait for `receiver`, and later ones, are dead letters."""
        if self.ended or receiver in self._gone:
            return
        self._gone.add(receiver)
        for message in self.outbox.pop(receiver, ()):
            self._lose(receiver, self.name, 0, message, f"actor {receiver!r} ended")
        super().receiver_ended(receiver)

    def arrive(self, packet: Packet) -> None:
        """See Process; after the end nothing is delivered, even if the machine does not know of the end yet."""
        if self.ended and packet.incarnation == self.incarnation:
            self.refuse(packet)
        else:
            super().arrive(packet)

    def refuse(self, packet: Packet) -> None:
        """See Process; the messages are dead letters."""
        sender = packet.sender
        known = self._refused.get(sender, self.machine.arrived(sender))
        for number, message in enumerate(packet.messages, packet.first):
            if number > known:  # once, however often the message comes
                self._lose(self.name, sender, number, message, f"actor {self.name!r} ended")
        self._refused[sender] = max(known, packet.last)
        super().refuse(packet)

    def refuse_all(self) -> None:
        """Messages that wait here are dead letters, and who calls hears that there will be no answer.

        A caller that went on waiting would let no snapshot begin, and this actor waits for one, to end.
        """
        for sender, messages in self.mailbox.items():
            while messages and self.received.get(sender, 0) < self.machine.limits.get(sender, inf):
                message = self.pop_message(sender)
                self._lose(self.name, sender, self.received[sender], message, f"actor {self.name!r} ended")
                kind, *fields = next(self.codec.unpacker(message))
                if kind == CALL and not is_driver(sender):
                    self.answer(sender, fields[0], not_answered(self.name), ok=False)

    def leave(self) -> None:
        """Stop processing messages: those that wait here are dead letters."""
        self.ended = True
        self.cell.timers.clear()
        for sender, messages in self.mailbox.items():
            for number, message in enumerate(messages, self.received.get(sender, 0) + 1):
                self._lose(self.name, sender, number, message, f"actor {self.name!r} ended")
        self.mailbox.clear()

    def _lose(self, receiver: str, sender: str, number: int, message: bytes, detail: str) -> None:
        head = next(self.codec.unpacker(message))[0]
        letter = DeadLetter(receiver, sender, number, head if isinstance(head, str) else "", detail)
        self.world.lose(letter, message)

    def send_all(self, sends: Sequence[tuple[str, bytes | OpenCall]]) -> None:
        """Number these messages, and let them leave."""
        for receiver, sent in sends:
            self.put(receiver, sent if isinstance(sent, bytes) else self._settled(sent))

    def _settled(self, call: OpenCall) -> bytes:
        return call.tell if call.call_id is None else self.codec.call(call.call_id, call.tell)
