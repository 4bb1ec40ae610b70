"""A driver's side of a system: it sends messages and calls from outside, under the name `driver:<id>`."""

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from rayshot.errors import ActorExited, ConfigError, NoAnswer, SystemDown, SystemRecovering
from rayshot.model.handle import ActorHandle
from rayshot.model.specification import ActorSpecification
from rayshot.runtime.channel.holding import Waiting
from rayshot.runtime.channel.outbox import waiting_in
from rayshot.runtime.channel.transport import SenderChannel
from rayshot.runtime.door import door
from rayshot.runtime.door.references import know_references
from rayshot.runtime.driver.callback import Callback
from rayshot.runtime.driver.calls import DurableCalls
from rayshot.runtime.driver.channel import ROOM_WAIT_S, DriverChannel
from rayshot.runtime.driver.life import DriverLife
from rayshot.runtime.driver.maker import Maker
from rayshot.runtime.driver.recovery_news import RecoverySubscription
from rayshot.runtime.driver.session import DriverSession
from rayshot.runtime.wire.answers import FATE_S, SILENT_S
from rayshot.runtime.wire.changed_answer import ChangedAnswer
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.packets import pack
from rayshot.runtime.wire.recovery_report import RecoveryReport


class DriverPort:
    """A driver's view of a system, through all its lives: see Port. Any thread of the process may send.

    What it knows is in its `session`, and of the present life in `life`.
    """

    def __init__(self, identity: HostIdentity, label: str = "") -> None:
        know_references()
        self._durable_calls = DurableCalls(self._end_dropped)
        self.session = DriverSession(identity, self, label, self._dropped)
        self.session.begin(DriverLife(self.session, identity))
        self.name, self.system, self.codec = self.session.name, self.session.system, self.session.codec
        self.maker = Maker(self.session)

    @property
    def life(self) -> DriverLife:
        """The present life of the system, as far as this driver has heard."""
        return cast("DriverLife", self.session.life)

    @property
    def down(self) -> SystemDown | None:
        """Why this driver refuses everything; None while it does not."""
        return self.session.down

    # Port ------------------------------------------------------------------------------------------------------

    def handle_of(self, name: str) -> ActorHandle:
        """See Port."""
        return self.session.handle_of(name)

    def is_there(self, name: str) -> bool | None:
        """See Port."""
        return self.life.is_there(name)

    def channel(self, receiver: str) -> DriverChannel:
        """See Port."""
        return self.session.channel(receiver)

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """See Maker."""
        return self.maker.spawn(specification, name, args, kwargs)

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Any:
        """Send a call and return an ObjectRef of its outcome at once, whatever the receiver does.

        While the system goes back, this waits for its next life: nobody would answer before. If the receiver has ended,
        `ray.get` of the outcome raises ActorExited, as in Ray. Raises SystemDown; Ray's PendingCallsLimitExceeded if
        the actor has an option for that.
        """
        session, channel = self.session, self.session.channel(receiver)
        while True:
            life = self.life
            self._await_room(channel)
            fetch = self._fetch_of(life, channel, durable=durable)
            with session.lock:
                down = channel.down or session.down
                if down is None and fetch is not None and session.life is life:  # else it goes back, or went meanwhile
                    tags, result = self._called(channel, fetch, tell, durable=durable)
                    break
            if isinstance(down, ActorExited):
                return door.put(down)
            if down is not None:
                raise down.anew()
        if durable:
            self._durable_calls.made(receiver, tags)
        return result

    def _called(self, channel: DriverChannel, fetch: Callable[..., Any], tell: bytes, *, durable: bool) -> Any:
        """Send a call. Call under the lock. Returns references to the tags of the answer and to the outcome."""
        session, calls, receiver = self.session, self.session.calls, channel.receiver
        calls.check_room(receiver, channel.calls_max)
        call_id = calls.next_id()
        gates = channel.put_call(session.codec.call(call_id, tell))
        number = channel.sent if session.machine.retains or durable else 0
        tags, result = fetch(pack((self.name, call_id, calls.first_open(receiver), number)), *gates)
        calls.made(receiver, call_id, tags, number)
        return tags, result

    def _await_room(self, channel: DriverChannel) -> None:
        """Wait while the system goes back, or the driver may keep no more. Raises SystemDown."""
        session = self.session
        if not session.life.rolls_back and not session.budget.is_spent:
            return
        with session.lock:
            session.await_life(". This call was not sent")
            if session.down is not None:
                return
            session.life.evict()
            if not channel.room.wait_for(lambda: not session.budget.is_spent or channel.down is not None, ROOM_WAIT_S):
                raise channel.no_room()

    def _fetch_of(self, life: DriverLife, channel: DriverChannel, *, durable: bool) -> Callable[..., Any] | None:
        """The Ray method that returns outcomes of calls; None if there is none, and then the channel or life says why.

        Raises NoAnswer, SystemRecovering.
        """
        if channel.fetch is None and channel.down is None:
            self._find_receiver(life, channel)
        if not durable or channel.fetch is None:
            return channel.fetch
        host = life.peers.find(channel.receiver)
        return None if host is None else cast("Callable[..., Any]", host.durable_result.remote)

    def _find_receiver(self, life: DriverLife, channel: DriverChannel) -> None:
        try:
            host = life.find(channel.receiver)
            if host is None:
                life.learn_why(channel.receiver, FATE_S + SILENT_S)
                return
        except (NoAnswer, SystemRecovering) as error:
            raise type(error)(f"{error.message}. This call was not sent", **error.evidence) from error
        except door.CallFailed as error:
            raise NoAnswer(f"Ray does not answer now: {error}. This call was not sent") from error
        with self.session.lock:
            if not life.is_over:
                channel.fetch = host.result.remote

    # Waiting ---------------------------------------------------------------------------------------------------

    def waiting(self) -> tuple[Waiting, ...]:
        """Messages that have waited for objects for some seconds."""
        with self.session.lock:
            return waiting_in(self.session.channels.values())

    def on_recovery(self, callback: Callable[[RecoveryReport], object]) -> RecoverySubscription:
        """See `System.on_recovery`."""
        self._check_callback("on_recovery", "report", callback)
        session, life = self.session, self.life
        subscription = RecoverySubscription(callback, life.identity.coordinator, life.incarnation)
        session.recoveries.add(subscription)
        if life.is_over:  # it went back before the subscription was known
            subscription.hear(session.life.incarnation)
        return subscription

    def on_changed_answer(self, callback: Callable[[ChangedAnswer], object]) -> Callback[ChangedAnswer]:
        """See `System.on_changed_answer`."""
        self._check_callback("on_changed_answer", "ChangedAnswer", callback)
        subscription = Callback[ChangedAnswer](callback, "rayshot-changed-answers")
        self.session.hearers.add(subscription)
        return subscription

    def _check_callback(self, of: str, what: str, callback: Any) -> None:
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise ConfigError(f"{of}({callback!r}): give a function that takes a {what}; it may not be async")
        if not self.life.identity.heals:
            raise ConfigError(
                f"system {self.system!r} does not go back to a snapshot by itself, so it never recovers: begin it with "
                "failure=rayshot.FailureConfig(scope='system')"
            )

    # The end ---------------------------------------------------------------------------------------------------

    def close(self, error: SystemDown) -> None:
        """The system is down: refuse everything from now on."""
        self.session.close(error)

    def _dropped(self, name: str) -> None:
        if not self._durable_calls.postpone(name):
            self._end_dropped(name)

    def _end_dropped(self, name: str) -> None:
        """Nobody holds a handle of the anonymous actor `name` any more."""
        if door.is_joined():
            with contextlib.suppress(ActorExited, SystemDown):
                SenderChannel.append(self.channel(name), self.codec.end(dropped=True))  # do not wait for room
                self.life.watch(name)
