"""How a driver goes on that may keep no more, while no snapshot succeeds: it lets go of what has arrived.

It asks the coordinator first. From then on the system goes back to no snapshot without that, until one succeeds.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import DriverEffect, Offer, OfferTaken
from rayshot.protocol.recovering import LetGo
from rayshot.runtime.channel.kept import Budget
from rayshot.runtime.channel.peers import Peers
from rayshot.runtime.door import door
from rayshot.runtime.life.driver_channel import DriverChannel
from rayshot.runtime.life.lasting import Lasting
from rayshot.runtime.wire.following import Covered
from rayshot.runtime.wire.host_identity import HostIdentity

log = logging.getLogger("rayshot")
PAUSE_S = 0.2
"""Seconds between two questions whether the driver may let go."""


class Lets(Protocol):
    """The port of the driver in one life."""

    name: str
    system: str
    incarnation: int
    identity: HostIdentity
    lock: threading.Lock
    machine: Driver
    lasting: Lasting
    budget: Budget
    peers: Peers
    goes_back: bool
    down: Any

    @property
    def latest(self) -> Any:
        """The port of the present life."""

    @property
    def channels(self) -> Mapping[str, DriverChannel]:
        """The channels of this life, by receiver."""

    def carry_out(self, effects: Iterable[DriverEffect]) -> None:
        """Do what the machine orders. Call under the lock."""


class LettingGo:
    """See the module. One for the port of each life. Call everything under the driver's lock."""

    def __init__(self, port: Lets) -> None:
        self._port = port
        self._asks = False
        self._owed: LetGo | None = None

    @property
    def owes(self) -> bool:
        """Whether the driver let go of anything that no durable snapshot is known to hold."""
        return self._owed is not None

    def ask(self) -> None:
        """If the driver may keep no more, ask until it may let go, or has room again.

        It does not ask while too little has arrived: call again when more has.
        """
        port = self._port
        assert port.lock.locked()
        if self._asks or not port.budget.is_spent or port.latest is not port or port.goes_back or port.down:
            return
        offer = port.machine.offer()
        channels = ((port.channels.get(receiver), last) for receiver, last in offer.sent.items())
        if port.budget.is_spent_without(sum(c.kept.size_up_to(last) for c, last in channels if c is not None)):
            return
        self._asks = True
        numbers = (dict(offer.sent), dict(offer.received))
        answer = port.identity.coordinator.let_go.remote(port.name, port.incarnation, *numbers)
        door.when_answered(answer, lambda may: port.peers.submit(lambda: self._answered(offer, may)))

    def _answered(self, offer: Offer, may: Any) -> None:
        """Takes the lock. `may` is an error if the coordinator is just being restarted."""
        port = self._port
        with port.lock:
            if may is True and port.latest is port:
                self._let_go(offer)
            spent = port.budget.is_spent
        if spent:
            time.sleep(PAUSE_S)
        with port.lock:
            self._asks = False
            self.ask()

    def _let_go(self, offer: Offer) -> None:
        port = self._port
        if self._owed is None:
            log.warning(
                "%s lets go of what it told system %r: snapshots fail, and it may keep no more. If anything dies "
                "before one succeeds, the system stops: see system.status()",
                *(port.name, port.system),
            )
        let_go = LetGo(port.incarnation, port.name, offer.sent, offer.received)
        self._owed = let_go.and_before(self._owed)
        port.lasting.creations.covered(offer.sent, ())
        port.carry_out(port.machine.handle(OfferTaken(port.incarnation, offer)))
        for channel in port.channels.values():
            channel.room.notify_all()

    def covered(self, cut: Covered) -> None:
        """A durable snapshot holds this."""
        if self._owed is not None and self._owed.is_held(cut.sent, cut.received, cut.ended):
            self._owed = None
            log.info("snapshot %s holds all that %s let go of", cut.snapshot, self._port.name)
