"""The channels of a driver."""

from typing import TYPE_CHECKING, Any, Protocol

from rayshot.errors import SystemDown, SystemRecovering, SystemStopped
from rayshot.format.codec import Frame, split_frame
from rayshot.format.slots import OBJECT, VALUE, Slot
from rayshot.model.port import OutPort
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import ActorsMentioned, DriverEffect, SendTagged
from rayshot.protocol.events import BatchTaken
from rayshot.runtime.channel import retained
from rayshot.runtime.channel.attached_references import values_size
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.credit import Unprocessed
from rayshot.runtime.channel.outbox import OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX
from rayshot.runtime.channel.retained import Budget, Retained
from rayshot.runtime.channel.transport import DUE, WINDOW, Sender, SenderChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOM_WAIT_S = 300.0
"""A driver's `tell` waits so many seconds for a receiver that takes nothing, then raises SystemDown."""


class DriverSender(Sender, Protocol):
    """The driver that sends, in one life of the system."""

    rolls_back: bool
    """Whether the driver has heard that the life is over, and not yet of the next one."""

    def evict(self) -> None:
        """If the driver may keep no more, evict what has arrived, if snapshots fail. Call under the lock."""

    def call_again(self, channel: "DriverChannel") -> None:
        """Ask the receiver for outcomes that it must give again in this life. Call under the lock."""

    def watch(self, name: str) -> None:
        """Learn when an actor ends to which nothing may be sent any more."""


class Session(Protocol):
    """The driver through all lives."""

    machine: Driver
    budget: Budget

    def is_in_cluster(self) -> bool:
        """Whether Ray runs in this process; if not, the driver refuses everything from now on. Call under the lock."""

    def take_mentioned(self) -> set[str]:
        """The actors in this thread's last encoded message that may still be starting when it arrives."""

    def take_news(self) -> None:
        """Tell the machine of answers that the user's code may have seen already. Call under the lock."""

    def carry_out(self, effects: "Iterable[DriverEffect]") -> None:
        """Do what the machine orders. Call under the lock."""

    def is_unanswered(self, reference: Any) -> bool:
        """Whether it is the outcome of a call of this driver that is not answered yet. Call under the lock."""

    def recovering(self, detail: str) -> SystemRecovering:
        """The error of those who cannot wait for the next life."""


