"""The channels of a driver whose system goes back to its snapshots by itself."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from rayshot.errors import SystemDown, SystemRecovering, SystemStopped
from rayshot.format.codec import Frame, split_frame
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import DriverEffect
from rayshot.protocol.events import BatchTaken
from rayshot.runtime.channel import kept
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.beside import values_size
from rayshot.runtime.channel.credit import Unprocessed
from rayshot.runtime.channel.kept import Budget, Kept
from rayshot.runtime.channel.outbox import OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX
from rayshot.runtime.channel.transport import DUE, WINDOW
from rayshot.runtime.life.driver_channel import ROOM_WAIT_S, DriverChannel, DriverSender


class KeepingSender(DriverSender, Protocol):
    """The driver that sends, in one life of the system."""

    machine: Driver
    budget: Budget
    goes_back: bool
    """Whether the driver has heard that the life is over, and not yet of the next one."""

    def heed(self) -> None:
        """Tell the machine of answers that the user's code may have seen already. Call under the lock."""

    def carry_out(self, effects: Iterable[DriverEffect]) -> None:
        """Do what the machine orders. Call under the lock."""

    def recovering(self, detail: str) -> SystemRecovering:
        """The error of those who cannot wait for the next life."""

    def let_go(self) -> None:
        """If the driver may keep no more, let go of what has arrived, if snapshots fail. Call under the lock."""

    def call_again(self, channel: "KeepingChannel") -> None:
        """Ask the receiver for outcomes that it must give again in this life. Call under the lock."""


