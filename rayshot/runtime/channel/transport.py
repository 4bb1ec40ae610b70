"""The sending end of a channel: batches in flight, acknowledgements, credit.

A message leaves at once if no call to its receiver is under way. Otherwise it waits in the outbox, and leaves with all
messages there when the call is answered. It leaves earlier only if the outbox holds much, and fewer than WINDOW calls
are under way. So messages do not wait on an idle channel, and batches grow with the load, as a call costs about the
same whatever it holds.

A batch may also leave with the answer of a call that its receiver has made: `riders` of those in flight did. Nothing is
under way then, so others do not wait for its answer; see `boarding`.

A receiver that falls behind uses up the channel's credit. Then the sender makes a call that the receiver answers when
it has caught up.
"""

import logging
import threading
import time
from abc import abstractmethod
from typing import Any, Protocol

from rayshot.errors import ActorExited, SystemDown
from rayshot.format.codec import Codec, Frame, split_frame
from rayshot.model.dead_letters import DeadLetters
from rayshot.runtime.channel.attached_references import give_up_failed, lay_out
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.credit import Unprocessed
from rayshot.runtime.channel.outbox import (
    BATCH_BYTES_MIN,
    BATCH_MESSAGES_MAX,
    BATCH_MESSAGES_MIN,
    OUTBOX_BYTES_MAX,
    OUTBOX_MESSAGES_MAX,
    Outbox,
)
from rayshot.runtime.channel.peers import Peer
from rayshot.runtime.door import door
from rayshot.runtime.wire.packets import Acks, PacketAnswer, Status, pack_packet, unpack_answer

log = logging.getLogger("rayshot")
WINDOW = 2
DUE = ((1, 1), (BATCH_MESSAGES_MIN, BATCH_BYTES_MIN))
"""How many messages or bytes are worth a call, by the number of calls under way, which is below WINDOW."""
NEVER_DUE = (OUTBOX_MESSAGES_MAX + 1, OUTBOX_BYTES_MAX + 1)
"""With so many messages or bytes, the sender must be asked to wait."""
RESEND_PAUSE_S = 0.2
RESENDS_UNSAID = 50
"""After so many failed attempts to send a batch the log has a warning, and again after as many more."""


class Sender(Protocol):
    """The process that sends. Call all methods except `lost` under its lock."""

    name: str
    incarnation: int
    codec: Codec
    lock: threading.Lock
    dead_letters: DeadLetters
    draining: bool
    """All sent messages leave now, even beyond the receivers' credit."""

    def acknowledged(self, channel: Any, last: int, batch: InFlight, answer: PacketAnswer) -> None:
        """The receiver of `channel` took the batch, and everything up to `last`."""

    def refused(self, receiver: str, answer: PacketAnswer) -> None:
        """The receiver refuses messages: it stopped or ended, or it treats this sender as dead."""

    def lost(self, receiver: str, error: Exception) -> bool:
        """A call failed. Returns whether the receiver may still live, so that the call must be made again."""

    def congested(self, channel: Any) -> None:
        """The outbox of this channel is above its limit, and this thread has sent the last message."""

    def connect(self, channel: Any) -> None:
        """Look the receiver up in the background, and call `connected`."""