class DriverChannel(SenderChannel):
    """A channel from a driver: `append` waits while the outbox is above its limit; a call does not.

    Messages up to `transported` are numbered, and kept until the machine releases them: where the system goes back to
    snapshots by itself when a durable one holds them, otherwise when they have arrived. Those up to `ordered` may leave
    in this life, as the machine says, and those up to `handed` have left. While some are between, no new message is
    numbered. `fetch` makes the Ray call that waits for a call's outcome; it is None before the first call. `calls_max`
    is how many calls may wait for outcomes at once; None: any number.
    """

    # With more than 30 attributes in its dict, Python looks each of them up slowly.
    __slots__ = (
        "_budget", "_handed", "_life", "_session", "_went_back", "calls_max", "fetch", "kept", "ordered",
    )  # fmt: skip

    def __init__(self, session: Session, life: DriverSender, receiver: str) -> None:
        super().__init__(life, receiver)
        self.fetch: Callable[..., Any] | None = None
        self.calls_max: int | None = None
        self.retained = Retained(session.budget)
        self.ordered = 0
        self._handed = 0
        self._went_back = False
        self._life, self._session = life, session
        self._budget = session.budget

    append_plain = OutPort.append_plain

    @property
    def handed(self) -> int:
        """See SenderChannel."""
        return self._handed

    @property
    def full(self) -> bool:
        """See Outbox. The driver must not keep more either. Each message asks for this, so it calls nothing."""
        return self.pending_bytes > OUTBOX_BYTES_MAX or len(self.pending) > OUTBOX_MESSAGES_MAX or self._budget.is_spent

    def _may_send(self) -> bool:
        """See SenderChannel. No message starts Ray anew: a program that is just ending may wait for that for ever."""
        return super()._may_send() and self._session.is_in_cluster()

    def transmit(self, batch: InFlight) -> None:
        """See SenderChannel. A batch that is sent again comes here by itself."""
        if self._session.is_in_cluster():
            super().transmit(batch)

    def renew(self, batch: InFlight) -> None:
        """See SenderChannel. The batch keeps its tags."""

    def append(self, message: bytes) -> None:
        """Send an encoded message. Raises SystemDown after ROOM_WAIT_S without room."""
        mentioned = self._session.take_mentioned()
        with self.lock:
            if mentioned or self.full:
                if not self.await_room():
                    raise self.no_room()
                if self.down is None:  # while this thread waited, others sent: only now the message has its number
                    self._mention(mentioned)
            self.put(message)

    def end_receiver(self) -> None:
        """See OutPort. Perhaps nothing else shows this driver that the receiver has ended."""
        super().end_receiver()
        self._life.watch(self.receiver)

    def await_room(self) -> bool:
        """Wait at most ROOM_WAIT_S seconds for room; returns whether there is some. Call under the lock."""
        self._life.evict()
        return self.room.wait_for(lambda: not self.full or self.down is not None, ROOM_WAIT_S)

    def no_room(self) -> SystemDown:
        """The error of a program that has waited in vain for room."""
        if self._life.rolls_back:
            return self._session.recovering(f"there were no news for {ROOM_WAIT_S:g} s. This message was not sent")
        if self._budget.is_spent:
            return SystemStopped(
                f"no durable snapshot holds what this program told: it keeps {retained.RETAINED_BYTES_MAX >> 20:,} MiB"
                f", as the system may go back to a snapshot, and they were full for {ROOM_WAIT_S:g} s. Take snapshots "
                "more often: see interval_s of rayshot.SnapshotConfig, and system.status(). This message was not sent",
                actor=self.receiver,
            )
        return SystemStopped(
            f"actor {self.receiver!r} has taken none of {len(self.pending):,} waiting messages for {ROOM_WAIT_S:g} s: "
            "does a handler of it hang? See system.status(). This message was not sent",
            actor=self.receiver,
        )

    def put_call(self, message: bytes) -> list[Any]:
        """As `append`, but never wait for room in the outbox. Call under the lock.

        Returns the references that the call waits for in the outbox. Until they are ready, no thread of the receiver
        has to wait for this call.
        """
        self._mention(self._session.take_mentioned())
        self.gather()
        self.pending.append(message)
        self.pending_bytes += len(message)
        gates = [] if message.__class__ is bytes else self.keep_slots(message)
        self.flush()
        return gates

    def must_be_there(self, slot: Slot) -> bool:
        """See SenderChannel. Outcomes of this driver's calls too: they bring news that the receiver must hear first."""
        return slot.kind == VALUE or (slot.kind == OBJECT and self._session.is_unanswered(slot.reference))

    def _mention(self, actors: set[str]) -> None:
        """The next message mentions these actors. Call under the lock."""
        if actors:
            self._session.machine.handle(ActorsMentioned(self.receiver, self.sent + 1, frozenset(actors)))

    @property
    def can_answer(self) -> bool:
        """Whether the receiver may have answered calls of this driver.

        What a restored snapshot holds of this channel may be answered at any time.
        """
        return self._went_back or self.peer is not None

    def has_arrived(self, last: int) -> bool:
        """Whether all messages up to number `last` have arrived. Call under the lock."""
        return self.handed >= last and all(batch.first > last for batch in self.in_flight.values())

    # Leaving -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """See Outbox."""
        if not self._may_send():
            return
        self.send_ordered()
        while self._call_is_due() and self._may_number() and (credit := self._credit()) > 0:
            self._session.take_news()
            if self._may_number():  # an answer of a later life may have come
                self._number(self.batch_size(credit))
                self.send_ordered()

    def send_on(self) -> None:
        """Send what may leave in this life, and number nothing. Call under the lock."""
        if self._may_send():
            self.send_ordered()

    def go_on(self) -> None:
        """A later life has begun: send what it needs, if there is anything. Call under the lock."""
        if self.pending or self._handed < self.ordered or self.receiver in self._session.machine.due:
            self.flush()

    def _may_number(self) -> bool:
        if self._life.rolls_back or not self._session.machine.may_number:
            return False
        return bool(self.pending) and self.held_at != 0 and self._handed == self.transported

    def _number(self, count: int) -> None:
        """Number the next messages. The machine orders to send them now, or they wait for answers or for actors."""
        assert self._handed == self.ordered == self.transported, f"{self.receiver}: messages that left are behind"
        first = self.transported + 1
        orders = self._session.machine.handle(BatchTaken(self.receiver, count))
        body, slots = self.take(count)
        self.retained.add(Frame(first, count, body), slots)
        for order in orders:
            if isinstance(order, SendTagged):  # at most one, for the first of them
                self.ordered += order.count
            else:
                self._session.carry_out((order,))
        self._life.evict()

    def send_ordered(self) -> None:
        """Send the next messages of those that may leave. Call under the lock, if the receiver was found."""
        while self._handed < self.ordered and len(self.in_flight) < WINDOW and not self._life.rolls_back:
            if (credit := self._credit()) <= 0:
                break
            frame, slots = self.retained.piece(self._handed + 1, min(self.ordered, self._handed + credit))
            batch = InFlight(frame.first, frame.count, bytes(frame.body), (), self._session.machine.tags)
            batch.slots = slots
            self._handed = batch.last
            self.in_flight[batch.first] = batch
            self.unprocessed.add(batch.last, batch.size + (values_size(slots) if slots else 0))
            self.transmit(batch)
        self._life.call_again(self)

    # What is kept ------------------------------------------------------------------------------------------------

    def release(self, last: int) -> None:
        """Nobody can need the messages up to `last` again. Call under the lock."""
        assert self.lock.locked()
        assert last <= self.transported, f"{last} to {self.receiver} is released, and {self.transported} were told"
        self.retained.release(last)

    def discard(self) -> None:
        """The receiver has ended for good, so nothing of this is needed again. Call under the lock."""
        assert self.lock.locked()
        self.retained.clear()
        self.pending.clear()
        self.slots.clear()
        self.pending_bytes = 0

    def end(self, detail: str) -> None:
        """See SenderChannel. Everything is kept all the same: the receiver lives again if the system goes back."""
        assert self.lock.locked()
        self.gather()
        self.ended = detail
        frames = [Frame(batch.first, batch.count, batch.body) for batch in self.in_flight.values()]
        self.in_flight.clear()
        last = self._handed
        while last < self.transported:
            frames.append(self.retained.piece(last + 1, self.transported)[0])
            last = frames[-1].last
        messages = [message for frame in frames for message in split_frame(frame)]
        self.undeliverable([*messages, *map(self.message_at, range(self.transported + 1, self.sent + 1))], detail)

    def roll_back(self, life: DriverSender, arrived: int) -> None:
        """Go on in a later life, where the receiver has the messages up to number `arrived`. Call under the lock.

        What comes late from the life before is for another sender, see SenderChannel.
        """
        assert self.lock.locked()
        assert arrived <= self.transported, f"{self.receiver} has {arrived}, and {self.transported} were told"
        self.gather()
        self._sender = self._life = life
        self._went_back = True
        self.peer = self.fetch = self.down = self.ended = self._awaiting_credit = None
        self._connecting = False
        self.in_flight.clear()
        self.unprocessed = Unprocessed()
        self._handed = self.ordered = self.unprocessed.processed = arrived
        self._set_due(DUE[0])
        self.room.notify_all()