class KeepingChannel(DriverChannel):
    """A channel that keeps its messages until a durable snapshot holds them, and sends them again in a later life.

    Messages up to `transported` are numbered and kept. Those up to `ordered` may leave in this life, as the machine
    says, and those up to `handed` have left. While some are between, no new message is numbered. `mentions` has
    (number, actors) of the messages that mention actors whose creation may have to be sent again too.
    """

    def __init__(self, port: KeepingSender, receiver: str) -> None:
        super().__init__(port, receiver)
        self.kept = Kept(port.budget)
        self.ordered = 0
        self.mentions: deque[tuple[int, frozenset[str]]] = deque()
        self._handed = 0
        self._went_back = False
        self._keeper = port
        self._budget = port.budget

    @property
    def handed(self) -> int:
        """See OutChannel."""
        return self._handed

    @property
    def full(self) -> bool:
        """See Outbox. The driver must not keep more either. Each message asks for this, so it calls nothing."""
        return (
            self.pending_bytes > OUTBOX_BYTES_MAX
            or len(self.pending) > OUTBOX_MESSAGES_MAX
            or self._budget.used > kept.KEPT_BYTES_MAX
        )

    @property
    def can_answer(self) -> bool:
        """See DriverChannel. What the restored snapshot holds of this channel may be answered at any time."""
        return self._went_back or super().can_answer

    def no_room(self) -> SystemDown:
        """See DriverChannel."""
        if self._keeper.goes_back:
            return self._keeper.recovering(f"there were no news for {ROOM_WAIT_S:g} s. This message was not sent")
        if not self._budget.is_spent:
            return super().no_room()
        return SystemStopped(
            f"no durable snapshot holds what this program told: it keeps {kept.KEPT_BYTES_MAX >> 20:,} MiB for the "
            f"case that the system goes back to a snapshot, and this was so for {ROOM_WAIT_S:g} s. Take snapshots more "
            "often: see interval_s of rayshot.SnapshotConfig, and system.status(). This message was not sent",
            actor=self.receiver,
        )

    def await_room(self) -> bool:
        """See DriverChannel."""
        self._keeper.let_go()
        return super().await_room()

    def await_actors(self, mentioned: set[str]) -> None:
        """See DriverChannel."""
        if mentioned:
            self.mentions.append((self.sent + 1, frozenset(mentioned)))
        super().await_actors(mentioned)

    def started(self, name: str) -> None:
        """See DriverChannel. Messages that are sent again may leave too."""
        super().started(name)
        if self._handed < self.ordered:
            self.flush()

    # Leaving -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """See Outbox."""
        if not self._may_send():
            return
        self.send_ordered()
        while self._call_is_due() and self._may_number() and (credit := self._credit()) > 0:
            self._keeper.heed()
            if self._may_number():  # an answer of a later life may have come
                self._number(self.batch_size(credit))
                self.send_ordered()

    def press_on(self) -> None:
        """Send what may leave in this life, and number nothing. Call under the lock."""
        if self._may_send():
            self.send_ordered()

    def go_on(self) -> None:
        """A later life has begun: send what it needs, if there is anything. Call under the lock."""
        if self.pending or self._handed < self.ordered or self.receiver in self._keeper.machine.due:
            self.flush()

    def _may_number(self) -> bool:
        if self._keeper.goes_back or not self._keeper.machine.may_number:
            return False
        return bool(self.pending) and self.held_at != 0 and self._handed == self.transported

    def _number(self, count: int) -> None:
        first = self.transported + 1
        effects = self._keeper.machine.handle(BatchTaken(self.receiver, count))
        body, slots = self.take(count)
        self.kept.add(Frame(first, count, body), slots)
        self._keeper.carry_out(effects)
        self._keeper.let_go()

    def send_ordered(self) -> None:
        """Send the next messages of those that may leave. Call under the lock, if the receiver was found."""
        while self._handed < self.ordered and len(self.in_flight) < WINDOW and not self._keeper.goes_back:
            last = min(self.ordered, self._last_free())
            if last <= self._handed or (credit := self._credit()) <= 0:
                break
            frame, slots = self.kept.piece(self._handed + 1, min(last, self._handed + credit))
            batch = InFlight(frame.first, frame.count, bytes(frame.body), (), self._keeper.machine.tags)
            batch.slots = slots
            self._handed = batch.last
            self.in_flight[batch.first] = batch
            self.unprocessed.add(batch.last, batch.size + (values_size(slots) if slots else 0))
            self.transmit(batch)
        self._keeper.call_again(self)

    def _last_free(self) -> int:
        """The last message before the first one that mentions an actor whose creation has not arrived in this life."""
        starting = self._keeper.starting
        if starting:
            for number, names in self.mentions:
                if number > self._handed and not names.isdisjoint(starting):
                    return number - 1
        return self.ordered

    # What is kept ------------------------------------------------------------------------------------------------

    def release(self, last: int) -> None:
        """A durable snapshot holds the messages up to `last`. Call under the lock."""
        self.kept.release(last)
        while self.mentions and self.mentions[0][0] <= last:
            self.mentions.popleft()

    def discard(self) -> None:
        """The receiver has ended in a durable snapshot, so nothing of this is needed again. Call under the lock."""
        self.kept.clear()
        self.mentions.clear()
        self.pending.clear()
        self.slots.clear()
        self.pending_bytes = 0

    def end(self, detail: str) -> None:
        """See OutChannel. Everything is kept all the same: the receiver lives again if the system goes back."""
        assert self.lock.locked()
        self.gather()
        self.ended = detail
        frames = [Frame(batch.first, batch.count, batch.body) for batch in self.in_flight.values()]
        self.in_flight.clear()
        messages = [message for frame in frames for message in split_frame(frame)]
        self.undeliverable([*messages, *map(self.message_at, range(self.transported + 1, self.sent + 1))], detail)

    def go_back(self, port: KeepingSender, arrived: int) -> None:
        """Go on in a later life, where the receiver has the messages up to number `arrived`. Call under the lock.

        What comes late from the life before is for another sender, see OutChannel.
        """
        assert self.lock.locked()
        self.gather()
        self._sender = self._port = self._keeper = port
        self._went_back = True
        self.peer = self.fetch = self.down = self.ended = self._awaiting_credit = None
        self._connecting = False
        self.in_flight.clear()
        self.unprocessed = Unprocessed()
        self._handed = self.ordered = self.unprocessed.processed = arrived
        self.awaited.clear()
        for number, names in self.mentions:
            if number > self.transported and (awaited := set(names & port.starting)):
                self.awaited.append((number, awaited))
        self.hold()
        self._set_due(DUE[0])
        self.room.notify_all()
