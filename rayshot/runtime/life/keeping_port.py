"""A driver whose system goes back to its snapshots by itself: its port in one life, and how the next one follows."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from rayshot.errors import NoAnswer, SystemDown, SystemRecovering, SystemStopped
from rayshot.model.handle import ActorHandle
from rayshot.model.specification import ActorSpecification
from rayshot.runtime.actor.spawning import name_taken
from rayshot.runtime.life.covering import await_covered
from rayshot.runtime.life.driver import DriverPort
from rayshot.runtime.life.driver_channel import ROOM_WAIT_S, DriverChannel
from rayshot.runtime.life.lasting import Lasting
from rayshot.runtime.wire.answers import RECOVERY_WAIT_S
from rayshot.runtime.wire.host_identity import HostIdentity

RETURN_S, LOOK_S = 15.0, 0.2
"""After a rollback some actors are made again by others: a driver looks so many seconds for a receiver, with pauses."""


class KeepingPort(DriverPort):
    """See DriverPort. `latest` is the port of the present life; that of a life that is over raises SystemRecovering.

    `goes_back`: the driver has heard that this life is over, and not yet of the next one. `news` is notified when it
    hears. The lives' ports share their lock, so a port passes everything on in one step.
    """

    keeps = True

    def __init__(self, identity: HostIdentity, lasting: Lasting | None = None, label: str = "") -> None:
        self._patient_until = 0.0 if lasting is None else time.monotonic() + RETURN_S
        super().__init__(identity, lasting, label)
        self.noted = self.lasting.creations
        self.news = threading.Condition(self.lock)

    @property
    def latest(self) -> "KeepingPort":
        """See DriverPort."""
        return cast("KeepingPort", self.lasting.port)

    # Port ------------------------------------------------------------------------------------------------------

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
