"""A driver's side of a system: it sends messages and calls from outside, under the name `driver:<id>`."""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from rayshot.errors import ActorExited, SystemDown, SystemStopped
from rayshot.format.codec import Codec
from rayshot.format.slots import OBJECT, VALUE, Slot
from rayshot.model.anonymous import random_name
from rayshot.model.handle import ActorHandle
from rayshot.model.port import OutPort
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.driver import AnswerArrived, Driver, SendTagged
from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded, SnapshotEnded
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import is_there, name_taken, spawn_host
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.holding import Waiting
from rayshot.runtime.channel.outbox import waiting_in
from rayshot.runtime.channel.peers import Peers, RayPeer
from rayshot.runtime.channel.transport import OutChannel
from rayshot.runtime.life.births import Births
from rayshot.runtime.life.calls import Calls
from rayshot.runtime.life.leaving import wait_at_exit
from rayshot.runtime.life.presence import Presence
from rayshot.runtime.ray.futures import when_answered
from rayshot.runtime.ray.naming import find_coordinator, new_driver_name
from rayshot.runtime.ray.references import know_references
from rayshot.runtime.wire.dead_letters import DeadLetters
from rayshot.runtime.wire.dropping import Dropped
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Offer
from rayshot.runtime.wire.packets import Answer, Status, pack

log = logging.getLogger("rayshot")
MEET_S = 60.0
LOOK_S, LOOK_S_MAX = 0.2, 5.0
"""The first and the longest pause, in seconds, between two checks whether a system without a coordinator is over."""
ENDED_KEPT_MAX = 1000
"""A driver remembers for so many actors why they ended; for other actors it asks again."""
ROOM_WAIT_S = 300.0
"""A driver's `tell` waits so many seconds for a receiver that takes nothing, then raises SystemDown."""


class DriverChannel(OutChannel):
    """A channel from a driver: `append` waits while the outbox is above its limit; a call does not.

    The channel holds a message that mentions an actor until the creation of that actor has arrived. Otherwise the
    receiver could send the actor a message, and a cut could hold this message without the actor. `awaited` has
    (number, actors) of the held messages, in order. `fetch` makes the Ray call that waits for a call's outcome; it is
    None before the first call.
    """

    def __init__(self, port: "DriverPort", receiver: str) -> None:
        super().__init__(port, receiver)
        self.awaited: deque[tuple[int, set[str]]] = deque()
        self.fetch: Callable[..., Any] | None = None
        self._port = port

    append_plain = OutPort.append_plain

    def number(self, count: int) -> InFlight:
        """See OutChannel. The batch carries the tags of all snapshots that this process has heard of until now."""
        return self._port.number(self.receiver, count)

    def renew(self, batch: InFlight) -> None:
        """See OutChannel. The batch keeps its tags."""

    def append(self, message: bytes) -> None:
        """Send an encoded message. Raises SystemDown after ROOM_WAIT_S without room."""
        mentioned = self._port.take_mentioned()
        if mentioned or self.full:
            with self.lock:
                self.await_actors(mentioned)
                if not self.room.wait_for(lambda: not self.full or self.down is not None, ROOM_WAIT_S):
                    raise SystemStopped(
                        f"actor {self.receiver!r} has taken none of {len(self.pending):,} waiting messages "
                        f"for {ROOM_WAIT_S:g} s: does a handler of it hang? See system.status(). "
                        "This message was not sent",
                        actor=self.receiver,
                    )
        super().append(message)

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

    def has_arrived(self, last: int) -> bool:
        """Whether all messages up to number `last` have arrived. Call under the lock."""
        return self.transported >= last and all(batch.first > last for batch in self.in_flight.values())

    def hold(self) -> None:
        """Hold the messages that must wait, and all messages behind them. Call under the lock."""
        while self.awaited and not self.awaited[0][1]:
            self.awaited.popleft()
        self.holding.update()

    def awaiting(self) -> tuple[int, ...]:
        """See OutChannel."""
        return (self.awaited[0][0],) if self.awaited else ()


