"""Batches that leave with an answer, instead of by a call of their own.

Who asks waits for an answer, and this is a message as any other. Sent by a call, it would cost a second call of Ray's
for each question. So the call that brings a question to an idle actor is not answered at once: it waits, until the
worker has nothing more to do and for BOARDING_S at most, for a batch that is for the asker. This batch is a *rider*. It
has its numbers and its markers as any batch.

The asker's answer to a rider is an *ack*. It leaves with the next batch to the other actor, or by a call after ACK_S.

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

BOARDING_S = 0.003
"""Other batches for the actor wait meanwhile."""
ACK_S = 0.02
RIDER_BYTES_MAX = 64 << 10
"""Ray puts larger answers into its object store, which takes longer than a call."""


class Boarding:
    """The call to an actor that waits for a rider, if there is one: one at a time. Call everything under the lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._changed = threading.Condition(lock)
        self._channel: RidingChannel | None = None

    def takes(self, channel: "RidingChannel") -> bool:
        """Whether a call waits for what is in the outbox of `channel`; then it stays there."""
        if self._channel is not channel or not channel.fits_rider:
            return False
        self._changed.notify()
        return True

    def await_batch(self, channel: "RidingChannel") -> None:
        """The receiver of `channel` has just asked: wait for what is for it."""
        assert self._lock.locked()
        self._channel = channel
        until = time.monotonic() + BOARDING_S
        while self._channel is not None and not channel.fits_rider and (left := until - time.monotonic()) > 0:
            self._changed.wait(left)
        self._channel = None

    def close(self) -> None:
        """The worker does nothing now that would bring a rider."""
        assert self._lock.locked()
        if self._channel is not None:
            self._channel = None
            self._changed.notify()


class RidingSender(Sender, Protocol):
    """The process of an actor. `take` takes a rider, under the lock, and returns the ack of it."""

    boarding: Boarding
    take: Callable[[bytes], tuple[int, PacketAnswer]]


class RidingChannel(SenderChannel):
    """A channel between two actors, whose batches may leave with answers. Call everything under the lock."""

    __slots__ = ("_acks_due", "_riding")  # see DriverChannel

    def __init__(self, sender: RidingSender, receiver: str) -> None:
        super().__init__(sender, receiver)
        self._riding = sender
        self._acks_due = False

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
            self.acks = (*self.acks, self._riding.take(answer.rider))
            if not self._acks_due:
                self._acks_due = True
                timer = threading.Timer(ACK_S, self._send_acks)
                timer.daemon = True
                timer.start()

    def _send_acks(self) -> None:
        with self.lock:
            self._acks_due = False
            if self.acks:
                self.send_empty()
