"""How an actor handles its messages in a life that is watched; see `protocol.poison`.

It handles one message at a time, and asks the coordinator before each: the answer comes when the coordinator knows the
message, so it knows what the actor was doing if its process dies. This costs each message two calls.
"""

import logging
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from rayshot.errors import PoisonMessage
from rayshot.format.codec import CALL, PICKLED, method_of
from rayshot.model.dead_letter import DeadLetter
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
        self._has_begun = False
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
        of = process.name, process.identity.incarnation
        self._says = bool(self._answer(self._coordinator.begins.remote(*of, message)))
        if process.runner.down is not None:
            return  # the message is not handled in this life
        self._has_begun = self._says
        handle(delivery)
        if process.failure is not None:
            self._await_end()  # the message that failed is the one to be known
        else:
            self.ends()

    def ends(self) -> None:
        """The message that is handled is over, or has come to the top of a loop."""
        if self._has_begun:
            self._has_begun = False
            self._answer(self._coordinator.ends.remote(self._process.name, self._process.identity.incarnation))

    def _read(self, delivery: Delivery) -> tuple[MessageId, list[Any]]:
        sender, frame = delivery.sender, delivery.frame
        assert frame.count == 1, f"{frame.count} messages are handled at once"
        fields = next(iter(self._process.codec.unpacker(frame.body)))
        slots = self._process.channels.mailbox.slots.get((sender, frame.first), ())
        digest = blake2b(bytes(frame.body), digest_size=16)
        digest.update(repr([(slot.kind, slot.size) for slot in slots]).encode())
        removable = isinstance(fields[0], str) or fields[0] in (PICKLED, CALL)
        method = method_of(fields) if removable else ""
        return MessageId(sender, frame.first, digest.digest(), method, removable), fields

    def _pass_over(self, delivery: Delivery, message: MessageId, fields: list[Any]) -> None:
        process, mailbox = self._process, self._process.channels.mailbox
        life = process.identity.incarnation
        why = f"actor {process.name!r} was lost twice in a row while it handled {message}: it passes over it"
        log.error("%s", why)
        letter = DeadLetter(process.name, message.sender, message.number, message.method, why, life)
        self._answer(self._coordinator.passed_over.remote(letter, life))
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
