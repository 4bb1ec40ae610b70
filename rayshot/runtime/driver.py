"""A driver's side of a system: sends messages and calls from outside, as `driver:<id>`."""

import contextlib
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import ray

from rayshot.errors import ActorEnded, SystemDown, SystemStopped
from rayshot.format.codec import Codec
from rayshot.model.handle import ActorHandle
from rayshot.model.port import OutPort
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.driver import AnswerArrived, Driver, SendTagged
from rayshot.protocol.events import BatchAcknowledged, BatchTaken, SnapshotEnded
from rayshot.protocol.identity import DRIVER_PREFIX, SnapshotId
from rayshot.runtime.births import Births
from rayshot.runtime.connector import Connector, RayPeer
from rayshot.runtime.dropping import Dropped
from rayshot.runtime.identity import Ending, HostIdentity
from rayshot.runtime.naming import new_name
from rayshot.runtime.outbox import InFlight, OutChannel
from rayshot.runtime.references import know_references
from rayshot.runtime.spawning import CALLS_AT_ONCE, spawn_host
from rayshot.runtime.wire import Answer, pack_packet

log = logging.getLogger("rayshot")
MEET_S = 60.0
ROOM_WAIT_S = 300.0
"""A driver's `tell` waits this long for a receiver that takes nothing, then says so."""


class DriverChannel(OutChannel):
    """A channel from a driver: `append` waits while the outbox is above its limit.

    A message that mentions an actor is held until that one's creation has arrived: else its receiver could tell such an
    actor something, and a cut hold that without the actor. `awaited` has (number, actors) of these messages, in order.
    """

    def __init__(self, port: "DriverPort", receiver: str, lock: threading.Lock) -> None:
        super().__init__(port, receiver, lock)
        self.awaited: deque[tuple[int, set[str]]] = deque()
        self._port = port

    append_plain = OutPort.append_plain

    def append(self, message: bytes) -> None:
        """Send an encoded message. Raises SystemDown after ROOM_WAIT_S without room."""
        self._port.await_mentioned(self)
        if self.full:
            with self._lock:
                if not self.room.wait_for(lambda: not self.full or self.down is not None, ROOM_WAIT_S):
                    raise SystemStopped(
                        f"actor {self.receiver!r} has taken none of {len(self.pending):,} waiting messages "
                        f"for {ROOM_WAIT_S:g} s: does a handler of it hang? See system.status(). "
                        "This message was not sent",
                        actor=self.receiver,
                    )
        super().append(message)

    def hold(self) -> None:
        """Hold what must wait, and all behind it. Call under the lock."""
        while self.awaited and not self.awaited[0][1]:
            self.awaited.popleft()
        self.held_at = self.awaited[0][0] - self.transported - 1 if self.awaited else None


