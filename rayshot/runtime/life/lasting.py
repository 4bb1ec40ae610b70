"""What a driver keeps through all lives of its system."""

import threading
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol

from rayshot.format.codec import Codec
from rayshot.model.dead_letters import DeadLetters
from rayshot.model.handle import ActorHandle
from rayshot.protocol.driver import Driver
from rayshot.runtime.channel.kept import Budget
from rayshot.runtime.door.naming import new_driver_name
from rayshot.runtime.life.births import Births
from rayshot.runtime.life.calls import Calls
from rayshot.runtime.life.creations import Creations
from rayshot.runtime.life.durable_calls import DurableCalls
from rayshot.runtime.life.presence import Orphan, Presence, outlast_coordinator
from rayshot.runtime.life.recovery_news import RecoveryNews
from rayshot.runtime.wire.dropping import Dropped
from rayshot.runtime.wire.host_identity import HostIdentity

if TYPE_CHECKING:
    from rayshot.errors import SystemStopped


class PortOfLife(Orphan, Protocol):
    """What lasts asks this of the driver's port in the present life."""

    noted: Container[str]
    """The actors that messages must not mention before they have started; see DriverChannel."""

    def handle_of(self, name: str) -> ActorHandle:
        """This driver's handle of the actor `name`."""

    def can_answer(self, receiver: str) -> bool:
        """Whether an actor is connected or gone. Before that, it cannot have answered. Call under the lock."""

    def end_dropped(self, name: str) -> None:
        """Nobody holds a handle of the anonymous actor `name` any more."""


class Lasting:
    """See the module. `port` is the driver's port in the present life; `lock` covers it, its channels and all of this.

    `label` is the name under which the program attached, if any. `handles` are the handles that the driver gave out, by
    name. Systems that do not go back by themselves have one life; see `Driver.keeps`. `left` is the error after the
    program left the Ray cluster.
    """

    def __init__(self, identity: HostIdentity, port: PortOfLife, label: str = "") -> None:
        self.port = port
        self.name = new_driver_name(label)
        self.lock = threading.Lock()
        self.codec = Codec(ActorHandle, self._mention, self._handle_of)
        self._encoding = threading.local()
        self._system = identity.system
        self.machine = Driver(self.name, identity.incarnation, keeps=identity.heals)
        self.calls = Calls(self.machine, self._can_answer)
        self.births = Births(self._find)
        self.dead_letters = DeadLetters()
        self.handles: dict[str, ActorHandle] = {}
        self.creations = Creations()
        self.budget = Budget(limited=identity.heals)
        self.left: SystemStopped | None = None
        self.recoveries = RecoveryNews()
        self.dropped = Dropped(self._end_dropped)
        self.durable_calls = DurableCalls(self._end_dropped)
        self.presence = Presence(self.name, identity, self._insist, self._lose_coordinator)

    def take_mentioned(self) -> set[str]:
        """See DriverSender. A life may end between the encoding of a message and this."""
        mentioned: set[str] = self._encoding.__dict__.pop("mentioned", set())
        return mentioned

    def _mention(self, handle: ActorHandle) -> str:
        handle.give_out()
        name = handle.name_in(self._system)
        if name in self.port.noted:
            self._encoding.__dict__.setdefault("mentioned", set()).add(name)
        return name

    # Others that last ask for the port when they need it: a later life has another one.

    def _handle_of(self, name: str) -> ActorHandle:
        return self.port.handle_of(name)

    def _can_answer(self, receiver: str) -> bool:
        return self.port.can_answer(receiver)

    def _find(self, name: str) -> Any | None:
        return self.port.peers.find(name)

    def _end_dropped(self, name: str) -> None:
        if not self.durable_calls.postpone(name):
            self.port.end_dropped(name)

    def _insist(self, task: Callable[[], None]) -> None:
        self.port.peers.insist(task, lambda: False)

    def _lose_coordinator(self, detail: str) -> None:
        outlast_coordinator(self.port, detail)
