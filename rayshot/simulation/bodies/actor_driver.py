"""The driver of a simulated world: the test, which sends into it as `driver:main`.

It keeps everything that it ever sent. After a rollback it sends everything behind the restored cut again, under the
same numbers, as the Driver's machine orders. So what a test asked for is done once, whatever crashes.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from rayshot.errors import ConfigError, StaleHandle
from rayshot.format.codec import CALL, Codec
from rayshot.model.calls import not_answered, sendable
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.handle import ActorHandle
from rayshot.model.port import OutPort, find_port
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import (
    ActorMade,
    ActorsMentioned,
    AnswerArrived,
    CallMade,
    OutcomeCame,
    SystemRolledBack,
)
from rayshot.protocol.events import BatchTaken
from rayshot.protocol.identity import DRIVER_PREFIX, Owed, SnapshotId
from rayshot.simulation.bodies.actor_process import SimulatedActor
from rayshot.simulation.bodies.future import Future
from rayshot.simulation.bodies.named_world import name_in
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.packets import Packet

NAME = f"{DRIVER_PREFIX}main"
_call_ids = itertools.count(1)
"""One counter for all worlds: so the answer to an old call, brought by a snapshot, is not taken for another one."""


class DriverSurroundings(Protocol):
    """What the driver asks of its world."""

    system: str
    running: str | None

    def transmit(self, packet: Packet) -> None:
        """Send a packet."""

    def driver_has_to_send(self, receiver: str) -> None:
        """Note that something waits to be transported."""

    def is_there(self, name: str) -> bool | None:
        """Whether the actor exists; None if there never was one of that name, False if it has ended."""

    def spawn(self, specification: ActorSpecification, name: str | None) -> str:
        """Start a process for a new actor; returns its name."""

    def created(self, name: str) -> None:
        """Note that the driver sent the constructor's call: it arrives before any message that names the actor."""

    def lose(self, letter: DeadLetter, message: bytes | None) -> None:
        """Note that a message has no effect."""

    def run_until(self, done: Any, what: str) -> None:
        """Let events happen until `done()`."""


class DriverOutPort(OutPort):
    """The sending end of one of the driver's channels."""

    __slots__ = ("_driver", "_receiver", "codec")

    def __init__(self, driver: "ActorDriver", receiver: str) -> None:
        self._driver = driver
        self.codec = driver.codec
        self._receiver = receiver

    def append(self, message: bytes) -> None:
        """Send an encoded message."""
        self._driver.send(self._receiver, message)


class _Answer(NamedTuple):
    """The answer to a call, a copy: the value, or with `ok` False the error, as a life of the system gave it."""

    call_id: int
    value: Any
    ok: bool
    incarnation: int


class _Covered(NamedTuple):
    """A durable snapshot that advances: what it has of this driver as handled, by receiver, and who has ended in it.

    The calls that are `owed` are handled and not answered.
    """

    incarnation: int
    received: Mapping[str, int]
    owed: Owed
    ended: frozenset[str]

    def holds(self, receiver: str, number: int) -> bool:
        """Whether it has an answered call as answered."""
        is_held = number <= self.received.get(receiver, 0) and number not in self.owed.get(receiver, ())
        return receiver in self.ended or is_held