class DriverPort:
    """One driver's view of one life of a system. Any thread of the process may send."""

    def __init__(self, identity: HostIdentity) -> None:
        know_references()
        self.identity = identity
        self.system = identity.system
        self.name = f"{DRIVER_PREFIX}{uuid.uuid4().hex[:8]}"
        self.codec = Codec(ActorHandle, self._mention, self.handle_of)
        self.down: SystemDown | None = None
        self._machine = Driver(self.name, identity.incarnation)
        self._lock = threading.Lock()
        self._channels: dict[str, DriverChannel] = {}
        self._handles: dict[str, ActorHandle] = {}
        self._ended: dict[str, ActorEnded] = {}
        self._connector = Connector(identity.system, identity.incarnation)
        self._next_call = 1
        self._answers: dict[str, dict[Any, tuple[SnapshotId, ...]]] = {}
        self._starting: set[str] = set()
        self.births = Births(self._connector)
        self._dropped = Dropped(self._end_dropped)
        self._encoding = threading.local()
        self.draining = False  # a driver is no part of what stops

    # Port ------------------------------------------------------------------------------------------------------

    def handle_of(self, name: str, methods: frozenset[str] | None = None) -> ActorHandle:
        """This driver's handle of the actor `name`."""
        handle = self._handles.get(name)
        if handle is None or (methods is not None and handle._methods is None):  # noqa: SLF001
            self._dropped.give_out(name)
            handle = self._handles[name] = ActorHandle(self.system, name, methods, self)
        return handle

    def channel(self, receiver: str) -> DriverChannel:
        """The channel to `receiver`. Raises ActorEnded where it is known to have ended."""
        with self._lock:
            if receiver in self._ended:
                raise self._ended[receiver].with_traceback(None)
            channel = self._channels.get(receiver)
            if channel is None:
                channel = self._channels[receiver] = DriverChannel(self, receiver, self._lock)
                channel.down = self.down
            return channel

    def call(self, receiver: str, tell: bytes) -> Any:
        """Send a call; returns an ObjectRef of its result. Everything told before goes with it."""
        channel = self.channel(receiver)
        self.await_mentioned(channel)
        with self._lock:
            peer = self._await_peer(channel)
            call_id = self._next_call
            self._next_call += 1
            self._heed_answers()
            channel.pending.append(self.codec.call(call_id, tell))
            channel.pending_bytes += len(channel.pending[-1])  # type: ignore[arg-type]
            batch = channel.take_all()
            result, tags = peer.handle.call.remote(self.packed(batch), call_id)
            batch.ref = tags
            self._answers.setdefault(receiver, {})[tags] = batch.tags
        tags._on_completed(lambda value: self._call_answered(channel, batch, value))  # noqa: SLF001
        return result

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it its constructor's call."""
        if self.down is not None:
            raise self.down.with_traceback(None)
        if name in self._ended:
            raise self._ended[name].with_traceback(None)
        anonymous, name = name is None, name or new_name(specification.class_name)
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        self._connector.know(name, spawn_host(self.identity, specification, name))
        with self._lock:
            self._starting.add(name)
        self.births.add(name)
        self.channel(name).append(message)
        return self._own_handle(name, specification, anonymous=anonymous)

    def _own_handle(self, name: str, specification: ActorSpecification, *, anonymous: bool) -> ActorHandle:
        """The handle that the maker gets. That of an anonymous actor nothing else here holds."""
        hold = self._dropped.hold(name) if anonymous else None
        methods, silent = frozenset(specification.methods), specification.silent
        handle = ActorHandle(self.system, name, methods, self, silent=silent, hold=hold)
        if not anonymous:
            self._handles[name] = handle
        return handle

    def _end_dropped(self, name: str) -> None:
        if ray.is_initialized():
            with contextlib.suppress(ActorEnded, SystemDown):
                OutChannel.append(self.channel(name), self.codec.end(dropped=True))  # the outbox may be full: no wait

    def meet(self, name: str) -> None:
        """Wait until an actor that is just being made is a member of the system, for at most MEET_S; no other one."""
        handle = self._connector.find(name)
        if handle is not None:
            ray.wait([handle.hello.remote()], timeout=MEET_S)

    def await_mentioned(self, channel: DriverChannel) -> None:
        """Let the next message of `channel` wait for the actors in what this thread has just encoded."""
        mentioned = self._encoding.__dict__.pop("mentioned", None)
        if mentioned:
            with self._lock:
                channel.awaited.append((channel.sent + 1, mentioned & self._starting))
                channel.hold()

    def _mention(self, handle: ActorHandle) -> str:
        handle.give_out()
        name = handle.name_in(self.system)
        if name in self._starting:
            self._encoding.__dict__.setdefault("mentioned", set()).add(name)
        return name

    def _started(self, name: str) -> None:
        """What mentions `name` may leave. Call under the lock."""
        if name in self._starting:
            self._starting.remove(name)
            self.births.started(name)
            for channel in self._channels.values():
                if channel.awaited:
                    for _, names in channel.awaited:
                        names.discard(name)
                    channel.hold()
                    channel.flush()
                    channel.room.notify_all()

    def told(self) -> dict[DriverChannel, int]:
        """All that was told until now: the last number on each channel."""
        with self._lock:
            self._heed_answers()
            return {channel: channel.sent for channel in self._channels.values()}

    def await_taken(self, told: Mapping[DriverChannel, int], timeout_s: float) -> list[str]:
        """Wait until all of `told` has arrived, for at most so long; not for actors that were given up.

        Returns whom this waits for, none where it is done. Raises SystemDown.
        """
        deadline = time.monotonic() + timeout_s
        awaited = []
        with self._lock:
            for channel, last in told.items():
                left_s = 0.0 if channel.receiver in self.births.given_up else deadline - time.monotonic()
                if not channel.room.wait_for(
                    lambda channel=channel, last=last: channel.down is not None or self._arrived(channel, last),  # type: ignore[misc]
                    max(0.0, left_s),
                ):
                    awaited.append(channel.receiver)
        if self.down is not None:
            raise self.down.with_traceback(None)
        return awaited

    def close(self, error: SystemDown) -> None:
        """The system is down: refuse everything from now on."""
        with self._lock:
            self.down = self.down or error
            for channel in self._channels.values():
                channel.shut(self.down)

    def _arrived(self, channel: DriverChannel, last: int) -> bool:
        """Whether all up to `last` has arrived; a call's batch is answered only when its handler ran."""
        calls = self._answers.get(channel.receiver, {})
        tells = (batch for batch in channel.in_flight.values() if batch.ref not in calls)
        return channel.transported >= last and all(batch.first > last for batch in tells)

    def _await_peer(self, channel: DriverChannel) -> RayPeer:
        """Wait until all in the outbox may leave; returns the receiver's Ray methods. Call under the lock."""
        channel.flush()
        if not channel.room.wait_for(
            lambda: (channel.peer is not None and channel.held_at is None) or channel.down is not None, ROOM_WAIT_S
        ):
            missing = sorted(set[str]().union(*(names for _, names in channel.awaited))) or [channel.receiver]
            raise SystemStopped(
                f"{', '.join(missing)} did not start within {ROOM_WAIT_S:g} s: has the cluster the resources? "
                f"The call to {channel.receiver!r} was not sent",
                actor=channel.receiver,
            )
        if channel.receiver in self._ended:
            raise self._ended[channel.receiver].with_traceback(None)
        if channel.down is not None:
            raise channel.down.with_traceback(None)
        assert isinstance(channel.peer, RayPeer)
        return channel.peer

    # Answers of calls ------------------------------------------------------------------------------------------

    def _call_answered(self, channel: DriverChannel, batch: InFlight, value: Any) -> None:
        with self._lock:
            self._heed(channel.receiver, batch.ref, value)
            channel.in_flight.pop(batch.first, None)
            channel.note_processed(batch.last)  # the call's message is the last, and messages are processed in order
            channel.room.notify_all()
            channel.flush()
        if isinstance(value, ray.exceptions.RayActorError):
            self.lost(channel.receiver, value)

    def _heed_answers(self) -> None:
        """Take in the tags of answers that the user's code may have seen already. Call under the lock."""
        for receiver, refs in self._answers.items():
            if refs:
                # Calls begin in the order in which they were made: behind the first so many none can be answered.
                begun = list(islice(refs, CALLS_AT_ONCE))
                ready, _ = ray.wait(begun, num_returns=len(begun), timeout=0)
                for ref in ready:
                    try:
                        value = ray.get(ref)
                    except Exception as error:  # noqa: BLE001 - a call's own error, which its caller gets
                        value = error
                    self._heed(receiver, ref, value)

    def _heed(self, receiver: str, ref: Any, value: Any) -> None:
        refs = self._answers.get(receiver, {})
        if ref not in refs:
            return
        brought = refs.pop(ref)
        failed = isinstance(value, Exception)
        if failed:
            value = getattr(getattr(value, "cause", None), "rayshot_tags", ())
        tags = tuple(SnapshotId(*tag) for tag in value)
        for tag in () if failed else brought:
            if tag not in tags:  # the receiver knew of it when it answered, unless it has ended
                self._machine.handle(SnapshotEnded(tag))
        if tags:
            self._machine.handle(AnswerArrived(tags))

    # Sender ----------------------------------------------------------------------------------------------------

    def taken(self, receiver: str, count: int) -> InFlight:
        """The next `count` messages are taken from the outbox."""
        if self._answers:
            self._heed_answers()
        (batch,) = self._machine.handle(BatchTaken(receiver, count))
        assert isinstance(batch, SendTagged)
        return InFlight(batch.first, batch.count, b"", (), batch.tags)

    def renewed(self, receiver: str, batch: InFlight) -> None:
        """A batch that is sent again keeps its tags."""

    def packed(self, batch: InFlight) -> bytes:
        """The batch as a packet."""
        return pack_packet(self.name, self.identity.incarnation, batch.first, batch.count, batch.body, tags=batch.tags)

    def acknowledged(self, receiver: str, last: int, _batch: InFlight, answer: Answer) -> int:
        """The receiver has a batch."""
        self._machine.handle(BatchAcknowledged(receiver, last))
        if receiver in self._starting and last > 0:  # what leaves because of it is as an answer to it
            self._machine.handle(AnswerArrived(answer.recorded))
            self._started(receiver)
        for snapshot in answer.ended:
            self._machine.handle(SnapshotEnded(snapshot))
        self._channels[receiver].room.notify_all()
        return last

    def refused(self, receiver: str, _answer: Answer) -> None:
        """The receiver takes nothing: the coordinator knows why."""
        self._connector.submit(lambda: self._learn_why(receiver))

    def lost(self, receiver: str, error: Exception) -> bool:
        """A call failed: if the receiver died, the coordinator knows more."""
        if isinstance(error, ray.exceptions.ActorDiedError):
            self._connector.submit(lambda: self._learn_why(receiver))
            return False
        return True

    def congested(self, channel: OutChannel) -> None:
        """`DriverChannel.append` waits by itself."""

    def kept(self) -> None:
        """Never called: a driver has no records, so it keeps nothing for them."""

    def undeliverable(self, channel: OutChannel, count: int, detail: str) -> None:
        """A driver is told at its next call instead."""

    def connect(self, channel: OutChannel) -> None:
        """Find the receiver in the background."""
        self._connector.submit(lambda: self._connect(channel))

    def _connect(self, channel: OutChannel) -> None:
        receiver = channel.receiver
        handle = self._connector.find(receiver)
        if handle is None:
            self._learn_why(receiver)
            return
        try:
            methods = ray.get(handle.hello.remote())
        except ray.exceptions.RayError as error:
            log.debug("no connection to %s: %s", receiver, error)
            self._learn_why(receiver)
            return
        with self._lock:
            if methods is not None and not self._dropped.holds(receiver):
                self.handle_of(receiver)._methods = frozenset(methods)  # noqa: SLF001 - known from now on
            channel.connected(RayPeer(handle))
            channel.flush()
            channel.room.notify_all()

    def _learn_why(self, receiver: str) -> None:
        """Ask the coordinator why a receiver takes nothing: it ended, or the system is down."""
        try:
            fate = ray.get(self.identity.coordinator.fate.remote(receiver))
            if isinstance(fate, Ending):
                with self._lock:
                    self._end(receiver, fate)
                return
            error = fate.error()
        except ray.exceptions.RayError as lost:
            error = SystemStopped(f"the coordinator of system {self.system!r} is gone: {lost}")
        self.close(error)

    def _end(self, receiver: str, ending: Ending) -> None:
        error = self._ended[receiver] = ending.error(receiver)
        self._started(receiver)
        channel = self._channels.pop(receiver, None)
        if channel is not None:
            channel.shut(error)
