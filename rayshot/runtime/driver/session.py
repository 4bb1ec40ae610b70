"""What a driver keeps through all lives of its system."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, assert_never
from weakref import WeakValueDictionary

from rayshot.errors import ActorExited, SystemDown, SystemRecovering, SystemStopped
from rayshot.format.codec import Codec, Frame
from rayshot.model.dead_letters import DeadLetters
from rayshot.model.handle import ActorHandle
from rayshot.model.port import Port
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import DriverEffect, FetchAgain, ReleaseMessages, SendTagged, TellOfChange
from rayshot.runtime.channel.peers import Peers
from rayshot.runtime.channel.retained import Budget
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import find_coordinator, is_coordinator, new_driver_name
from rayshot.runtime.driver.callback import Callbacks
from rayshot.runtime.driver.calls import Calls
from rayshot.runtime.driver.changed_answers import ChangedAnswers
from rayshot.runtime.driver.channel import DriverChannel, DriverSender
from rayshot.runtime.driver.creations import Creations
from rayshot.runtime.driver.liveness import Liveness, outlast_coordinator
from rayshot.runtime.wire.answers import RECOVERY_WAIT_S
from rayshot.runtime.wire.dropped_handles import Dropped
from rayshot.runtime.wire.host_identity import ActorOffer, Ending, HostIdentity
from rayshot.runtime.wire.notifications import Covered

RAY_LEFT = "it called ray.shutdown(). Attach to the system if it still runs, with rayshot.attach, or restore it"


class EvictionState(Protocol):
    """What a driver evicted in one life, as no snapshot succeeded. Call everything under the lock."""

    @property
    def outstanding(self) -> bool:
        """Whether the driver evicted anything that no durable snapshot is known to hold."""

    def covered(self, cut: Covered) -> None:
        """A durable snapshot holds this."""


class PresentLife(DriverSender, Protocol):
    """What the session asks of the life of its system that runs."""

    identity: HostIdentity
    peers: Peers
    ended: dict[str, ActorExited]
    """The actors that have ended, and why."""
    made_again: frozenset[str]
    """The actors that this driver makes again behind a rollback, while anybody may wait for them."""

    @property
    def eviction(self) -> EvictionState:
        """What the driver evicted in this life."""

    @property
    def is_over(self) -> bool:
        """Whether a later life has begun in this driver."""

    def is_there(self, name: str) -> bool | None:
        """See Port."""

    def fetch_again(self, receiver: str, call_id: int, number: int) -> None:
        """Ask for the outcome of a call again, which is message `number`. Call under the lock."""

    def end(self, receiver: str, ending: Ending) -> None:
        """An actor has ended: forget all about it except the reason. Call under the lock."""


class DriverSession:
    """See the module. `lock` covers the session, its channels, its machine, and what the lives change.

    `label` is the name under which the program attached, if any. `life` is the present life of the system; a rollback
    begins another one, and then `news` is notified. The channels stay the same. `handles` are the handles that the
    driver gave out and the program still has, by name. `recoveries` are told of lives that run, `hearers` of answers
    that have changed. `down` is the error of a system that is over, `left` that of a
    program that has left the Ray cluster.
    """

    life: PresentLife

    def __init__(self, identity: HostIdentity, port: Port, label: str, end_dropped: Callable[[str], None]) -> None:
        self.port = port
        self.system = identity.system
        self.name = new_driver_name(label)
        self.lock = threading.Lock()
        self.news = threading.Condition(self.lock)
        self.codec = Codec(ActorHandle, self._mention, self.handle_of)
        self.machine = Driver(self.name, identity.incarnation, retains=identity.heals)
        self.channels: dict[str, DriverChannel] = {}
        self.calls = Calls(self.machine, self._can_answer)
        self.creations = Creations()
        self.budget = Budget(limited=identity.heals)
        self.dead_letters = DeadLetters()
        self.dead_letters.life = identity.incarnation
        self.handles: WeakValueDictionary[str, ActorHandle] = WeakValueDictionary()
        self.dropped = Dropped(end_dropped)
        self.recoveries = Callbacks()
        self.hearers = Callbacks()
        self.changed = ChangedAnswers(self.name, self.lock, lambda: self.life, self._frame_with, self.hearers.hear)
        self.down: SystemDown | None = None
        self.left: SystemStopped | None = None
        self._encoding = threading.local()

    def begin(self, life: PresentLife) -> None:
        """The driver is there, in the life in which it was made."""
        self.life = life
        self.liveness = Liveness(
            self.name,
            life.identity,
            lambda task: self.life.peers.insist(task, lambda: False),
            lambda detail: outlast_coordinator(self, detail),
        )

    def find(self, name: str) -> Any | None:
        """The Ray handle of an actor in the present life; None if there is none."""
        return self.life.peers.find(name)

    # Handles ---------------------------------------------------------------------------------------------------

    def handle_of(self, name: str, offer: ActorOffer | None = None) -> ActorHandle:
        """This driver's handle of the actor `name`. If `offer` is given, the handle knows the methods of its class."""
        handle = self.handles.get(name)
        if handle is None or (offer is not None and (offer.methods, offer.silent) != (handle._methods, handle._silent)):  # noqa: SLF001
            self.dropped.give_out(name)
            methods, silent = (None, frozenset[str]()) if offer is None else (offer.methods, offer.silent)
            handle = self.handles[name] = ActorHandle(self.system, name, methods, self.port, silent=silent)
        return handle

    def take_mentioned(self) -> set[str]:
        """The actors in this thread's last encoded message that may still be starting when it arrives."""
        mentioned: set[str] = self._encoding.__dict__.pop("mentioned", set())
        return mentioned

    def _mention(self, handle: ActorHandle) -> str:
        handle.give_out()
        name = handle.name_in(self.system)
        if name in self.creations:
            self._encoding.__dict__.setdefault("mentioned", set()).add(name)
        return name

    # Channels --------------------------------------------------------------------------------------------------

    def channel(self, receiver: str) -> DriverChannel:
        """The channel to `receiver`. If the receiver is known to have ended, the channel takes no messages."""
        with self.lock:
            return self.channel_to(receiver)

    def channel_to(self, receiver: str) -> DriverChannel:
        """As `channel`. Call under the lock."""
        assert self.lock.locked()
        channel = self.channels.get(receiver)
        if channel is None:
            channel = DriverChannel(self, self.life, receiver)
            channel.down = self.down or self.life.ended.get(receiver)
            if channel.down is None or self.machine.retains:  # the system may go back to before its end
                self.channels[receiver] = channel
        return channel

    def forget(self, receiver: str) -> None:
        """The receiver has ended for ever. Call under the lock."""
        assert self.lock.locked()
        self.creations.forget(receiver)
        if (channel := self.channels.pop(receiver, None)) is not None:
            channel.discard()

    def is_unanswered(self, reference: Any) -> bool:
        """Whether it is the outcome of a call of this driver that is not answered yet. Call under the lock."""
        return self.calls.is_unanswered(reference)

    def _can_answer(self, receiver: str) -> bool:
        """Whether an actor is connected or gone. Before that, it cannot have answered. Call under the lock."""
        channel = self.channels.get(receiver)
        return channel is None or channel.can_answer

    # The machine -----------------------------------------------------------------------------------------------

    def take_news(self) -> None:
        """Tell the machine of answers that the user's code may have seen already. Call under the lock."""
        assert self.lock.locked()
        self.carry_out(self.calls.take_news())
        for receiver in tuple(self.machine.due):
            if (channel := self.channels.get(receiver)) is not None:
                channel.send_on()

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
                    channel.send_on()
                case ReleaseMessages(receiver, last):
                    self.creations.forget(receiver)  # message 1 is its creation
                    if channel is not None:
                        channel.release(last)
                case FetchAgain(receiver, call_id, number):
                    self.life.fetch_again(receiver, call_id, number)
                case TellOfChange():
                    self.changed.note(effect)
                case _:
                    assert_never(effect)
        if self.changed and self.machine.awaits is None:
            self.changed.tell()

    def _frame_with(self, receiver: str, number: int) -> Frame | None:
        """The batch with a message that this driver told; None if it does not keep it. Call under the lock."""
        assert self.lock.locked(), "what is kept is looked at under the lock"
        channel = self.channels.get(receiver)
        return None if channel is None else channel.retained.frame_with(number)

    # Waiting ---------------------------------------------------------------------------------------------------

    def await_life(self, lost: str = "") -> None:
        """Wait while the system goes back. Call under the lock.

        After RECOVERY_WAIT_S seconds it raises SystemRecovering; `lost` says what was not done.
        """
        if not self.news.wait_for(lambda: not self.life.rolls_back or self.down is not None, RECOVERY_WAIT_S):
            raise self.recovering(f"no news of its next life have come for {RECOVERY_WAIT_S:g} s{lost}")

    def told(self) -> dict[DriverChannel, int]:
        """All messages that were sent until now: the last number on each channel."""
        with self.lock:
            self.take_news()
            return {channel: channel.sent for channel in self.channels.values()}

    def await_taken(self, told: Mapping[DriverChannel, int], timeout_s: float) -> list[str]:
        """Wait until all of `told` has arrived, for at most `timeout_s` seconds; not for actors that were given up.

        If the system goes back meanwhile, it must arrive in the next life. Returns the receivers that it still waits
        for; an empty list if all has arrived. Raises SystemDown.
        """
        deadline = time.monotonic() + timeout_s
        life, awaited = None, list[str]()
        with self.lock:
            while life is not self.life:  # what had arrived before may be on its way again
                life, awaited = self.life, []
                for channel, last in told.items():
                    left_s = 0.0 if channel.receiver in self.creations.given_up else deadline - time.monotonic()
                    if not channel.room.wait_for(
                        lambda channel=channel, last=last: channel.down is not None or channel.has_arrived(last),  # type: ignore[misc]
                        max(0.0, left_s),
                    ):
                        awaited.append(channel.receiver)
        if self.down is not None:
            raise self.down.anew()
        return awaited

    # The end ---------------------------------------------------------------------------------------------------

    def close(self, error: SystemDown) -> None:
        """The system is down: refuse everything from now on."""
        with self.lock:
            self.down = self.down or error
            self.changed.tell()
            for channel in self.channels.values():
                if channel.down is None:
                    channel.shut(self.down)
            self.news.notify_all()
        self.dropped.close()
        self.recoveries.close()
        self.hearers.close()

    def close_without(self, detail: str) -> None:
        """The coordinator is gone for good: refuse everything from now on."""
        self.close(SystemStopped(f"the coordinator of system {self.system!r} is gone: {detail}", system=self.system))

    def leave(self, until: str) -> None:
        """This program takes part in the system no more, and `until` says since when: refuse everything from now on."""
        why = f"this program was a driver of system {self.system!r} until {until}"
        self.left = SystemStopped(why, system=self.system)
        self.close(self.left)

    def is_in_cluster(self) -> bool:
        """Whether Ray runs in this process; if not, the driver refuses everything from now on. Call under the lock."""
        is_in_it: bool = door.is_joined()
        if not is_in_it and self.left is None:
            self.life.peers.submit(lambda: self.leave(RAY_LEFT))
        return is_in_it

    @property
    def has_coordinator(self) -> bool:
        """Whether this system still has its coordinator: without it no actor can be made."""
        return is_coordinator(self.system, self.life.identity.coordinator)

    @property
    def has_later_life(self) -> bool:
        """Whether a later life of the system has begun with another coordinator."""
        later = find_coordinator(self.system) if door.is_joined() else None
        return later is not None and later != self.life.identity.coordinator

    def recovering(self, detail: str) -> SystemRecovering:
        """The error of those who cannot wait for the next life."""
        return SystemRecovering(
            f"system {self.system!r} goes back to its last snapshot by itself: {detail}", system=self.system
        )