class ActorDriver(SimulatedDriver):
    """See the module."""

    def __init__(
        self, world: DriverSurroundings, machine: Driver, sent: Mapping[str, int], gone: frozenset[str]
    ) -> None:
        super().__init__(NAME, machine, world.transmit)
        self.system = world.system
        self.codec = Codec(ActorHandle, self._mention, self.handle_of)
        self.world = world
        self._mentioned: set[str] = set()
        """The actors that this driver made, of those in the messages that were encoded since the last one was sent."""
        self._futures: dict[int, Future] = {}
        self._calls: dict[int, tuple[str, int]] = {}
        """Call -> its receiver, and the number of its message."""
        self._durable: dict[int, _Answer | None] = {}
        """Calls whose results wait for a durable snapshot, with their answers where these are there."""
        self._covered: list[_Covered] = []
        """Durable snapshots of a life of which the driver has not heard yet."""
        self.before = dict(sent)
        self.taken.update(sent)
        self.ended = set(gone)
        for receiver, n in sent.items():
            self.machine.handle(BatchTaken(receiver, n))

    # Port ------------------------------------------------------------------------------------------------------

    def _mention(self, handle: ActorHandle) -> str:
        name = name_in(handle, self.world)
        if name in self.creations:
            self._mentioned.add(name)
        return name

    def handle_of(self, name: str, methods: frozenset[str] | None = None) -> ActorHandle:
        """The driver's handle of the actor `name`."""
        return ActorHandle(self.system, name, methods, self)

    def is_there(self, name: str) -> bool | None:
        """See Port."""
        return self.world.is_there(name)

    def channel(self, receiver: str) -> DriverOutPort:
        """The channel to `receiver`."""
        return DriverOutPort(self, receiver)

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Future:
        """Send a call; returns a Future of its result."""
        call_id = next(_call_ids)
        future = Future(f"call {call_id} at {receiver!r}", self.world.run_until)
        self.send(receiver, self.codec.call(call_id, tell))
        self._futures[call_id] = future
        self._calls[call_id] = receiver, self.sent(receiver)
        self.tell(CallMade(receiver, call_id, self.sent(receiver)))
        if durable:
            self._durable[call_id] = None
        return future

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it its constructor's call."""
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        made = self.world.spawn(specification, name)
        self.creations.append(made)
        self.tell(ActorMade(made))
        self.send(made, message)
        self.world.created(made)
        return self.handle_of(made, frozenset(specification.methods))

    def send(self, receiver: str, message: bytes) -> None:
        """Put a message into the outbox. Raises ActorExited, and ConfigError or StaleHandle inside a handler."""
        here, world = find_port(), cast("object", self.world)
        if isinstance(here, SimulatedActor) and here.world is not world:
            raise StaleHandle(
                f"a handler of {here.name!r} used a handle of another world: channels do not cross worlds. Give the "
                "actor a handle of its own world as an argument",
                receiver=receiver,
            )
        if self.world.running is not None:
            raise ConfigError(
                f"a handler of {self.world.running!r} used a handle of the test: news would take a way that no "
                "snapshot sees. Give the actor a handle as an argument"
            )
        if receiver in self.ended:
            raise not_answered(receiver)
        mentioned, self._mentioned = frozenset(self._mentioned), set()
        if mentioned:
            self.tell(ActorsMentioned(receiver, self.sent(receiver) + 1, mentioned))
        self.write(receiver, message)
        self.world.driver_has_to_send(receiver)

    def settle(
        self, call_id: int, value: Any, tags: tuple[SnapshotId, ...], incarnation: int, *, late: bool, ok: bool
    ) -> None:
        """Take the answer to a call. The test sees it even if the driver has not heard of its life yet."""
        if call_id not in self._calls:  # it was made by a driver that lived before this world
            self.tell(AnswerArrived(tags, incarnation=incarnation))
            return
        answer = _Answer(call_id, *self._copied(value, ok=ok), incarnation)
        self.tell(OutcomeCame(self._calls[call_id][0], call_id, tags, incarnation, late))
        if call_id in self._durable:
            self._durable[call_id] = answer
        else:
            self._futures[call_id].settle(answer.value, ok=answer.ok)

    def _copied(self, value: Any, *, ok: bool) -> tuple[Any, bool]:
        if ok:
            try:
                _, (value,), _ = self.codec.decode_tell(self.codec.tell("", (value,)))
            except Exception as error:  # noqa: BLE001 - encoding runs code of the value's class; its error is the answer
                return sendable(error), False
        return value, ok

    def covered(self, incarnation: int, received: Mapping[str, int], owed: Owed, ended: frozenset[str]) -> None:
        """A durable snapshot of this life advances; see `_Covered`."""
        self._covered.append(_Covered(incarnation, received, owed, ended))
        self._give_durable()

    def _give_durable(self) -> None:
        covered = [cut for cut in self._covered if cut.incarnation <= self.machine.incarnation]
        self._covered = [cut for cut in self._covered if cut.incarnation > self.machine.incarnation]
        for cut in covered:
            for call_id, answer in tuple(self._durable.items()):
                if answer is not None and cut.holds(*self._calls[call_id]):
                    del self._durable[call_id]
                    self._futures[call_id].settle(answer.value, ok=answer.ok)

    # Transport -------------------------------------------------------------------------------------------------

    def roll_back(
        self, incarnation: int, sent: Mapping[str, int], received: Mapping[str, int], owed: Owed, gone: frozenset[str]
    ) -> None:
        """Note that the system went back to a cut with these numbers of this driver; see SystemRolledBack."""
        self.tell(SystemRolledBack(incarnation, sent, gone, received, owed))
        self.ended = set(gone)
        for call_id, answer in self._durable.items():
            if answer is not None and answer.incarnation < incarnation:
                self._durable[call_id] = None  # the call is handled again
        for receiver in self.waiting():
            self.world.driver_has_to_send(receiver)
        self._give_durable()

    def receiver_ended(self, receiver: str) -> None:
        """Note that `receiver` ended: messages that wait for it are dead letters."""
        if receiver in self.ended:
            return
        waiting = range(self.taken[receiver] + 1, self.sent(receiver) + 1)
        for number in waiting:
            letter = DeadLetter(receiver, NAME, number, "", f"actor {receiver!r} ended")
            self.world.lose(letter, self.message(receiver, number))
        super().receiver_ended(receiver)

    def lost(self, receiver: str, message: bytes) -> None:
        """Note that a message of this driver has no effect; if it is a call, its Future learns this."""
        fields = next(self.codec.unpacker(message))
        if fields[0] == CALL and fields[1] in self._futures:
            self._futures[fields[1]].settle(not_answered(receiver), ok=False)
