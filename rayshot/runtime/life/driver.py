"""A driver's side of a system: it sends messages and calls from outside, under the name `driver:<id>`."""

import contextlib
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, assert_never, cast

from rayshot.errors import ActorExited, NoAnswer, SystemDown, SystemRecovering, SystemStopped
from rayshot.model.anonymous import random_name
from rayshot.model.handle import ActorHandle
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.driver_events import (
    AnswerArrived,
    DriverEffect,
    FetchAgain,
    MessagesHanded,
    ReleaseMessages,
    SendTagged,
)
from rayshot.protocol.events import BatchAcknowledged, ReceiverEnded, SnapshotEnded
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import is_there, name_taken, spawn_host
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.holding import Waiting
from rayshot.runtime.channel.outbox import waiting_in
from rayshot.runtime.channel.peers import Peers, RayPeer
from rayshot.runtime.channel.transport import OutChannel
from rayshot.runtime.coordinator.questions import FATE_S
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import find_coordinator, is_coordinator
from rayshot.runtime.door.references import know_references
from rayshot.runtime.life.driver_channel import DriverChannel
from rayshot.runtime.life.lasting import Lasting
from rayshot.runtime.life.leaving import wait_at_exit
from rayshot.runtime.life.letting_go import LettingGo
from rayshot.runtime.wire.answers import SILENT_S, get_answer, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Offer, Stop
from rayshot.runtime.wire.packets import Answer, Status, pack

log = logging.getLogger("rayshot")
MEET_S = 60.0
RAY_LEFT = "it called ray.shutdown(). Attach to the system if it still runs, with rayshot.attach, or restore it"
ENDED_KEPT_MAX = 1000
"""A driver remembers for so many actors why they ended; for other actors it asks again."""


