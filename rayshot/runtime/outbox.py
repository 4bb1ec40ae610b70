"""The sending half of the transport: outboxes, batches in flight, acknowledgements, credit.

A message goes out at once while no call to its receiver is under way, else it waits in the outbox and leaves with all
that gathered there when the call is answered; before that only if it is much, WINDOW calls at a time. So nothing waits
on an idle channel, and batches grow with the load, as a call costs about the same whatever it holds.

A receiver that falls behind uses up the channel's credit; then a call that answers when it caught up is left with it.

One lock covers everything here and the protocol's machine: the host's or driver's own.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rayshot.errors import ActorExited, SystemDown
from rayshot.format.codec import Codec, Frame, cut_frame, split_frame
from rayshot.format.slots import FAILED, VALUE, Slot, SlottedMessage
from rayshot.model.port import OutPort
from rayshot.model.reply import OpenCall
from rayshot.runtime.beside import Slots, dump_error, give_up_failed, lay_out, size_of, values_size
from rayshot.runtime.credit import Credit
from rayshot.runtime.holding import Holding
from rayshot.runtime.sender import InFlight, Peer, Sender, encode_tells
from rayshot.runtime.tracing import AtOnce
from rayshot.runtime.wire import Answer, Status, unpack_answer

log = logging.getLogger("rayshot")
WINDOW = 2
BATCH_MESSAGES_MIN = 512
BATCH_BYTES_MIN = 128 << 10
"""While a call is under way a second one leaves only with so much."""
BATCH_MESSAGES_MAX = 4096
BATCH_BYTES_MAX = 1 << 20
CREDIT_BYTES = 64 << 20
"""A receiver may have unprocessed messages of so many bytes of one sender, and one batch more; see also credit.py."""
OUTBOX_MESSAGES_MAX = 65_536
OUTBOX_BYTES_MAX = 128 << 20
"""Above these the sender is asked to wait."""
DUE = ((1, 1), (BATCH_MESSAGES_MIN, BATCH_BYTES_MIN))
"""So many messages, or bytes, make a call worth while when so many calls are under way: fewer than WINDOW."""
NEVER_DUE = (OUTBOX_MESSAGES_MAX + 1, OUTBOX_BYTES_MAX + 1)
"""Then the sender has to be asked to wait."""
RESEND_PAUSE_S = 0.2
RESENDS_UNSAID = 50
"""After so many attempts in vain the log says so, and again after as many more."""


class OutChannel(OutPort):
    """The sending end of one channel.

    `pending` are the messages numbered transported+1 .. sent, each encoded, or an OpenCall; from the index `held_at` on
    they may not leave yet, see `holding`. `slots` are those of pending ones. `_plain` are tells that follow them, as
    lists: `gather` encodes them, many at once, before anything looks at the outbox; `_past_plain` may get one more from
    a thread that was there when tracing began. `in_flight` are the batches that were not answered, by first number,
    `kept` those that were and that a record may still need. With `_due_messages` or `_due_bytes` pending, or
    `_due_plain` tells in `_plain`, there is something to do: `flush` sets these, and is called whenever a batch is
    answered. `trace`, where there is one, hears to whom each message goes, in one step with its
    number.
    """

    delivers_unready = False
    """Whether messages leave although objects that they need are not ready."""

    def __init__(self, sender: Sender, receiver: str, lock: threading.Lock) -> None:
        self.receiver = receiver
        self.codec = sender.codec
        self.pending: list[bytes | OpenCall] = []
        self._plain: list[list[Any]] = []
        self._past_plain: list[list[Any]] = []
        self.pending_bytes = 0
        self.transported = 0
        self.processed = 0
        self.held_at: int | None = None
        self.holding = Holding(self, lock)
        self.slots: Slots = {}
        self.in_flight: dict[int, InFlight] = {}
        self.kept: dict[int, InFlight] = {}
        self.kept_bytes = 0
        self.room = threading.Condition(lock)
        self.down: SystemDown | ActorExited | None = None
        self.ended: str | None = None
        self.trace: Callable[[str], None] | None = None
        self._sender = sender
        self._lock = lock
        self.peer: Peer | None = None
        self._connecting = False
        self._due_messages = self._due_bytes = self._due_plain = 1
        self._credit = Credit()
        self._awaiting_credit: Any = None
        self._closing: InFlight | None = None
        self._unprocessed: deque[tuple[int, int]] = deque()
        self._unprocessed_bytes = 0

    @property
    def sent(self) -> int:
        """The number of the last message sent. Call under the lock."""
        self.gather()
        return self.transported + len(self.pending)

    @property
    def unreleased_bytes(self) -> int:
        """Bytes of the messages that a record would hold: those waiting, under way, and kept for records."""
        self.gather()
        under_way = sum(batch.size for batch in self.in_flight.values())
        return self.pending_bytes + self.kept_bytes + under_way

    @property
    def full(self) -> bool:
        """Whether the outbox is above its limit."""
        return len(self.pending) > OUTBOX_MESSAGES_MAX or self.pending_bytes > OUTBOX_BYTES_MAX

    def append(self, message: bytes) -> None:
        """Send an encoded message: it gets the channel's next number."""
        with self._lock:
            if self.down is not None:
                raise self.down.with_traceback(None)
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

    def append_plain(self, method: str, args: tuple[Any, ...]) -> None:
        """See OutPort. Takes no lock as long as nothing is due: appending to a list is one step.

        A thread that makes messages due writes that first and looks at `_plain` then, this one does it the other way
        round: one of the two sees the other.
        """
        plain = self._plain
        plain.append([method, *args])
        if len(plain) >= self._due_plain:
            with self._lock:
                if self.down is not None:
                    plain.clear()
                    raise self.down.with_traceback(None)
                self._work_off()

    def gather(self) -> None:
        """Encode what was sent plain. Call under the lock."""
        for plain in (self._past_plain, self._plain):
            if count := len(plain):
                messages = encode_tells(self.codec, plain[:count], partial(self._sender.undeliverable, self))
                del plain[:count]
                self.pending += messages
                self.pending_bytes += sum(map(len, messages))

    def trace_sends(self, hear: Callable[[str], None] | None) -> None:
        """Let `hear` hear of each message from now on, or with None nobody. Call under the lock."""
        self.gather()
        if self.trace is None:
            self._past_plain = self._plain  # a thread may be about to append there, once
        self.trace = hear
        self._plain = [] if hear is None else AtOnce(self)

    def keep_slots(self, message: bytes) -> list[Any]:
        """The last message has slots. Returns the arguments that it waits for. Call under the lock."""
        assert isinstance(message, SlottedMessage)
        number = self.transported + len(self.pending)
        self.slots[number] = message.slots
        self.pending_bytes += size_of({number: message.slots})
        wanted = [slot.reference for slot in message.slots if self.must_be_there(slot)]
        waiting = self.holding.until_ready(number, wanted) if wanted else []
        arguments = {slot.reference for slot in message.slots if slot.kind == VALUE}
        return [reference for reference in waiting if reference in arguments]

    def must_be_there(self, slot: Slot) -> bool:
        """Whether the object of a slot must be there before the message may leave."""
        return slot.kind == VALUE

    def _work_off(self) -> None:
        self.flush()
        if self.full:
            self._sender.congested(self)

    def released(self) -> None:
        """What was held may leave. Call under the lock."""
        self.flush()
        self.room.notify_all()

    @property
    def last_leaving(self) -> int:
        """As `sent`, without what waits for objects that are not ready."""
        unready = self.holding.first_unready()
        return self.sent if unready is None else unready[0] - 1

    def message_at(self, number: int) -> bytes:
        """A message that has not left."""
        message = self.pending[number - self.transported - 1]
        return message.tell if isinstance(message, OpenCall) else message

    def awaiting(self) -> tuple[int, ...]:
        """Numbers of messages that must wait for what only a channel of this kind knows."""
        return ()

    def append_open(self, call: OpenCall) -> None:
        """Send a call of which it will be known at the handler's end whether a reply is wanted."""
        with self._lock:
            if self.down is not None:
                raise self.down.with_traceback(None)
            self.gather()
            self.pending.append(call)
            self.pending_bytes += len(call.tell)
            if call.tell.__class__ is not bytes:
                self.keep_slots(call.tell)
            self.holding.until_settled(self.transported + len(self.pending))
            if self.trace is not None:
                self.trace(self.receiver)

    def settle(self, codec: Codec) -> None:
        """The handler ended: each open call becomes a call, or a tell where nobody wants the reply."""
        with self._lock:
            first_open = self.holding.settle()
            if first_open is None:
                return
            for index in range(first_open - self.transported - 1, len(self.pending)):
                call = self.pending[index]
                if isinstance(call, OpenCall):
                    message = call.tell if call.call_id is None else codec.call(call.call_id, call.tell)
                    self.pending[index] = message
                    self.pending_bytes += len(message) - len(call.tell)
            self.flush()

    def connected(self, peer: Peer) -> None:
        """The receiver said hello. Call under the lock."""
        self.peer = peer
        self._connecting = False

    def close(self, batch: InFlight) -> None:
        """Say with a last batch that nothing will follow. Call under the lock."""
        self._closing = batch
        self.flush()

    def send_markers(self, batch: InFlight) -> None:
        """Send a batch without messages at once: markers need neither credit nor room. Call under the lock."""
        if self.down is None and self.ended is None and self.peer is not None:
            self.transmit(batch)

    def flush(self) -> None:
        """Transport what may be transported. Call under the lock."""
        self.gather()
        if self._closing is not None and self.peer is not None:
            batch, self._closing = self._closing, None
            self.transmit(batch)
        if self.down is not None:
            return
        if self.ended is not None:
            self._bury(self.ended)
            return
        if self.peer is None:
            if not self._connecting:
                self._connecting = True
                self._sender.connect(self)
            return
        while self._call_is_due() and self.pending and self.held_at != 0:
            credit = self.processed + self._credit.messages - self.transported
            if self._sender.draining:
                credit = BATCH_MESSAGES_MAX
            elif credit <= 0 or self._unprocessed_bytes >= CREDIT_BYTES:
                self._ask_for_credit()
                self._set_due(NEVER_DUE)
                return
            self.transmit(self._take(self._batch_size(credit)))

    def _call_is_due(self) -> bool:
        """Whether the outbox holds what is worth a call now, and one may be made."""
        under_way = len(self.in_flight)
        self._set_due(DUE[under_way] if under_way < WINDOW else NEVER_DUE)
        self.gather()  # after it: what was appended before a sender could read what is due now
        enough = len(self.pending) >= self._due_messages or self.pending_bytes >= self._due_bytes
        return enough and under_way < WINDOW

    def _set_due(self, due: tuple[int, int]) -> None:
        self._due_messages, self._due_bytes = due
        self._due_plain = min(max(1, self._due_messages - len(self.pending)), BATCH_MESSAGES_MIN)

    def _batch_size(self, credit: int) -> int:
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
        """The first so many messages, or as many as have values of a bounded size beside them."""
        size = 0
        for number in sorted(self.slots):
            index = number - self.transported - 1
            if index >= limit:
                break
            beside = {number: self.slots[number]}
            size += size_of(beside) + values_size(beside)
            if size > BATCH_BYTES_MAX:
                return max(1, index)
        return limit

    def _take(self, count: int) -> InFlight:
        batch = self._sender.taken(self.receiver, count)
        batch.body = b"".join(self.pending[:count])  # type: ignore[arg-type]
        del self.pending[:count]
        if self.held_at is not None:
            self.held_at -= count
        if self.slots:
            batch.slots = self._take_slots(batch.last)
        self.pending_bytes -= batch.size
        self.transported += count
        self.in_flight[batch.first] = batch
        weight = batch.size + (values_size(batch.slots) if batch.slots else 0)
        self._unprocessed.append((batch.last, weight))
        self._unprocessed_bytes += weight
        if not self.full:
            self.room.notify_all()
        return batch

    def give_up_unready(self, why: Exception) -> None:
        """Send what waits for objects without them: who handles it gets this error. Call under the lock."""
        for number in self.holding.unready & self.slots.keys():
            self.slots[number] = (Slot(FAILED, content=dump_error(why)),) * len(self.slots[number])
        self.holding.forget_unready()
        self.flush()

    def _take_slots(self, last: int) -> Slots:
        return {number: self.slots.pop(number) for number in sorted(self.slots) if number <= last}

    def transmit(self, batch: InFlight) -> None:
        """Hand a batch to Ray. Call under the lock."""
        assert self.peer is not None
        try:
            packet = self._sender.packed(batch)
            batch.ref = (
                self.peer.receive_with(packet, *lay_out(batch.slots)) if batch.slots else self.peer.receive(packet)
            )
        except Exception as error:  # noqa: BLE001 - no room for a large one, say: what is numbered must arrive
            self._try_again(batch, error)
        else:
            batch.ref._on_completed(lambda result: self._answered(batch, result))  # noqa: SLF001 - as Ray's own futures

    def unreleased(self, first: int) -> list[Frame]:
        """The messages `first` .. `sent` as it was last asked for. Call under the lock, between two handlers."""
        under_way = (batch for _, batch in sorted({**self.kept, **self.in_flight}.items()))
        frames = [cut_frame(Frame(batch.first, batch.count, batch.body), first, batch.last) for batch in under_way]
        return [*frames, *self._waiting()]

    def _waiting(self) -> list[Frame]:
        """The outbox, in runs of a bounded size: a single frame of a large outbox would be over what readers take."""
        frames: list[Frame] = []
        while (start := sum(frame.count for frame in frames)) < len(self.pending):
            end, size = start, 0
            while end < len(self.pending) and (size == 0 or size < BATCH_BYTES_MAX):
                size += len(self.pending[end])  # type: ignore[arg-type]
                end += 1
            body = b"".join(self.pending[start:end])  # type: ignore[arg-type]
            frames.append(Frame(self.transported + 1 + start, end - start, body))
        return frames

    def unreleased_slots(self, first: int) -> Slots:
        """Those of the messages `first` .. `sent`. Call as `unreleased`."""
        under_way = [batch.slots for _, batch in sorted({**self.kept, **self.in_flight}.items())]
        return {
            number: slots for found in (*under_way, self.slots) for number, slots in found.items() if number >= first
        }

    def release(self, last: int) -> None:
        """No record needs the messages up to `last` any more. Call under the lock."""
        for first in [first for first, batch in self.kept.items() if batch.last <= last]:
            self.kept_bytes -= self.kept.pop(first).size

    def shut(self, error: SystemDown | ActorExited) -> None:
        """Refuse everything from now on with this error. Call under the lock."""
        self.gather()
        self.down = error
        self._due_plain = 0
        self.room.notify_all()

    def end(self, detail: str) -> None:
        """The receiver ended: what is not processed, and all that comes, is dead letters. Call under the lock."""
        self.ended = detail
        self._set_due(DUE[0])
        self.gather()
        under_way = [Frame(batch.first, batch.count, batch.body) for batch in self.in_flight.values()]
        self.in_flight.clear()
        self.kept.clear()
        self.kept_bytes = 0
        self._bury(detail, [message for frame in under_way for message in split_frame(frame)])

    def _bury(self, detail: str, under_way: Sequence[bytes] = ()) -> None:
        self.holding.forget_unready()
        count = len(self.pending) if self.held_at is None else self.held_at
        lost: list[Any] = [*under_way, *self.pending[:count]]
        del self.pending[:count]
        if self.held_at is not None:
            self.held_at = 0
        self.pending_bytes = 0
        self.transported += count
        self._take_slots(self.transported)
        self._sender.undeliverable(self, lost, detail)
        self.room.notify_all()

    # Answers, on Ray's own thread ------------------------------------------------------------------------------

    def _answered(self, batch: InFlight, result: Any) -> None:
        if isinstance(result, Exception):
            if batch.slots:
                threading.Thread(target=self._sift, args=(batch, result), daemon=True).start()
            elif self._sender.lost(self.receiver, result):
                self._try_again(batch, result)
            return
        self.settle_batch(batch, unpack_answer(result))

    def _sift(self, batch: InFlight, error: Exception) -> None:
        """It may be an object that failed or is lost: that alone is given up, and the batch sent again without it."""
        assert self.peer is not None
        if give_up_failed(batch.slots, self.peer.probe):
            self._send_again(batch)
        elif self._sender.lost(self.receiver, error):
            self._try_again(batch, error)

    def settle_batch(self, batch: InFlight, answer: Answer) -> None:
        """The receiver answered."""
        with self._lock:
            if self.ended is not None:
                return  # its messages are dead letters by now, and no record needs them
            if answer.status is not Status.TAKEN:
                self._sender.refused(self.receiver, answer)
                return
            if batch.count:
                self.in_flight.pop(batch.first, None)
            self.note_processed(answer.processed)
            last = min(self.in_flight, default=self.transported + 1) - 1
            released = self._sender.acknowledged(self.receiver, last, batch, answer)
            if batch.count and batch.last > released:
                self.kept[batch.first] = batch
                self.kept_bytes += batch.size
                self._sender.kept()
            if self.kept:
                self.release(released)
            self.flush()

    def _try_again(self, batch: InFlight, error: Exception) -> None:
        batch.losses += 1
        if batch.losses % RESENDS_UNSAID == 0:
            log.warning(
                "%s: messages %d to %d still do not reach %s after %d attempts, which go on: %s",
                *(self._sender.name, batch.first, batch.last, self.receiver, batch.losses, error),
            )
        timer = threading.Timer(RESEND_PAUSE_S, self._send_again, (batch,))
        timer.daemon = True
        timer.start()

    def _send_again(self, batch: InFlight) -> None:
        with self._lock:
            if self.down is None or batch.closing:
                self._sender.renewed(self.receiver, batch)
                if batch.count or batch.closing or batch.markers:
                    self.transmit(batch)

    def note_processed(self, number: int) -> None:
        """The receiver has processed the messages up to `number`. Call under the lock."""
        if number > self.processed:
            self._credit.heard(number - self.processed, self.transported - number, time.monotonic())
            self.processed = number
            while self._unprocessed and self._unprocessed[0][0] <= number:
                self._unprocessed_bytes -= self._unprocessed.popleft()[1]

    def _ask_for_credit(self) -> None:
        if self._awaiting_credit is None:
            assert self.peer is not None
            middle, _ = self._unprocessed[len(self._unprocessed) // 2]
            self._awaiting_credit = self.peer.await_credit(self._sender.name, middle)
            self._awaiting_credit._on_completed(self._credited)  # noqa: SLF001

    def _credited(self, result: Any) -> None:
        if isinstance(result, Exception):
            if self._sender.lost(self.receiver, result):
                timer = threading.Timer(RESEND_PAUSE_S, self._credited, (self.processed,))
                timer.daemon = True
                timer.start()
            return
        with self._lock:
            self._awaiting_credit = None
            self.note_processed(result)
            self.flush()