class SenderChannel(Outbox):
    """An outbox, and the batches that have left it and are not acknowledged: `in_flight`, by first number.

    `riders` of them left with an answer. `acks` are answers to riders of the receiver: they leave with the next batch.
    `awaited` is the number of the last message for whose answer a handler or a loop waits or has waited.
    """

    __slots__ = ("acks", "awaited", "riders")  # see DriverChannel

    def __init__(self, sender: Sender, receiver: str) -> None:
        super().__init__(receiver, sender.codec, sender.lock)
        self.in_flight: dict[int, InFlight] = {}
        self.riders = self.awaited = 0
        self.acks: Acks = ()
        self.unprocessed = Unprocessed()
        self.ended: str | None = None
        self.peer: Peer | None = None
        self._sender = sender
        self._connecting = False
        self._awaiting_credit: Any = None

    @abstractmethod
    def renew(self, batch: InFlight) -> None:
        """Give a batch that is sent again the markers or tags that it must carry now. Call under the lock."""

    def congested(self) -> None:
        """See Outbox."""
        self._sender.congested(self)

    def undeliverable(self, messages: list[bytes], detail: str) -> None:
        """See Outbox."""
        self._sender.dead_letters.add_undeliverable(self.receiver, self._sender.name, messages, detail)

    def connected(self, peer: Peer) -> None:
        """The receiver said hello. Call under the lock."""
        assert self.lock.locked()
        self.peer = peer
        self._connecting = False

    def start_behind(self, number: int) -> None:
        """The sender was loaded from a snapshot, and had sent all up to `number` before it. Call under the lock."""
        assert self.lock.locked()
        self.transported = self.unprocessed.processed = number

    @property
    def handed(self) -> int:
        """The number of the last message that was handed to Ray: of those after it, none has arrived."""
        return self.transported

    def _may_send(self) -> bool:
        """Whether the receiver was found and takes messages. If it was not looked for yet, look for it."""
        self.gather()
        if self.down is not None:
            return False
        if self.ended is not None:
            self.make_dead_letters(self.ended, [])
            return False
        if self.peer is not None:
            return True
        if not self._connecting:
            self._connecting = True
            self._sender.connect(self)
        return False

    def _credit(self) -> int:
        """How many messages the receiver may get now. If it may get none, ask to hear when it may get some again."""
        credit = BATCH_MESSAGES_MAX if self._sender.draining else self.unprocessed.room(self.handed)
        credit = max(credit, self.urgent - self.handed)
        if credit <= 0:
            self._ask_for_credit()
            self._set_due(NEVER_DUE)
        return credit

    def _call_is_due(self) -> bool:
        """Whether the outbox holds enough for a call now, and a call may be made."""
        batches = len(self.in_flight) - self.riders
        self._set_due(DUE[batches] if batches < WINDOW else NEVER_DUE)
        self.gather()  # afterwards: a sender may have appended before it could read the new limits
        enough = len(self.pending) >= self._due_messages or self.pending_bytes >= self._due_bytes
        return enough and batches < WINDOW

    def _set_due(self, due: tuple[int, int]) -> None:
        self._due_messages, self._due_bytes = due
        self._due_plain = min(max(1, self._due_messages - len(self.pending)), BATCH_MESSAGES_MIN)

    def transmit(self, batch: InFlight) -> None:
        """Hand a batch to Ray. Call under the lock."""
        assert self.lock.locked()
        assert self.peer is not None
        try:
            packet = self._packed(batch)
            batch.ref = (
                self.peer.receive_with(packet, *lay_out(batch.slots)) if batch.slots else self.peer.receive(packet)
            )
        except Exception as error:  # noqa: BLE001 - such as no room for a large batch: numbered messages must arrive
            self._try_again(self._sender, batch, error)
        else:
            sender = self._sender
            door.when_answered(batch.ref, lambda result: self._answered(sender, batch, result))

    def _packed(self, batch: InFlight) -> bytes:
        self.asked_said = self.asked
        if self.acks:
            batch.acks, self.acks = (*batch.acks, *self.acks), ()
        return pack_packet(
            self._sender.name,
            self._sender.incarnation,
            batch.first,
            batch.count,
            batch.body,
            markers=batch.markers,
            tags=batch.tags,
            closing=batch.closing,
            asked=self.asked,
            asks=batch.count > 0 and self.awaited >= batch.first,
            acks=batch.acks,
        )

    def shut(self, error: SystemDown | ActorExited) -> None:
        """Refuse everything from now on with this error. Call under the lock."""
        assert self.lock.locked()
        self.gather()
        self.down = error
        self._due_plain = 0
        self.room.notify_all()

    def end(self, detail: str) -> None:
        """The receiver ended: unacknowledged, waiting and later messages become dead letters. Call under the lock.

        Not riders: who ends has heard the answers to its batches, so they have arrived, and only their acks have not.
        """
        assert self.lock.locked()
        self.ended = detail
        self._set_due(DUE[0])
        self.gather()
        lost = [batch for batch in self.in_flight.values() if not batch.rides_on]
        frames = [Frame(batch.first, batch.count, batch.body) for batch in lost]
        self.in_flight.clear()
        self.riders = 0
        self.make_dead_letters(detail, [message for frame in frames for message in split_frame(frame)])

    # Answers, on Ray's own thread. Each is for the sender that asked: a driver has another one in each life, and what
    # comes late from an earlier life says nothing of this one.

    def _is_past(self, sender: Sender) -> bool:
        return sender is not self._sender

    def _answered(self, sender: Sender, batch: InFlight, result: Any) -> None:
        if self._is_past(sender):
            return
        if isinstance(result, Exception):
            if batch.slots:
                threading.Thread(target=self._sift, args=(sender, batch, result), daemon=True).start()
            elif sender.lost(self.receiver, result):
                self._try_again(sender, batch, result)
            return
        self.settle_batch(sender, batch, unpack_answer(result))

    def _sift(self, sender: Sender, batch: InFlight, error: Exception) -> None:
        """Look for objects that failed or are lost: give up only these, and send the batch again without them."""
        peer = self.peer
        if peer is not None and give_up_failed(batch.slots, peer.probe):
            self._send_again(sender, batch)
        elif sender.lost(self.receiver, error):
            self._try_again(sender, batch, error)

    def settle_batch(self, sender: Sender, batch: InFlight, answer: PacketAnswer) -> None:
        """The receiver answered."""
        with self.lock:
            if not self._is_past(sender):
                self.acknowledge(batch, answer)

    def acknowledge(self, batch: InFlight, answer: PacketAnswer) -> None:
        """As `settle_batch`, in this life. Call under the lock."""
        if self.ended is not None:
            return  # its messages are dead letters by now
        if answer.status is not Status.TAKEN:
            self._sender.refused(self.receiver, answer)
            return
        if batch.count and self.in_flight.pop(batch.first, None) is None:
            return  # a rider that was sent again has arrived twice
        self.unprocessed.heard(answer.processed, self.handed, time.monotonic())
        last = min(self.in_flight, default=self.handed + 1) - 1
        self._sender.acknowledged(self, last, batch, answer)
        self.flush()

    def _try_again(self, sender: Sender, batch: InFlight, error: Exception) -> None:
        batch.losses += 1
        if batch.losses % RESENDS_UNSAID == 0:
            log.warning(
                "%s: messages %d to %d still do not reach %s after %d attempts, which go on: %s",
                *(sender.name, batch.first, batch.last, self.receiver, batch.losses, error),
            )
        timer = threading.Timer(RESEND_PAUSE_S, self._send_again, (sender, batch))
        timer.daemon = True
        timer.start()

    def _send_again(self, sender: Sender, batch: InFlight) -> None:
        with self.lock:
            if not self._is_past(sender) and (self.down is None or batch.closing):
                self.renew(batch)
                if batch.count or batch.closing or batch.markers or batch.acks or self.asked:
                    self.transmit(batch)  # without messages it may have said where this actor waits

    def _ask_for_credit(self) -> None:
        if self._awaiting_credit is None:
            assert self.peer is not None
            self._awaiting_credit = self.peer.await_credit(self._sender.name, self.unprocessed.middle)
            sender = self._sender
            door.when_answered(self._awaiting_credit, lambda result: self._credited(sender, result))

    def _credited(self, sender: Sender, result: Any) -> None:
        if self._is_past(sender):
            return
        if isinstance(result, Exception):
            if sender.lost(self.receiver, result):
                timer = threading.Timer(RESEND_PAUSE_S, self._credited, (sender, self.unprocessed.processed))
                timer.daemon = True
                timer.start()
            return
        with self.lock:
            if self._is_past(sender):
                return
            self._awaiting_credit = None
            self.unprocessed.heard(result, self.handed, time.monotonic())
            self.flush()
