"""The outbox of one channel: messages that were sent and have not left.

One lock covers everything here: the lock of the process, which also covers the protocol's machine.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from rayshot.errors import ActorExited, MessageTooLarge, SystemDown
from rayshot.format.codec import Codec, Frame
from rayshot.format.slots import FAILED, VALUE, Slot, SlottedMessage
from rayshot.model.calls import OpenCall
from rayshot.model.port import OutPort
from rayshot.runtime.channel.attached_references import Slots, dump_error, size_of, values_size
from rayshot.runtime.channel.holding import Holding, Waiting

BATCH_MESSAGES_MIN = 512
BATCH_BYTES_MIN = 128 << 10
"""While a call is under way, a second one leaves only with so many messages or bytes."""
BATCH_MESSAGES_MAX = 4096
BATCH_BYTES_MAX = 1 << 20
OUTBOX_MESSAGES_MAX = 65_536
OUTBOX_BYTES_MAX = 128 << 20
"""Above these limits the sender is asked to wait."""


class Outbox(OutPort):
    """The messages numbered transported+1 .. sent.

    Each `pending` message is encoded, or an OpenCall. From the index `held_at` on they may not leave yet, see
    `holding`. `urgent` is the number of the last message that somebody waits for: credit does not hold it, or those
    before it; `asked` is that of the last one for whose answer a handler waits or has waited, and `asked_said` what
    the receiver was told of that. `slots` are the slots of pending messages. `_plain` are tells that follow them,
    as lists: `gather` encodes many of them at once, before any other code looks at them. `_past_plain` may get one
    more tell, from a thread that was appending when tracing began. If `_due_messages` or `_due_bytes` are pending,
    or `_due_plain` tells are in `_plain`, the outbox has work to do; `flush` sets these limits. `trace`, if set, is
    called with the receiver of each message, in one step with the message's number.
    """

    delivers_unready = False
    """Whether messages leave although objects that they need are not ready."""

    def __init__(self, receiver: str, codec: Codec, lock: threading.Lock) -> None:
        self.receiver = receiver
        self.codec = codec
        self.lock = lock
        self.room = threading.Condition(lock)
        self.pending: list[bytes | OpenCall] = []
        self.pending_bytes = 0
        self.slots: Slots = {}
        self.transported = 0
        self.urgent = self.asked = self.asked_said = 0
        self.held_at: int | None = None
        self.holding = Holding(self, lock)
        self.down: SystemDown | ActorExited | None = None
        self.trace: Callable[[str], None] | None = None
        self._plain: list[list[Any]] = []
        self._past_plain: list[list[Any]] = []
        self._due_messages = self._due_bytes = self._due_plain = 1

    @abstractmethod
    def flush(self) -> None:
        """Transport all messages that may be transported. Call under the lock."""

    @abstractmethod
    def congested(self) -> None:
        """The outbox is above its limit, and this thread has sent the last message. Call under the lock."""

    @abstractmethod
    def undeliverable(self, messages: list[bytes], detail: str) -> None:
        """These messages have no receiver, or cannot be sent to one. Call under the lock."""

    # Sending ---------------------------------------------------------------------------------------------------

    def append(self, message: bytes) -> None:
        """Send an encoded message: it gets the channel's next number."""
        with self.lock:
            self.put(message)

    def put(self, message: bytes) -> None:
        """As `append`. Call under the lock."""
        if self.down is not None:
            raise self.down.anew()
        if self._plain:
            self.gather()
        self.pending.append(message)
        self.pending_bytes += len(message)
        if message.__class__ is not bytes:
            self.keep_slots(message)
        if self.trace is not None:
            self.trace(self.receiver)
        if len(self.pending) >= self._due_messages or self.pending_bytes >= self._due_bytes:
            self._work_off()

    def append_urgent(self, message: bytes) -> None:
        """As `append`, for an answer that somebody waits for: it leaves whatever credit its receiver gives."""
        with self.lock:
            self.put(message)
            self.exceed_credit()

    def exceed_credit(self) -> None:
        """Somebody waits for what was sent until now: it leaves beyond credit. Call under the lock."""
        assert self.lock.locked()
        self.urgent = self.sent
        self.flush()

    def append_plain(self, method: str, args: tuple[Any, ...]) -> None:
        """See OutPort. Takes no lock while nothing is due: appending to a list is one step.

        A thread that makes messages due first writes the limit, and then looks at `_plain`. This method first appends,
        and then reads the limit. So one of the two sees the other.
        """
        plain = self._plain
        plain.append([method, *args])
        if len(plain) >= self._due_plain:
            with self.lock:
                if self.down is not None:
                    plain.clear()
                    raise self.down.anew()
                self._work_off()

    def gather(self) -> None:
        """Encode the plain tells. Call under the lock."""
        for plain in (self._past_plain, self._plain):
            if count := len(plain):
                messages = _encoded(self.codec, plain[:count], self.undeliverable)
                del plain[:count]
                self.pending += messages
                self.pending_bytes += sum(map(len, messages))

    def append_open(self, call: OpenCall) -> None:
        """Send a call. Whether a reply is wanted will be known at the handler's end."""
        with self.lock:
            if self.down is not None:
                raise self.down.anew()
            self.gather()
            self.pending.append(call)
            self.pending_bytes += len(call.tell)
            if call.tell.__class__ is not bytes:
                self.keep_slots(call.tell)
            self.holding.until_settled(self.transported + len(self.pending))
            if self.trace is not None:
                self.trace(self.receiver)

    def settle(self) -> None:
        """The handler ended: each open call becomes a call, or a tell if nobody wants the reply. Takes the lock."""
        with self.lock:
            first_open = self.holding.settle()
            if first_open is None:
                return
            for index in range(first_open - self.transported - 1, len(self.pending)):
                call = self.pending[index]
                if isinstance(call, OpenCall):
                    message = call.tell if call.call_id is None else self.codec.call(call.call_id, call.tell)
                    self.pending[index] = message
                    self.pending_bytes += len(message) - len(call.tell)
            self.flush()

    def keep_slots(self, message: bytes) -> list[Any]:
        """The last message has slots. Returns the arguments that it waits for. Call under the lock."""
        assert self.lock.locked()
        assert isinstance(message, SlottedMessage)
        number = self.transported + len(self.pending)
        self.slots[number] = message.slots
        self.pending_bytes += size_of({number: message.slots})
        wanted = [slot.reference for slot in message.slots if self.must_be_there(slot)]
        waiting = self.holding.until_ready(number, wanted) if wanted else []
        arguments = {slot.reference for slot in message.slots if slot.kind == VALUE}
        return [reference for reference in waiting if reference in arguments]

    def must_be_there(self, slot: Slot) -> bool:
        """Whether the object of a slot must be ready before the message may leave."""
        return slot.kind == VALUE

    def _work_off(self) -> None:
        self.flush()
        if self.full:
            self.congested()

    def trace_sends(self, hear: Callable[[str], None] | None) -> None:
        """From now on call `hear` with the receiver of each message, or with None stop that. Call under the lock."""
        assert self.lock.locked()
        self.gather()
        if self.trace is None:
            self._past_plain = self._plain  # a thread may just be appending to it, once
        self.trace = hear
        self._plain = [] if hear is None else _AtOnce(self)

    # What lies here ---------------------------------------------------------------------------------------------

    @property
    def sent(self) -> int:
        """The number of the last message sent. Call under the lock."""
        self.gather()
        return self.transported + len(self.pending)

    @property
    def full(self) -> bool:
        """Whether the outbox is above its limit."""
        return len(self.pending) > OUTBOX_MESSAGES_MAX or self.pending_bytes > OUTBOX_BYTES_MAX

    @property
    def last_leaving(self) -> int:
        """As `sent`, but only up to the first message that waits for objects that are not ready."""
        unready = self.holding.first_unready()
        return self.sent if unready is None else unready[0] - 1

    def message_at(self, number: int) -> bytes:
        """A message that has not left."""
        message = self.pending[number - self.transported - 1]
        return message.tell if isinstance(message, OpenCall) else message

    def frames(self) -> list[Frame]:
        """All messages, in frames of a bounded size: readers would refuse one frame with a whole large outbox."""
        frames: list[Frame] = []
        while (start := sum(frame.count for frame in frames)) < len(self.pending):
            end, size = start, 0
            while end < len(self.pending) and (size == 0 or size < BATCH_BYTES_MAX):
                size += len(self.pending[end])  # type: ignore[arg-type]
                end += 1
            body = b"".join(self.pending[start:end])  # type: ignore[arg-type]
            frames.append(Frame(self.transported + 1 + start, end - start, body))
        return frames

    # Leaving ----------------------------------------------------------------------------------------------------

    def released(self) -> None:
        """Held messages may leave now. Call under the lock."""
        assert self.lock.locked()
        self.flush()
        self.room.notify_all()

    def batch_size(self, credit: int) -> int:
        """How many messages leave together now, at most `credit`."""
        limit = min(len(self.pending), BATCH_MESSAGES_MAX, credit)
        if self.held_at is not None:
            limit = min(limit, self.held_at)
        if self.slots:
            limit = self._before_much(limit)
        if self.pending_bytes <= BATCH_BYTES_MAX:
            return limit
        size = 0
        for index in range(limit):
            size += len(self.pending[index])  # type: ignore[arg-type]
            if size > BATCH_BYTES_MAX:
                return max(1, index)
        return limit

    def _before_much(self, limit: int) -> int:
        """How many of the first `limit` messages fit into BATCH_BYTES_MAX with the values beside them; at least one."""
        size = 0
        for number in sorted(self.slots):
            index = number - self.transported - 1
            if index >= limit:
                break
            attached = {number: self.slots[number]}
            size += size_of(attached) + values_size(attached)
            if size > BATCH_BYTES_MAX:
                return max(1, index)
        return limit

    def take(self, count: int) -> tuple[bytes, Slots]:
        """Remove the next messages, which leave now. Returns their bytes and their slots. Call under the lock."""
        assert self.lock.locked()
        body = b"".join(self.pending[:count])  # type: ignore[arg-type]
        del self.pending[:count]
        if self.held_at is not None:
            self.held_at -= count
        self.transported += count
        self.pending_bytes -= len(body)
        slots: Slots = {}
        if self.slots:
            slots = self._take_slots()
            self.pending_bytes -= size_of(slots)
        if not self.full:
            self.room.notify_all()
        return body, slots

    def _take_slots(self) -> Slots:
        return {number: self.slots.pop(number) for number in sorted(self.slots) if number <= self.transported}

    def make_dead_letters(self, detail: str, lost: list[bytes]) -> None:
        """Messages that could leave, and messages `lost` on the way, become dead letters. Call under the lock."""
        assert self.lock.locked()
        self.holding.forget_unready()
        count = len(self.pending) if self.held_at is None else self.held_at
        waiting: list[Any] = self.pending[:count]
        del self.pending[:count]
        if self.held_at is not None:
            self.held_at = 0
        self.pending_bytes = 0
        self.transported += count
        self._take_slots()
        self.undeliverable([*lost, *waiting], detail)
        self.room.notify_all()

    def give_up_unready(self, why: Exception) -> None:
        """Send messages that wait for objects without them: their handlers get the error `why`. Call under the lock."""
        assert self.lock.locked()
        for number in self.holding.unready & self.slots.keys():
            self.slots[number] = (Slot(FAILED, content=dump_error(why)),) * len(self.slots[number])
        self.holding.forget_unready()
        self.flush()


def waiting_in(channels: Iterable[Outbox]) -> tuple[Waiting, ...]:
    """The messages in these outboxes that have waited for objects for some seconds. Call under their lock."""
    return tuple(found for channel in channels if (found := channel.holding.waiting()) is not None)


def _encoded(codec: Codec, tells: list[list[Any]], undeliverable: Callable[[list[bytes], str], None]) -> list[bytes]:
    """Encode tells of few arguments, all at once. A tell that is too large is left out and reported with its method.

    Such a tell has a huge integer. For speed, integers are not checked when the tell is sent.
    """
    try:
        return codec.tell_all(tells)
    except MessageTooLarge:
        encoded = []
        for method, *args in tells:
            try:
                encoded.append(codec.tell(method, args))
            except MessageTooLarge as error:
                undeliverable([codec.tell(method, ())], error.message)
        return encoded


class _AtOnce(list[list[Any]]):
    """Replaces the list of plain tells of a traced channel: each tell gets its number and is traced when it is sent."""

    def __init__(self, channel: OutPort) -> None:
        super().__init__()
        self._channel = channel

    def append(self, tell: list[Any]) -> None:
        """Send the tell at once instead of keeping it."""
        method, *args = tell
        self._channel.append(self._channel.codec.tell(method, args))
