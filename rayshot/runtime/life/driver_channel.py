"""The channels of a driver."""

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from rayshot.errors import SystemDown, SystemStopped
from rayshot.format.slots import OBJECT, VALUE, Slot
from rayshot.model.port import OutPort
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.transport import OutChannel, Sender
from rayshot.runtime.life.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Callable

ROOM_WAIT_S = 300.0
"""A driver's `tell` waits so many seconds for a receiver that takes nothing, then raises SystemDown."""


class DriverSender(Sender, Protocol):
    """The driver that sends."""

    calls: Calls
    starting: set[str]
    """The actors that the driver made and whose creation has not arrived."""

    def number(self, receiver: str, count: int) -> InFlight:
        """Number the next `count` messages. Call under the lock."""

    def is_in_cluster(self) -> bool:
        """Whether Ray runs in this process; if not, the driver refuses everything from now on. Call under the lock."""

    def take_mentioned(self) -> set[str]:
        """The actors in this thread's last encoded message that were still starting when it was encoded."""


class DriverChannel(OutChannel):
    """A channel from a driver: `append` waits while the outbox is above its limit; a call does not.

    The channel holds a message that mentions an actor until the creation of that actor has arrived. Otherwise the
    receiver could send the actor a message, and a cut could hold this message without the actor. `awaited` has
    (number, actors) of the held messages, in order. `fetch` makes the Ray call that waits for a call's outcome; it is
    None before the first call.
    """

    def __init__(self, port: DriverSender, receiver: str) -> None:
        super().__init__(port, receiver)
        self.awaited: deque[tuple[int, set[str]]] = deque()
        self.fetch: Callable[..., Any] | None = None
        self._port = port

    append_plain = OutPort.append_plain

    def _may_send(self) -> bool:
        """See OutChannel. No message starts Ray anew: a program that is just ending may wait for that for ever."""
        return super()._may_send() and self._port.is_in_cluster()

    def transmit(self, batch: InFlight) -> None:
        """See OutChannel. A batch that is sent again comes here by itself."""
        if self._port.is_in_cluster():
            super().transmit(batch)

    def number(self, count: int) -> InFlight:
        """See OutChannel. The batch carries the tags of all snapshots that this process has heard of until now."""
        return self._port.number(self.receiver, count)

    def renew(self, batch: InFlight) -> None:
        """See OutChannel. The batch keeps its tags."""

    def append(self, message: bytes) -> None:
        """Send an encoded message. Raises SystemDown after ROOM_WAIT_S without room."""
        mentioned = self._port.take_mentioned()
        if not mentioned and not self.full:
            super().append(message)
            return
        with self.lock:
            if not self.await_room():
                raise self.no_room()
            if self.down is None:  # while this thread waited, others sent: only now the message has its number
                self.await_actors(mentioned)
            self.put(message)

    def await_room(self) -> bool:
        """Wait at most ROOM_WAIT_S seconds for room; returns whether there is some. Call under the lock."""
        return self.room.wait_for(lambda: not self.full or self.down is not None, ROOM_WAIT_S)

    def no_room(self) -> SystemDown:
        """The error of a program that has waited in vain for room."""
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
        self.await_actors(self._port.take_mentioned())
        self.gather()
        self.pending.append(message)
        self.pending_bytes += len(message)
        gates = [] if message.__class__ is bytes else self.keep_slots(message)
        self.flush()
        return gates

    def must_be_there(self, slot: Slot) -> bool:
        """See OutChannel. Outcomes of this driver's calls too: they bring news that the receiver must hear first."""
        return slot.kind == VALUE or (slot.kind == OBJECT and self._port.calls.is_unanswered(slot.reference))

    def await_actors(self, mentioned: set[str]) -> None:
        """Hold the next message until those of these actors that are starting have started. Call under the lock."""
        if names := self._port.starting & mentioned:
            self.awaited.append((self.sent + 1, names))
            self.hold()

    @property
    def can_answer(self) -> bool:
        """Whether the receiver may have answered calls of this driver."""
        return self.peer is not None

    def started(self, name: str) -> None:
        """An actor has started: messages that mention it may leave. Call under the lock."""
        if self.awaited:
            for _, names in self.awaited:
                names.discard(name)
            self.hold()
            self.flush()
            self.room.notify_all()

    def has_arrived(self, last: int) -> bool:
        """Whether all messages up to number `last` have arrived. Call under the lock."""
        return self.handed >= last and all(batch.first > last for batch in self.in_flight.values())

    def hold(self) -> None:
        """Hold the messages that must wait, and all messages behind them. Call under the lock."""
        while self.awaited and not self.awaited[0][1]:
            self.awaited.popleft()
        self.holding.update()

    def awaiting(self) -> tuple[int, ...]:
        """See OutChannel."""
        return (self.awaited[0][0],) if self.awaited else ()
