"""How an actor handles its messages in a life that is watched; see `protocol.poison`.

It handles one message at a time, and asks the coordinator before each: the answer comes when the coordinator knows the
message, so it knows what the actor was doing if its process dies. This costs each message two calls, and two for each
wait of its handler. A method that loops says, for each pass, the answer with which this begins, and nothing of itself.

Where handlers run at once, one message at a time would not do: handlers that wait for others of their actor would wait
for ever. But only one of them runs at a time, and it is one that runs which ends the process. So before each turn of a
handler the actor says which message this handles, and before the loop waits that nobody has the turn. A message is
the poison if its handler had the turn at two deaths in a row.
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
from rayshot.model.handling import Handling
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
        if self.is_letter(message):
            self._pass_over(delivery, message, fields)
        elif self._says:
            self._handle_known(delivery, message, handle)
        else:
            handle(delivery)
        self.forget_letters()

    def turns(self) -> "TurnWatch":
        """The watch where several handlers run at once."""
        return TurnWatch(self._process, self)

    def is_letter(self, message: MessageId) -> bool:
        """Whether the actor passes over this message."""
        return self._letters.get((message.sender, message.number)) == message

    def forget_letters(self) -> None:
        """Forget the messages that cannot come any more."""
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
            self.say(message)
        if process.runner.down is not None:
            return  # the message is not handled in this life
        handle(delivery)
        if process.failure is not None:
            self.await_end()  # the message that failed is the one to be known
        else:
            self.ends()

    def say(self, message: MessageId) -> None:
        """Say that the actor handles this message, if the coordinator does not know it."""
        if self._says and message != self._said:
            of = self._process.name, self._process.identity.incarnation
            self._says = bool(self._answer(self._coordinator.begins.remote(*of, message)))
            self._said = message if self._says else None

    def begins_pass(self, sender: str, number: int, method: str, answer: Answer) -> bool:
        """A pass of a loop begins with this answer to its call of `method`. Returns False if it passes over it.

        Raises Interruption if the process takes no messages any more.
        """
        message = MessageId(sender, number, digest(*answer[1:]), method, is_answer=True)
        self._got = None
        if is_letter := self.is_letter(message):
            self.tell_of_letter(message)
        else:
            self.say(message)
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
                behind = digest(f"{number} {sender} ".encode() + body, slots)
            self.say(replace(self._said, waits=behind))

    def goes_on(self) -> None:
        """The handler waits no more."""
        if self._said is not None:
            self.say(replace(self._said, waits=b""))

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
        return identified(sender, frame.first, fields, digest(frame.body, slots)), fields

    def _pass_over(self, delivery: Delivery, message: MessageId, fields: list[Any]) -> None:
        process, mailbox = self._process, self._process.channels.mailbox
        why = self.tell_of_letter(message)
        if process.runner.down is not None:
            return
        if (tracer := process.tracing.tracer) is not None:
            with process.runner.lock:  # an audit must not run it again
                process.tracing.switch(tracer.full, process.channels.out)
        mailbox.slots.pop((message.sender, message.number), None)
        if fields[0] == CALL:
            self.answer_letter(message, fields[1], why)
        mailbox.position = delivery.frame.last
        mailbox.finish()

    def answer_letter(self, message: MessageId, call_id: int, why: str) -> None:
        """The caller of the call that is passed over hears why."""
        self._process.answer(message.sender, call_id, PoisonMessage(why, actor=self._process.name), ok=False)

    def tell_of_letter(self, message: MessageId) -> str:
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

    def await_end(self) -> None:
        """The process is to end: what it has said stays."""
        runner = self._process.runner
        with runner.lock:
            while runner.down is None:
                runner.wake.wait()


class TurnWatch:
    """The watch over the turns of an actor's handlers. Call everything on their thread."""

    def __init__(self, process: ActorProcess, watch: PoisonWatch) -> None:
        self._process, self._watch = process, watch
        self._messages: dict[Handling, MessageId] = {}
        """What the handlers that were begun are known by."""

    @property
    def is_over(self) -> bool:
        """Whether nobody needs to know any more whose turn it is."""
        return self._watch.is_over

    def take(self, handling: Handling, fields: list[Any], body: bytes, *, is_anew: bool) -> None:
        """A handler will be begun with this message. One that a state had is begun anew, and cannot be left out."""
        method = method_of(fields) or ""
        if not (method and has_loop(type(self._process.cell.instance), method)):
            message = identified(handling.sender, handling.number, fields, digest(body, handling.slots))
            self._messages[handling] = replace(message, removable=False) if is_anew else message

    def begins(self, handling: Handling, fields: list[Any]) -> bool:
        """Whether the handler begins. If its message is a dead letter, it is answered here."""
        message = self._messages.get(handling)
        is_letter = message is not None and self._watch.is_letter(message)
        if is_letter:
            assert message is not None
            del self._messages[handling]
            why = self._watch.tell_of_letter(message)
            if fields[0] == CALL and self._process.runner.down is None:
                self._watch.answer_letter(message, fields[1], why)
        self._watch.forget_letters()
        return not is_letter

    def pass_begins(self, handling: Handling, sender: str, number: int) -> None:
        """A pass begins with this answer; number 0 if it came with the loaded state."""
        loop = handling.loop
        assert loop is not None, "a pass is one of a loop"
        self._messages.pop(handling, None)
        if loop.question is not None and loop.question.answer is not None:
            content = digest(*loop.question.answer[1:])
            self._messages[handling] = MessageId(sender, number, content, loop.asks, removable=False, is_answer=True)

    def turn(self, handling: Handling | None) -> None:
        """The turn of a handler comes, or of none."""
        message = None if handling is None else self._messages.get(handling)
        if message is None:
            self._watch.ends()
        else:
            self._watch.say(message)

    def ended(self, handling: Handling) -> None:
        """The handler has ended. If that ends the process, its message is the one to be known."""
        if self._process.failure is not None:
            self._watch.await_end()
        self._messages.pop(handling, None)


def identified(sender: str, number: int, fields: list[Any], content: bytes) -> MessageId:
    """What a message is known by. An actor can do without it if it is a tell, a call or a timer."""
    removable = isinstance(fields[0], str) or fields[0] in (PICKLED, CALL)
    return MessageId(sender, number, content, method_of(fields) if removable else "", removable)


def digest(body: bytes | memoryview, slots: Iterable[Slot]) -> bytes:
    """By which a message is known in another life."""
    found = blake2b(bytes(body), digest_size=16)
    found.update(repr([(slot.kind, slot.size) for slot in slots]).encode())
    return found.digest()
