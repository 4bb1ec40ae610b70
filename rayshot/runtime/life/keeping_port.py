"""A driver whose system goes back to its snapshots by itself: its port in one life, and how the next one follows."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, assert_never, cast

from rayshot.errors import ActorExited, NoAnswer, SystemDown, SystemRecovering, SystemStopped
from rayshot.model.handle import ActorHandle
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.driver_events import DriverEffect, FetchAgain, MessagesHanded, ReleaseMessages, SendTagged
from rayshot.protocol.events import ReceiverEnded
from rayshot.runtime.actor.spawning import name_taken
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.door import door
from rayshot.runtime.life.covering import await_covered
from rayshot.runtime.life.driver import DriverPort
from rayshot.runtime.life.driver_channel import ROOM_WAIT_S, DriverChannel
from rayshot.runtime.life.keeping_channel import KeepingChannel
from rayshot.runtime.life.lasting import Lasting
from rayshot.runtime.life.letting_go import LettingGo
from rayshot.runtime.wire.answers import RECOVERY_WAIT_S
from rayshot.runtime.wire.host_identity import Ending, HostIdentity
from rayshot.runtime.wire.packets import Answer, pack

RETURN_S, LOOK_S = 15.0, 0.2
"""After a rollback some actors are made again by others: a driver looks so many seconds for a receiver, with pauses."""


class KeepingPort(DriverPort):
    """See DriverPort. `latest` is the port of the present life; that of a life that is over raises SystemRecovering.

    `goes_back`: the driver has heard that this life is over, and not yet of the next one. `news` is notified when it
    hears. The lives' ports share their lock, so a port passes everything on in one step.
    """

    keeps = True
    channels: dict[str, KeepingChannel]  # type: ignore[assignment]  # it makes its own

    def __init__(self, identity: HostIdentity, lasting: Lasting | None = None, label: str = "") -> None:
        self._patient_until = 0.0 if lasting is None else time.monotonic() + RETURN_S
        self.goes_back = False
        super().__init__(identity, lasting, label)
        self.budget = self.lasting.budget
        self.noted = self.lasting.creations
        self.news = threading.Condition(self.lock)
        self.letting_go = LettingGo(self)

    @property
    def latest(self) -> "KeepingPort":
        """See DriverPort."""
        return cast("KeepingPort", self.lasting.port)

    # Port ------------------------------------------------------------------------------------------------------

    def _channel(self, receiver: str) -> KeepingChannel:
        channel = self.channels.get(receiver)
        if channel is None:
            channel = self.channels[receiver] = KeepingChannel(self, receiver)
            channel.down = self.down or self.ended.get(receiver)
        return channel

    def _fetch_of(self, channel: DriverChannel) -> Callable[..., Any] | None:
        """See DriverPort. While the system goes back, this waits for its next life: nobody would answer before."""
        while True:
            self._await_room_for_call(channel)
            fetch = super()._fetch_of(channel)
            if fetch is not None or channel.down is not None or self.down is not None:
                return fetch

    def _await_room_for_call(self, channel: DriverChannel) -> None:
        if not self.goes_back and not self.budget.is_spent:
            return
        with self.lock:
            if not self.news.wait_for(lambda: not self.goes_back or self.down is not None, RECOVERY_WAIT_S):
                raise self.recovering(
                    f"no news of its next life have come for {RECOVERY_WAIT_S:g} s. This call was not sent"
                )
            if self.down is not None:
                return
            self.let_go()
            if not channel.room.wait_for(lambda: not self.budget.is_spent or channel.down is not None, ROOM_WAIT_S):
                assert isinstance(channel, KeepingChannel)
                raise channel.no_room()

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """See DriverPort. If the system goes back meanwhile, the actor is made in its next life."""
        if name is not None:
            self._check_free(name)
        try:
            return super().spawn(specification, name, args, kwargs)
        except SystemRecovering:
            if self.latest is self:
                raise
            return self.latest.spawn(specification, name, args, kwargs)

    def _check_free(self, name: str) -> None:
        """Raise NameTaken if this driver knows a living actor of that name; on the way back wait, as nobody knows then.

        Ray knows no name of an actor that has died, though the snapshot may bring it back.
        """
        with self.lock:
            if not self.news.wait_for(lambda: not self.goes_back or self.down is not None, RECOVERY_WAIT_S):
                raise self.recovering(f"no news of its next life have come for {RECOVERY_WAIT_S:g} s")
            channel = self.latest.channels.get(name)
            if channel is not None and channel.down is None and channel.sent:
                raise name_taken(name, self.system)

    def _start_host(self, specification: ActorSpecification, name: str) -> None:
        if not self.goes_back:  # otherwise the heir starts it, in the life where it can join
            super()._start_host(specification, name)

    def _made(self, name: str, specification: ActorSpecification, message: bytes) -> None:
        with self.lock:
            channel = self._channel(name)
            if channel.down is not None:
                raise channel.down.anew()
            self.lasting.creations.add(name, specification)
            self.starting.add(name)
            self.births.add(name)
            channel.put_call(message)

    def end_dropped(self, name: str) -> None:
        """See DriverPort."""
        super().end_dropped(name)
        if self.latest is not self:
            self.latest.end_dropped(name)

    def await_covered(self, told: Mapping[DriverChannel, int], timeout_s: float) -> bool:
        """See DriverPort."""
        return await_covered(self, told, timeout_s)

    def await_taken(self, told: Mapping[DriverChannel, int], timeout_s: float) -> list[str]:
        """See DriverPort. What was told before the system went back arrives in its next life."""
        deadline = time.monotonic() + timeout_s
        port: KeepingPort | None = None
        awaited: list[str] = []
        while port is not self.latest:
            port = self.latest
            try:
                awaited = DriverPort.await_taken(port, port.in_this_life(told), max(0.0, deadline - time.monotonic()))
            except SystemRecovering:
                if port is self.latest:
                    raise
        return awaited

    def in_this_life(self, told: Mapping[DriverChannel, int]) -> dict[DriverChannel, int]:
        """See DriverPort."""
        with self.lock:
            found = {self.channels.get(channel.receiver): last for channel, last in told.items()}
        return {channel: last for channel, last in found.items() if channel is not None}

    def close(self, error: SystemDown) -> None:
        """See DriverPort."""
        with self.lock:
            port = self.latest
            port.down = port.down or error
            for channel in port.channels.values():
                if channel.down is None:
                    channel.shut(port.down)
            port.news.notify_all()
        self.lasting.dropped.close()
        self.lasting.recoveries.close()

    # Sender ----------------------------------------------------------------------------------------------------

    def heed(self) -> None:
        """See DriverPort."""
        assert self.lock.locked()
        self.carry_out(self.calls.heed())
        for receiver in tuple(self.machine.due):
            if (channel := self.channels.get(receiver)) is not None:
                channel.press_on()

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
                case FetchAgain(receiver, call_id):
                    self._fetch_again(receiver, call_id)
                case _:
                    assert_never(effect)

    def let_go(self) -> None:
        """See KeepingSender."""
        self.letting_go.ask()

    def call_again(self, channel: KeepingChannel) -> None:
        """Ask for the outcomes that the receiver must give again in this life. Call under the lock."""
        if channel.receiver in self.machine.due and channel.fetch is not None and not self.goes_back:
            self.carry_out(self.machine.handle(MessagesHanded(channel.receiver, channel.handed)))

    def _fetch_again(self, receiver: str, call_id: int) -> None:
        host = self.peers.find(receiver)
        assert host is not None, f"{receiver} was found before"
        tags = host.answered.remote(pack((self.name, call_id, self.calls.first_open(receiver))))
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

    def acknowledged(self, channel: Any, last: int, batch: InFlight, answer: Answer) -> None:
        """See Sender."""
        super().acknowledged(channel, last, batch, answer)
        self.let_go()

    def find(self, receiver: str) -> Any | None:
        """See DriverPort. Just after a rollback, wait for an actor that nobody knows: its maker may make it again."""
        while (handle := self.peers.find(receiver)) is None and time.monotonic() < self._patient_until:
            try:
                if self.latest is not self or self.down is not None or self.is_there(receiver) is False:
                    break
            except (SystemStopped, SystemRecovering, NoAnswer):
                break
            time.sleep(LOOK_S)
        return handle

    def will_go_back(self) -> None:
        """See DriverPort."""
        assert self.lock.locked()
        if self.latest is self:
            self.goes_back = True

    def end(self, receiver: str, ending: Ending) -> None:
        """See DriverPort. A later life may undo this end."""
        if self.latest is self and receiver not in self.ended:
            super().end(receiver, ending)
            self.let_go()

    def _end_channel(self, receiver: str, detail: str, error: ActorExited) -> None:
        channel = self.channels.get(receiver)
        if channel is not None and channel.down is None:
            channel.awaited.clear()
            channel.end(detail)
            channel.shut(error)
        self.carry_out(self.machine.handle(ReceiverEnded(receiver)))

    def recovering(self, detail: str) -> SystemRecovering:
        """The error of those who cannot wait for the next life."""
        return SystemRecovering(
            f"system {self.system!r} goes back to its last snapshot by itself: {detail}", system=self.system
        )
