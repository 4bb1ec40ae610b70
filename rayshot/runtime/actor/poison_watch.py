"""How an actor handles its messages in a life that is watched; see `protocol.poison`.

It handles one message at a time, and asks the coordinator before each: the answer comes when the coordinator knows the
message, so it knows what the actor was doing if its process dies. This costs each message two calls, and two for each
wait of its handler. A method that loops says, for each pass, the answer with which this begins, and nothing of itself.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from rayshot.errors import PoisonMessage
from rayshot.format.codec import CALL, PICKLED, method_of
from rayshot.format.slots import Slot
from rayshot.model.calls import Answer, Interruption
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.loop_check import has_loop
from rayshot.protocol.poison import Caution, MessageId
from rayshot.runtime.actor.mailbox import Delivery
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.door import door

log = logging.getLogger("rayshot")
LOOK_S = 0.1
"""An actor that waits for its coordinator looks so often whether the life is over: then nobody may answer."""


class PoisonWatch:
    """The watch over one actor in one life. Call everything on the thread of its handlers."""

    def __init__(self, process: ActorProcess, caution: Caution) -> None:
        self._process = process
        self._coordinator = process.identity.coordinator
        self._says = caution.says
        self._said: MessageId | None = None
        """What the coordinator knows this actor to handle."""
        self._got: tuple[str, int, Answer] | None = None
        """The last answer that the running handler got, with its sender and number."""
        self._letters = {(letter.sender, letter.number): letter for letter in caution.letters}

    @property
    def is_over(self) -> bool:
        """Whether the actor may handle all further messages as always."""
        return not (self._says or self._letters)

    def handle(self, delivery: Delivery, handle: Callable[[Delivery], None]) -> None:
        """Handle the only message of `delivery` with the function `handle`, or pass over it."""
        message, fields = self._read(delivery)
        if self._letters.get((message.sender, message.number)) == message:
            self._pass_over(delivery, message, fields)
        elif self._says:
            self._handle_known(delivery, message, handle)
        else:
            handle(delivery)
        with self._process.runner.lock:
            self._letters = {key: letter for key, letter in self._letters.items() if self._may_come(*key)}

    def _may_come(self, sender: str, number: int) -> bool:
        """Whether a message may still be handled here. One that a dead driver has not brought never comes."""
        process = self._process
        is_lost = sender in process.dead_drivers and process.runner.participant.arrived(sender) < number
        return not is_lost and process.channels.mailbox.processed.get(sender, 0) < number

    def _handle_known(self, delivery: Delivery, message: MessageId, handle: Callable[[Delivery], None]) -> None:
        process = self._process
        if not (message.method and has_loop(type(process.cell.instance), message.method)):
            self._say(message)
        if process.runner.down is not None:
            return  # the message is not handled in this life
        handle(delivery)
        if process.failure is not None:
            self._await_end()  # the message that failed is the one to be known
        else:
            self.ends()

    def _say(self, message: MessageId) -> None:
        if self._says and message != self._said:
            of = self._process.name, self._process.identity.incarnation
            self._says = bool(self._answer(self._coordinator.begins.remote(*of, message)))
            self._said = message if self._says else None

    def begins_pass(self, sender: str, number: int, method: str, answer: Answer) -> bool:
        """A pass of a loop begins with this answer to its call of `method`. Returns False if it passes over it.

        Raises Interruption if the process takes no messages any more.
        """
        message = MessageId(sender, number, _digest(*answer[1:]), method, is_answer=True)
        self._got = None
        if is_letter := self._letters.get((sender, number)) == message:
            self._tell_of_letter(message)
        else:
            self._say(message)
        if self._process.runner.down is not None:
            raise Interruption
        return not is_letter

    def got(self, sender: str, number: int, answer: Answer) -> None:
        """The handler gets this answer."""
        self._got = sender, number, answer

    def waits(self) -> None:
        """The handler waits for answers."""
        if self._said is not None:
            behind = b"nothing"
            if self._got is not None:
                sender, number, (_, body, slots) = self._got
                behind = _digest(f"{number} {sender} ".encode() + body, slots)
            self._say(replace(self._said, waits=behind))

    def goes_on(self) -> None:
        """The handler waits no more."""
        if self._said is not None:
            self._say(replace(self._said, waits=b""))

    def ends(self) -> None:
        """The message that is handled is over, or the pass of a loop."""
        self._got = None
        if self._said is not None:
            self._said = None
            self._answer(self._coordinator.ends.remote(self._process.name, self._process.identity.incarnation))

    def _read(self, delivery: Delivery) -> tuple[MessageId, list[Any]]:
        sender, frame = delivery.sender, delivery.frame
        assert frame.count == 1, f"{frame.count} messages are handled at once"
        fields = next(iter(self._process.codec.unpacker(frame.body)))
        slots = self._process.channels.mailbox.slots.get((sender, frame.first), ())
        removable = isinstance(fields[0], str) or fields[0] in (PICKLED, CALL)
        method = method_of(fields) if removable else ""
        return MessageId(sender, frame.first, _digest(frame.body, slots), method, removable), fields

    def _pass_over(self, delivery: Delivery, message: MessageId, fields: list[Any]) -> None:
        process, mailbox = self._process, self._process.channels.mailbox
        why = self._tell_of_letter(message)
        if process.runner.down is not None:
            return
        if (tracer := process.tracing.tracer) is not None:
            with process.runner.lock:  # an audit must not run it again
                process.tracing.switch(tracer.full, process.channels.out)
        mailbox.slots.pop((message.sender, message.number), None)
        if fields[0] == CALL:
            process.answer(message.sender, fields[1], PoisonMessage(why, actor=process.name), ok=False)
        mailbox.position = delivery.frame.last
        mailbox.finish()

    def _tell_of_letter(self, message: MessageId) -> str:
        """Tell the coordinator that this actor passes over a message; returns why, in words."""
        name, life = self._process.name, self._process.identity.incarnation
        why = f"actor {name!r} was lost twice in a row while it handled {message}: it passes over it"
        log.error("%s", why)
        letter = DeadLetter(name, message.sender, message.number, message.method, why, life)
        self._answer(self._coordinator.passed_over.remote(letter, life))
        return why

    def _answer(self, reference: Any) -> Any:
        """The answer of the coordinator; None if the life is over, or the coordinator is gone."""
        while self._process.runner.down is None:
            if door.wait([reference], timeout=LOOK_S)[0]:
                try:
                    return door.get(reference)
                except door.CallFailed as error:
                    log.debug("%s: no answer from the coordinator: %s", self._process.name, error)
                    return None
        return None

    def _await_end(self) -> None:
        runner = self._process.runner
        with runner.lock:
            while runner.down is None:
                runner.wake.wait()


def _digest(body: bytes | memoryview, slots: Iterable[Slot]) -> bytes:
    digest = blake2b(bytes(body), digest_size=16)
    digest.update(repr([(slot.kind, slot.size) for slot in slots]).encode())
    return digest.digest()