class DriverPort:
    """A driver's view of one life of a system. Any thread of the process may send."""

    keeps = False
    """Whether the system goes back to its snapshots by itself, and this driver keeps what that needs."""

    def __init__(self, identity: HostIdentity, lasting: Lasting | None = None, label: str = "") -> None:
        know_references()
        self.identity = identity
        self.incarnation = identity.incarnation
        self.system = identity.system
        self.down: SystemDown | None = None
        self.channels: dict[str, DriverChannel] = {}
        self.ended: dict[str, ActorExited] = {}
        self.peers = Peers(identity.system, identity.incarnation)
        self.starting: set[str] = set()
        self.made_again: frozenset[str] = frozenset()
        self.noted: Container[str] = self.starting
        self.goes_back = False
        self.draining = False  # a driver is not part of what stops
        self.lasting = lasting or Lasting(identity, self, label)
        self.name, self.lock, self.machine = self.lasting.name, self.lasting.lock, self.lasting.machine
        self.calls, self.births = self.lasting.calls, self.lasting.births
        self.budget = self.lasting.budget
        self.letting_go = LettingGo(self)
        self.codec, self.dead_letters = self.lasting.codec, self.lasting.dead_letters
        self.dead_letters.life = identity.incarnation
        self.take_mentioned = self.lasting.take_mentioned
        wait_at_exit(self)

    @property
    def latest(self) -> "DriverPort":
        """The port of this driver in the present life."""
        return cast("DriverPort", self.lasting.port)

    # Port ------------------------------------------------------------------------------------------------------

    def handle_of(self, name: str, offer: Offer | None = None) -> ActorHandle:
        """This driver's handle of the actor `name`. If `offer` is given, the handle knows the methods of its class."""
        handle = self.lasting.handles.get(name)
        if handle is None or (offer is not None and (offer.methods, offer.silent) != (handle._methods, handle._silent)):  # noqa: SLF001
            self.lasting.dropped.give_out(name)
            methods, silent = (None, frozenset[str]()) if offer is None else (offer.methods, offer.silent)
            handle = self.lasting.handles[name] = ActorHandle(self.system, name, methods, self, silent=silent)
        return handle

    def is_there(self, name: str) -> bool | None:
        """See Port."""
        return is_there(self.identity, name)

    def channel(self, receiver: str) -> DriverChannel:
        """The channel to `receiver`. If the receiver is known to have ended, the channel takes no messages."""
        with self.lock:
            return self._channel(receiver)

    def _channel(self, receiver: str) -> DriverChannel:
        channel = self.channels.get(receiver)
        if channel is None:
            channel = DriverChannel(self, receiver)
            channel.down = self.down or self.ended.get(receiver)
            if channel.down is None or self.keeps:  # the system may go back to before its end
                self.channels[receiver] = channel
        return channel

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Any:
        """Send a call and return an ObjectRef of its outcome at once, whatever the receiver does.

        If the receiver has ended, `ray.get` of the outcome raises ActorExited, as in Ray. Raises SystemDown; Ray's
        PendingCallsLimitExceeded if the actor has an option for that.
        """
        channel = self.channel(receiver)
        fetch = self._fetch_of(channel)
        if durable and fetch is not None:
            host = self.peers.find(receiver)
            fetch = None if host is None else host.durable_result.remote
        with self.lock:
            if isinstance(channel.down, ActorExited):
                return door.put(channel.down)
            if (down := channel.down or self.down) is not None:
                raise down.anew()
            assert fetch is not None, f"{receiver} is not there, and nobody says why"
            self.calls.check_room(receiver)
            call_id = self.calls.next_id()
            gates = channel.put_call(self.codec.call(call_id, tell))
            number = channel.sent if self.keeps or durable else 0
            tags, result = fetch(pack((self.name, call_id, self.calls.first_open(receiver), number)), *gates)
            self.calls.made(receiver, call_id, tags, number)
        if durable:
            self.lasting.durable_calls.made(receiver, tags)
        return result

    def _fetch_of(self, channel: DriverChannel) -> Callable[..., Any] | None:
        """The Ray method that returns outcomes of calls on a channel. None if the channel says why there is none."""
        return channel.fetch or (self._find_fetch(channel) if channel.down is None else None)

    def can_answer(self, receiver: str) -> bool:
        """Whether an actor is connected or gone. Before that, it cannot have answered. Call under the lock."""
        assert self.lock.locked()
        channel = self.channels.get(receiver)
        return channel is None or channel.can_answer

    def _find_fetch(self, channel: DriverChannel) -> Callable[..., Any] | None:
        """The Ray method that returns outcomes; None if the actor does not exist, and then the channel says why.

        Raises NoAnswer, SystemRecovering.
        """
        try:
            handle = self.find(channel.receiver)
            if handle is not None:
                fetch: Callable[..., Any] = handle.result.remote
                with self.lock:
                    if self.latest is self:  # otherwise the channel is in a later life
                        channel.fetch = fetch
                return fetch
            self._learn_why(channel.receiver, FATE_S + SILENT_S)
        except (NoAnswer, SystemRecovering) as error:
            raise type(error)(f"{error.message}. This call was not sent", **error.evidence) from error
        except door.CallFailed as error:
            raise NoAnswer(f"Ray does not answer now: {error}. This call was not sent") from error
        return None

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it the call of its constructor."""
        if self.down is not None:
            raise self.down.anew()
        if name in self.ended:
            raise name_taken(name, self.system)
        anonymous, name = name is None, name or random_name(specification.class_name)
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        self._start_host(specification, name)
        self.calls.limit(name, specification.calls_max)
        self._made(name, specification, message)
        handle = self.lasting.dropped.handle(self, name, specification, held=anonymous)
        if not anonymous:
            self.lasting.handles[name] = handle
        return handle

    def _start_host(self, specification: ActorSpecification, name: str) -> None:
        """Start the process of a new actor. Raises NameTaken, ConfigError."""
        self.peers.know(name, spawn_host(Host, self.identity, specification, name, maker=self.name))

    def _made(self, name: str, _specification: ActorSpecification, message: bytes) -> None:
        """An actor was made. Send it its creation."""
        with self.lock:
            self.starting.add(name)
        self.births.add(name)
        self.channel(name).append(message)

    def end_dropped(self, name: str) -> None:
        """Nobody holds a handle of the anonymous actor `name` any more."""
        if door.is_joined():
            with contextlib.suppress(ActorExited, SystemDown):
                OutChannel.append(self.channel(name), self.codec.end(dropped=True))  # the outbox may be full: no wait
                self._watch(name)

    def _watch(self, name: str) -> None:
        """Learn when an actor ends to which nothing is sent any more: otherwise this driver would never forget it."""
        handle = self.peers.find(name)
        if handle is not None:
            door.when_answered(
                handle.watch.remote(),
                lambda _: self._ask_why(name),
            )

    def meet(self, name: str) -> None:
        """If the actor is just being made, wait until it is a member of the system, for at most MEET_S seconds."""
        handle = self.peers.find(name)
        if handle is not None:
            door.wait([handle.hello.remote()], timeout=MEET_S)

    def meet_again(self) -> None:
        """Wait as `meet`, but once, for the actors that this driver makes again behind a rollback."""
        handles = [self.peers.find(name) for name in self.made_again & self.starting]
        if hellos := [handle.hello.remote() for handle in handles if handle is not None]:
            door.wait(hellos, num_returns=len(hellos), timeout=MEET_S)
            self.made_again = frozenset()  # one that has no room now may never have any

    def _started(self, name: str) -> None:
        """The actor `name` has started: messages that mention it may leave. Call under the lock."""
        assert self.lock.locked()
        if name in self.starting:
            self.starting.remove(name)
            self.births.started(name)
            for channel in self.channels.values():
                channel.started(name)

    def waiting(self) -> tuple[Waiting, ...]:
        """Messages that have waited for objects for some seconds."""
        with self.lock:
            return waiting_in(self.channels.values())

    def told(self) -> dict[DriverChannel, int]:
        """All messages that were sent until now: the last number on each channel."""
        with self.lock:
            self.heed()
            return {channel: channel.sent for channel in self.channels.values()}

    def in_this_life(self, told: Mapping[DriverChannel, int]) -> dict[DriverChannel, int]:
        """What an earlier port of this driver has `told`, by the channels of this one."""
        with self.lock:
            found = {self.channels.get(channel.receiver): last for channel, last in told.items()}
        return {channel: last for channel, last in found.items() if channel is not None}

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
            raise self.down.anew()
        return awaited

    def await_covered(self, told: Mapping[DriverChannel, int], timeout_s: float) -> bool:  # noqa: ARG002 - see KeepingPort
        """Wait at most `timeout_s` seconds until a durable snapshot holds all of `told`, if this matters.

        It does if the system goes back to snapshots by itself.

        Returns whether that is so.
        """
        return True

    def close(self, error: SystemDown) -> None:
        """The system is down: refuse everything from now on."""
        with self.lock:
            self.down = self.down or error
            for channel in self.channels.values():
                channel.shut(self.down)
        self.lasting.dropped.close()

    def leave(self, until: str) -> None:
        """This program takes part in the system no more, and `until` says since when: refuse everything from now on."""
        self.lasting.left = SystemStopped(
            f"this program was a driver of system {self.system!r} until {until}", system=self.system
        )
        self.close(self.lasting.left)

    def is_in_cluster(self) -> bool:
        """See DriverSender."""
        is_in_it: bool = door.is_joined()
        if not is_in_it and self.lasting.left is None:
            self.peers.submit(lambda: self.leave(RAY_LEFT))
        return is_in_it

    def heed(self) -> None:
        """See DriverSender."""
        assert self.lock.locked()
        self.carry_out(self.calls.heed())
        for receiver in tuple(self.machine.due):
            if (channel := self.channels.get(receiver)) is not None:
                channel.press_on()

    # Sender ----------------------------------------------------------------------------------------------------

    def carry_out(self, effects: Iterable[DriverEffect]) -> None:
        """Do what the machine orders. Call under the lock."""
        assert self.lock.locked()
        for effect in effects:
            channel = self.channels.get(effect.receiver)
            match effect:
                case SendTagged(receiver, _, first, count, _):
                    assert channel is not None, f"{receiver} has ended, and nothing can be sent to it"
                    assert first == channel.ordered + 1, f"{receiver}: {first} does not follow {channel.ordered}"
                    channel.ordered += count
                    channel.press_on()
                case ReleaseMessages(_, last):
                    if channel is not None:
                        channel.release(last)
                case FetchAgain(receiver, call_id, number):
                    self._fetch_again(receiver, call_id, number)
                case _:
                    assert_never(effect)

    def let_go(self) -> None:
        """See DriverSender."""
        self.letting_go.ask()

    def call_again(self, channel: DriverChannel) -> None:
        """Ask for the outcomes that the receiver must give again in this life. Call under the lock."""
        if channel.receiver in self.machine.due and channel.fetch is not None and not self.goes_back:
            self.carry_out(self.machine.handle(MessagesHanded(channel.receiver, channel.handed)))

    def _fetch_again(self, receiver: str, call_id: int, number: int) -> None:
        host = self.peers.find(receiver)
        assert host is not None, f"{receiver} was found before"
        tags = host.answered.remote(pack((self.name, call_id, self.calls.first_open(receiver), number)))
        self.calls.fetched_again(call_id, tags)
        door.when_answered(tags, lambda answer: self._answered_again(receiver, call_id, answer))

    def _answered_again(self, receiver: str, call_id: int, answer: Any) -> None:
        """On Ray's own thread."""
        if isinstance(answer, door.NotReached):
            self._ask_why(receiver)
        with self.lock:
            port = self.latest
            port.carry_out(port.calls.answered(receiver, call_id, answer))
            if (channel := port.channels.get(receiver)) is not None:
                channel.press_on()

    def acknowledged(self, channel: OutChannel, last: int, _batch: InFlight, answer: Answer) -> None:
        """See Sender."""
        receiver = channel.receiver
        self.carry_out(self.machine.handle(BatchAcknowledged(receiver, last)))
        if receiver in self.starting and last > 0:  # messages that may leave now count as effects of this answer
            self.machine.handle(AnswerArrived(answer.recorded))
            self._started(receiver)
        for snapshot in answer.ended:
            self.machine.handle(SnapshotEnded(snapshot))
        channel.room.notify_all()
        self.let_go()

    def refused(self, receiver: str, answer: Answer) -> None:
        """The receiver refuses messages: the coordinator knows why, or this process counts as dead."""
        if answer.status is Status.GONE:
            self.peers.submit(lambda: self.close(SystemStopped(answer.detail, system=self.system)))
        else:
            self._ask_why(receiver)

    def lost(self, receiver: str, error: Exception) -> bool:
        """A Ray call failed. If the receiver died, ask the coordinator why. Returns whether to try again."""
        if isinstance(error, door.Died):
            self._ask_why(receiver)
            return False
        return True

    def congested(self, channel: OutChannel) -> None:
        """`DriverChannel.append` waits by itself."""

    def connect(self, channel: OutChannel) -> None:
        """Find the receiver in the background."""
        self.peers.insist(lambda: self._connect(channel), lambda: channel.down is not None or self.latest is not self)

    def _connect(self, channel: Any) -> None:
        """Raises CallFailed while Ray's control service does not answer."""
        receiver = channel.receiver
        handle = self.find(receiver)
        if handle is None:
            self._learn_why(receiver)
            return
        try:
            offer = door.get(handle.hello.remote())
        except door.CallFailed as error:
            log.debug("no connection to %s: %s", receiver, error)
            self._learn_why(receiver)
            return
        with self.lock:
            if self.latest is not self:
                return  # the channel is in a later life
            if offer is not None and not self.lasting.dropped.holds(receiver):
                self.handle_of(receiver)._methods = offer.methods  # noqa: SLF001 - known from now on
                self.calls.limit(receiver, offer.calls_max)
            channel.connected(RayPeer(handle))
            channel.fetch = handle.result.remote
            channel.flush()
            channel.room.notify_all()

    @property
    def has_coordinator(self) -> bool:
        """Whether this life of the system still has its coordinator: without it no actor can be made."""
        return is_coordinator(self.system, self.identity.coordinator)

    @property
    def has_later_life(self) -> bool:
        """Whether a later life of the system has begun."""
        later = find_coordinator(self.system) if door.is_joined() else None
        return later is not None and later != self.identity.coordinator

    def close_without(self, detail: str) -> None:
        """The coordinator is gone for good: refuse everything from now on."""
        self.close(SystemStopped(f"the coordinator of system {self.system!r} is gone: {detail}", system=self.system))

    def find(self, receiver: str) -> Any | None:
        """The Ray handle of an actor; None if there is none."""
        return self.peers.find(receiver)

    def _ask_why(self, receiver: str) -> None:
        """As `_learn_why`, in the background, and until the coordinator can be reached."""
        self.peers.insist(lambda: self._learn_why(receiver), lambda: self.down is not None)

    def _learn_why(self, receiver: str, within_s: float | None = None) -> None:
        """Ask the coordinator why a receiver takes no messages: the receiver has ended, or the system is down.

        Raises NoAnswer, SystemRecovering after `within_s` seconds, None: waits for the answer; CallFailed if the
        coordinator cannot be reached now.
        """
        coordinator = self.identity.coordinator
        try:
            with noticing_restart(self.system, coordinator):
                asked = coordinator.fate.remote(receiver, self.incarnation)
                fate = get_answer(asked, the_coordinator(self.system), within_s)
        except door.CallFailed as lost:
            if self.has_coordinator:
                raise
            self.close_without(str(lost))
            return
        if isinstance(fate, Stop):
            self.close(fate.error())
            return
        with self.lock:
            if fate is None:
                self.will_go_back()
            else:
                self.end(receiver, fate)

    def will_go_back(self) -> None:
        """This life is over, and the system goes on in a later one. Call under the lock."""
        raise AssertionError(f"system {self.system!r} does not go back by itself")

    def end(self, receiver: str, ending: Ending) -> None:
        """An actor has ended: forget all about it except the reason. A later life may undo this. Under the lock."""
        assert self.lock.locked()
        if self.latest is not self or receiver in self.ended:
            return
        error = self.ended[receiver] = ending.error(receiver)
        if len(self.ended) > ENDED_KEPT_MAX:
            del self.ended[next(iter(self.ended))]
        self._started(receiver)
        self.lasting.handles.pop(receiver, None)
        self.calls.forget(receiver)
        self.peers.forget(receiver)
        self.births.forget(receiver)
        channel = self.channels.get(receiver)
        if channel is not None and channel.down is None:
            channel.awaited.clear()
            channel.end(ending.detail)
            channel.shut(error)
            if not self.keeps:
                self.channels.pop(receiver).discard()
        self.carry_out(self.machine.handle(ReceiverEnded(receiver)))
        self.let_go()

    def recovering(self, detail: str) -> SystemRecovering:
        """The error of those who cannot wait for the next life."""
        return SystemRecovering(
            f"system {self.system!r} goes back to its last snapshot by itself: {detail}", system=self.system
        )