class DriverPort:
    """A driver's view of one life of a system. Any thread of the process may send."""

    def __init__(self, identity: HostIdentity) -> None:
        know_references()
        self.identity = identity
        self.incarnation = identity.incarnation
        self.system = identity.system
        self.name = new_driver_name()
        self.codec = Codec(ActorHandle, self._mention, self.handle_of)
        self.down: SystemDown | None = None
        self._machine = Driver(self.name, identity.incarnation, keeps=False)
        self.lock = threading.Lock()
        self._channels: dict[str, DriverChannel] = {}
        self._handles: dict[str, ActorHandle] = {}
        self._ended: dict[str, ActorExited] = {}
        self._peers = Peers(identity.system, identity.incarnation)
        self.calls = Calls(self._machine, self._is_connected)
        self.starting: set[str] = set()
        self.births = Births(self._peers)
        self._presence = Presence(self.name, identity.coordinator, self._peers.submit, self._lose_coordinator)
        self._dropped = Dropped(self._end_dropped)
        self.dead_letters = DeadLetters()
        self._encoding = threading.local()
        self.draining = False  # a driver is not part of what stops
        wait_at_exit(self)

    # Port ------------------------------------------------------------------------------------------------------

    def handle_of(self, name: str, offer: Offer | None = None) -> ActorHandle:
        """This driver's handle of the actor `name`. If `offer` is given, the handle knows the methods of its class."""
        handle = self._handles.get(name)
        if handle is None or (offer is not None and (offer.methods, offer.silent) != (handle._methods, handle._silent)):  # noqa: SLF001
            self._dropped.give_out(name)
            methods, silent = (None, frozenset[str]()) if offer is None else (offer.methods, offer.silent)
            handle = self._handles[name] = ActorHandle(self.system, name, methods, self, silent=silent)
        return handle

    def is_there(self, name: str) -> bool | None:
        """See Port."""
        return is_there(self.identity, name)

    def channel(self, receiver: str) -> DriverChannel:
        """The channel to `receiver`. If the receiver is known to have ended, the channel takes no messages."""
        with self.lock:
            channel = self._channels.get(receiver)
            if channel is None:
                channel = DriverChannel(self, receiver)
                channel.down = self.down or self._ended.get(receiver)
                if channel.down is None:
                    self._channels[receiver] = channel
            return channel

    def call(self, receiver: str, tell: bytes) -> Any:
        """Send a call and return an ObjectRef of its outcome at once, whatever the receiver does.

        If the receiver has ended, `ray.get` of the outcome raises ActorExited, as in Ray. Raises SystemDown; Ray's
        PendingCallsLimitExceeded if the actor has an option for that.
        """
        channel = self.channel(receiver)
        fetch = channel.fetch or (self._find_fetch(channel) if channel.down is None else None)
        with self.lock:
            if isinstance(channel.down, ActorExited):
                return ray.put(channel.down)
            if channel.down is not None:
                raise channel.down.with_traceback(None)
            assert fetch is not None, f"{receiver} is not there, and nobody says why"
            self.calls.check_room(receiver)
            call_id = self.calls.next_id()
            gates = channel.put_call(self.codec.call(call_id, tell))
            tags, result = fetch(pack((self.name, call_id, self.calls.first_open(receiver))), *gates)
            self.calls.made(receiver, call_id, tags)
        return result

    def _is_connected(self, receiver: str) -> bool:
        """Whether an actor is connected or gone. Before that, it cannot have answered. Call under the lock."""
        assert self.lock.locked()
        channel = self._channels.get(receiver)
        return channel is None or channel.peer is not None

    def _find_fetch(self, channel: DriverChannel) -> Callable[..., Any] | None:
        """The Ray method that returns outcomes; None if the actor does not exist, and then the channel says why."""
        handle = self._peers.find(channel.receiver)
        if handle is None:
            self._learn_why(channel.receiver)
        else:
            channel.fetch = handle.result.remote
        return channel.fetch

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it the call of its constructor."""
        if self.down is not None:
            raise self.down.with_traceback(None)
        if name in self._ended:
            raise name_taken(name, self.system)
        anonymous, name = name is None, name or random_name(specification.class_name)
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        self._peers.know(name, spawn_host(Host, self.identity, specification, name))
        self.calls.limit(name, specification.calls_max)
        with self.lock:
            self.starting.add(name)
        self.births.add(name)
        self.channel(name).append(message)
        handle = self._dropped.handle(self, name, specification, held=anonymous)
        if not anonymous:
            self._handles[name] = handle
        return handle

    def _end_dropped(self, name: str) -> None:
        if ray.is_initialized():
            with contextlib.suppress(ActorExited, SystemDown):
                OutChannel.append(self.channel(name), self.codec.end(dropped=True))  # the outbox may be full: no wait
                self._watch(name)

    def _watch(self, name: str) -> None:
        """Learn when an actor ends to which nothing is sent any more: otherwise this driver would never forget it."""
        handle = self._peers.find(name)
        if handle is not None:
            when_answered(
                handle.watch.remote(),
                lambda _: None if self.down else self._peers.submit(lambda: self._learn_why(name)),
            )

    def meet(self, name: str) -> None:
        """If the actor is just being made, wait until it is a member of the system, for at most MEET_S seconds."""
        handle = self._peers.find(name)
        if handle is not None:
            ray.wait([handle.hello.remote()], timeout=MEET_S)

    def take_mentioned(self) -> set[str]:
        """The actors in this thread's last encoded message that were still starting when it was encoded."""
        mentioned: set[str] = self._encoding.__dict__.pop("mentioned", set())
        return mentioned

    def _mention(self, handle: ActorHandle) -> str:
        handle.give_out()
        name = handle.name_in(self.system)
        if name in self.starting:
            self._encoding.__dict__.setdefault("mentioned", set()).add(name)
        return name

    def _started(self, name: str) -> None:
        """The actor `name` has started: messages that mention it may leave. Call under the lock."""
        assert self.lock.locked()
        if name in self.starting:
            self.starting.remove(name)
            self.births.started(name)
            for channel in self._channels.values():
                if channel.awaited:
                    for _, names in channel.awaited:
                        names.discard(name)
                    channel.hold()
                    channel.flush()
                    channel.room.notify_all()

    def waiting(self) -> tuple[Waiting, ...]:
        """Messages that have waited for objects for some seconds."""
        with self.lock:
            return waiting_in(self._channels.values())

    def told(self) -> dict[DriverChannel, int]:
        """All messages that were sent until now: the last number on each channel."""
        with self.lock:
            self.calls.heed()
            return {channel: channel.sent for channel in self._channels.values()}

    def await_taken(self, told: Mapping[DriverChannel, int], timeout_s: float) -> list[str]:
        """Wait until all of `told` has arrived, for at most `timeout_s` seconds; not for actors that were given up.

        Returns the receivers that it still waits for; an empty list if all has arrived. Raises SystemDown.
        """
        deadline = time.monotonic() + timeout_s
        awaited = []
        with self.lock:
            for channel, last in told.items():
                left_s = 0.0 if channel.receiver in self.births.given_up else deadline - time.monotonic()
                if not channel.room.wait_for(
                    lambda channel=channel, last=last: channel.down is not None or channel.has_arrived(last),  # type: ignore[misc]
                    max(0.0, left_s),
                ):
                    awaited.append(channel.receiver)
        if self.down is not None:
            raise self.down.with_traceback(None)
        return awaited

    def close(self, error: SystemDown) -> None:
        """The system is down: refuse everything from now on."""
        with self.lock:
            self.down = self.down or error
            for channel in self._channels.values():
                channel.shut(self.down)
        self._dropped.close()

    # Sender ----------------------------------------------------------------------------------------------------

    def number(self, receiver: str, count: int) -> InFlight:
        """Number the next `count` messages. Call under the lock."""
        assert self.lock.locked()
        self.calls.heed()
        (batch,) = self._machine.handle(BatchTaken(receiver, count))
        assert isinstance(batch, SendTagged)
        return InFlight(batch.first, batch.count, b"", (), batch.tags)

    def acknowledged(self, channel: OutChannel, last: int, _batch: InFlight, answer: Answer) -> None:
        """See Sender."""
        receiver = channel.receiver
        self._machine.handle(BatchAcknowledged(receiver, last))
        if receiver in self.starting and last > 0:  # messages that may leave now count as effects of this answer
            self._machine.handle(AnswerArrived(answer.recorded))
            self._started(receiver)
        for snapshot in answer.ended:
            self._machine.handle(SnapshotEnded(snapshot))
        channel.room.notify_all()

    def refused(self, receiver: str, answer: Answer) -> None:
        """The receiver refuses messages: the coordinator knows why, or this process counts as dead."""
        if answer.status is Status.GONE:
            self._peers.submit(lambda: self.close(SystemStopped(answer.detail, system=self.system)))
        else:
            self._peers.submit(lambda: self._learn_why(receiver))

    def lost(self, receiver: str, error: Exception) -> bool:
        """A Ray call failed. If the receiver died, ask the coordinator why. Returns whether to try again."""
        if isinstance(error, ray.exceptions.ActorDiedError):
            self._peers.submit(lambda: self._learn_why(receiver))
            return False
        return True

    def congested(self, channel: OutChannel) -> None:
        """`DriverChannel.append` waits by itself."""

    def connect(self, channel: OutChannel) -> None:
        """Find the receiver in the background."""
        self._peers.submit(lambda: self._connect(channel))

    def _connect(self, channel: OutChannel) -> None:
        receiver = channel.receiver
        handle = self._peers.find(receiver)
        if handle is None:
            self._learn_why(receiver)
            return
        try:
            offer = ray.get(handle.hello.remote())
        except ray.exceptions.RayError as error:
            log.debug("no connection to %s: %s", receiver, error)
            self._learn_why(receiver)
            return
        with self.lock:
            if offer is not None and not self._dropped.holds(receiver):
                self.handle_of(receiver)._methods = offer.methods  # noqa: SLF001 - known from now on
                self.calls.limit(receiver, offer.calls_max)
            channel.connected(RayPeer(handle))
            channel.flush()
            channel.room.notify_all()

    @property
    def has_coordinator(self) -> bool:
        """Whether this life of the system still has its coordinator: without it no actor can be made."""
        return bool(find_coordinator(self.system) == self.identity.coordinator)

    @property
    def has_later_life(self) -> bool:
        """Whether a later life of the system has begun."""
        later = find_coordinator(self.system) if ray.is_initialized() else None
        return later is not None and later != self.identity.coordinator

    def _lose_coordinator(self, detail: str) -> None:
        """The coordinator is gone for good: go on while actors answer and no later life has begun, then close."""
        pause_s = LOOK_S
        while self.down is None and ray.is_initialized():
            if self.has_later_life or not self._reaches_actors():
                self._close_without(detail)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_S_MAX)

    def _reaches_actors(self) -> bool:
        """Whether any actor that this driver sent to answers or is just slow. True if this driver sent to none."""
        with self.lock:
            names = [name for name, channel in self._channels.items() if channel.peer is not None]
        hosts = [host for host in map(self._peers.find, names) if host is not None]
        for ref in [host.receivers.remote() for host in hosts]:
            try:
                ray.get(ref, timeout=LOOK_S_MAX)
            except ray.exceptions.GetTimeoutError:
                return True
            except ray.exceptions.RayError:
                continue
            return True
        return not hosts

    def _close_without(self, detail: str) -> None:
        self.close(SystemStopped(f"the coordinator of system {self.system!r} is gone: {detail}", system=self.system))

    def _learn_why(self, receiver: str) -> None:
        """Ask the coordinator why a receiver takes no messages: the receiver has ended, or the system is down."""
        try:
            fate = ray.get(self.identity.coordinator.fate.remote(receiver, self.incarnation))
            if isinstance(fate, Ending):
                with self.lock:
                    self._end(receiver, fate)
                return
            error = fate.error()
        except ray.exceptions.RayError as lost:
            self._close_without(str(lost))
            return
        self.close(error)

    def _end(self, receiver: str, ending: Ending) -> None:
        """An actor has ended: forget all about it except the reason. Call under the lock."""
        assert self.lock.locked()
        error = self._ended[receiver] = ending.error(receiver)
        if len(self._ended) > ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]
        self._started(receiver)
        self._handles.pop(receiver, None)
        self.calls.forget(receiver)
        self._peers.forget(receiver)
        self.births.forget(receiver)
        channel = self._channels.pop(receiver, None)
        if channel is not None:
            channel.awaited.clear()
            channel.end(ending.detail)
            channel.shut(error)
        self._machine.handle(ReceiverEnded(receiver))
