"""Batches that leave with an answer, instead of by a call of their own.

Who asks waits for an answer, and this is a message as any other. Sent by a call, it would cost a second call of Ray's
for each question. So the call that brings a question to an idle actor is not answered at once: it waits, until the
worker has nothing more to do and for BOARDING_S at most, for a batch that is for the asker. This batch is a *rider*. It
has its numbers and its markers as any batch.

The asker's answer to a rider is an *ack*. It leaves with the next batch to the other actor, or by a call after ACK_S.
One thread of the process makes such calls for as long as it lives: to start one for each is dearer than what is saved.

What if something is lost? If the answer with the rider is lost, so is the call: the asker sends its batch again, as
every batch. Who gets a batch again with whose answer a rider left sends the rider again, by a call. So a rider goes
only with the answer to a batch that has not been here before. If the asker got the rider all the same, it drops what
comes twice. An ack belongs to the batch that it leaves with, and is sent again with it.
"""

import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.transport import Sender, SenderChannel
from rayshot.runtime.wire.packets import Acks, PacketAnswer

BOARDING_S = 0.005
"""Other batches for the actor wait meanwhile."""
OTHERS_S, QUICK_S = 0.02, 0.001
"""If another actor has asked so many seconds ago at most, answers ride only where they take no longer than QUICK_S: the
questions of others wait meanwhile, and then the worker waits for them."""
SLOWER, FORGOTTEN = 0.1, 0.01
"""How much an answer that takes longer than those before says about the next ones, as a busy machine can delay each.
And how much is forgotten with each question for whose answer no call waits: some time one does again, and shows it."""
ACK_S = 0.02
RIDER_BYTES_MAX = 64 << 10
"""Ray puts larger answers into its object store, which takes longer than a call."""


class Boarding:
    """The call to an actor that waits for a rider, if there is one: one at a time; and the acks that wait.

    Call everything under the lock.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._changed = threading.Condition(lock)
        self._channel: RidingChannel | None = None
        self._asker: RidingChannel | None = None
        """Who has asked last."""
        self._asker_since = 0.0
        """Since when it is always the same one."""
        self._takes_s = 0.0
        """How long answers take that are not delayed."""
        self._owing: dict[RidingChannel, float] = {}
        """Channels with acks, and when to look whether they have left."""
        self._owes = threading.Condition(lock)
        self._is_resting = self._is_over = False
        self._thread: threading.Thread | None = None

    def takes(self, channel: "RidingChannel") -> bool:
        """Whether a call waits for what is in the outbox of `channel`; then it stays there."""
        if self._channel is not channel or not channel.fits_rider:
            return False
        self._changed.notify()
        return True

    def pays(self, channel: "RidingChannel") -> bool:
        """The receiver of `channel` has just asked. Whether its call may wait for what is for it."""
        assert self._lock.locked()
        now = time.monotonic()
        if channel is not self._asker:
            self._asker, self._asker_since = channel, now
        if now >= self._asker_since + OTHERS_S or self._takes_s < QUICK_S:
            return True
        self._takes_s *= 1 - FORGOTTEN
        return False

    def await_batch(self, channel: "RidingChannel") -> None:
        """The receiver of `channel` has just asked: wait for what is for it."""
        assert self._lock.locked()
        self._channel = channel
        began = now = time.monotonic()
        while self._channel is not None and not channel.fits_rider and (left := began + BOARDING_S - now) > 0:
            self._changed.wait(left)
            now = time.monotonic()
        longer_s = now - began - self._takes_s
        self._takes_s += longer_s * (SLOWER if longer_s > 0 else 1)
        self._channel = None

    def close(self) -> None:
        """The worker does nothing now that would bring a rider."""
        assert self._lock.locked()
        if self._channel is not None:
            self._channel = None
            self._changed.notify()

    def owe(self, channel: "RidingChannel") -> None:
        """There are acks in `channel`: if nothing else takes them along, they leave by themselves."""
        assert self._lock.locked()
        self._owing.setdefault(channel, channel.acks_due)
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_late, name="rayshot-acks", daemon=True)
            self._thread.start()
        elif self._is_resting:
            self._owes.notify()

    def shut(self) -> None:
        """The process sends nothing any more."""
        assert self._lock.locked()
        self._is_over = True
        self._owes.notify()

    def _send_late(self) -> None:
        with self._lock:
            while not self._is_over:
                self._is_resting = not self._owing
                now = time.monotonic()
                self._owes.wait(None if self._is_resting else max(0.0, min(self._owing.values()) - now))
                for channel in [channel for channel, due in self._owing.items() if due <= time.monotonic()]:
                    del self._owing[channel]
                    self._send_if_late(channel)

    def _send_if_late(self, channel: "RidingChannel") -> None:
        if channel.acks and channel.acks_due > time.monotonic():  # the earlier ones have left
            self._owing[channel] = channel.acks_due
        elif channel.acks:
            channel.send_empty()


class RidingSender(Sender, Protocol):
    """The process of an actor. `take` takes a rider, under the lock, and returns the ack of it."""

    boarding: Boarding
    take: Callable[[bytes], tuple[int, PacketAnswer]]


class RidingChannel(SenderChannel):
    """A channel between two actors, whose batches may leave with answers. Call everything under the lock.

    `acks_due` says when the first of `acks` leaves by itself.
    """

    __slots__ = ("_riding", "acks_due")  # see DriverChannel

    def __init__(self, sender: RidingSender, receiver: str) -> None:
        super().__init__(sender, receiver)
        self._riding = sender
        self.acks_due = 0.0

    @abstractmethod
    def taken(self, count: int) -> InFlight:
        """The next messages leave now, with the markers that are due."""

    @abstractmethod
    def send_empty(self) -> None:
        """Send a batch without messages: news must leave, and nothing else does."""

    @property
    def fits_rider(self) -> bool:
        """Whether messages may leave with an answer."""
        return bool(self.pending) and self.held_at != 0 and not self.slots and self.pending_bytes <= RIDER_BYTES_MAX

    def rider(self, rides_on: int) -> bytes:
        """What leaves with the answer to the batch of the receiver that begins with `rides_on`; b"" if nothing does."""
        self._riding.boarding.await_batch(self)
        packet = b""
        if self._may_send() and self.fits_rider and (credit := self._credit()) > 0:
            batch = self.taken(self.batch_size(credit))
            batch.rides_on = rides_on
            self.riders += 1
            packet = self._packed(batch)
        self.flush()
        return packet

    def heard(self, acks: Acks, first: int) -> None:
        """The receiver has sent these acks, with a batch that begins with `first`."""
        for rider, answer in acks:
            if (batch := self.in_flight.get(rider)) is not None:
                if not batch.rides_on:
                    batch.markers = ()  # it was sent again, and may have had others as a rider
                self._rides_no_more(batch)
                self.acknowledge(batch, answer)
        for batch in [batch for batch in self.in_flight.values() if batch.rides_on == first] if self.riders else ():
            self._rides_no_more(batch)
            self.renew(batch)
            self.transmit(batch)

    def _rides_no_more(self, batch: InFlight) -> None:
        """It has arrived, or leaves by a call now."""
        self.riders -= batch.rides_on > 0
        batch.rides_on = 0

    def acknowledge(self, batch: InFlight, answer: PacketAnswer) -> None:
        """See SenderChannel. A rider arrives as a packet that came by a call."""
        super().acknowledge(batch, answer)
        if answer.rider:
            if not self.acks:
                self.acks_due = time.monotonic() + ACK_S
            self.acks = (*self.acks, self._riding.take(answer.rider))
            self._riding.boarding.owe(self)
