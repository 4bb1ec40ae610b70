"""How a driver goes on that may keep no more, while no snapshot succeeds: it evicts what has arrived.

It asks the coordinator first. From then on the system goes back to no snapshot without that, until one succeeds.
"""

import logging
import time
from typing import Any

from rayshot.protocol.driver_events import EvictionOffer, OfferTaken
from rayshot.protocol.recovery_events import Evicted
from rayshot.runtime.door import door
from rayshot.runtime.driver.session import DriverSession, PresentLife
from rayshot.runtime.wire.notifications import Covered

log = logging.getLogger("rayshot")
PAUSE_S = 0.2
"""Seconds between two questions whether the driver may evict."""


class Eviction:
    """See the module. One for each life. Call everything under the driver's lock."""

    def __init__(self, session: DriverSession, life: PresentLife) -> None:
        self._session, self._life = session, life
        self._asks = False
        self._evicted: Evicted | None = None

    @property
    def outstanding(self) -> bool:
        """Whether the driver evicted anything that no durable snapshot is known to hold."""
        return self._evicted is not None

    def ask(self) -> None:
        """If the driver may keep no more, ask until it may evict, or has room again.

        It does not ask while too little has arrived: call again when more has.
        """
        session, life = self._session, self._life
        assert session.lock.locked()
        if self._asks or not session.budget.is_spent or session.life is not life or life.rolls_back or session.down:
            return
        offer = session.machine.offer()
        channels = ((session.channels.get(receiver), last) for receiver, last in offer.sent.items())
        if session.budget.is_spent_without(sum(c.retained.size_up_to(last) for c, last in channels if c is not None)):
            return
        self._asks = True
        numbers = (dict(offer.sent), dict(offer.received), dict(offer.owed))
        answer = life.identity.coordinator.evict.remote(session.name, life.incarnation, *numbers)
        door.when_answered(answer, lambda may: life.peers.submit(lambda: self._answered(offer, may)))

    def _answered(self, offer: EvictionOffer, may: Any) -> None:
        """Takes the lock. `may` is an error if the coordinator is just being restarted."""
        session = self._session
        with session.lock:
            if may is True and session.life is self._life:
                self._evict(offer)
            spent = session.budget.is_spent
        if spent:
            time.sleep(PAUSE_S)
        with session.lock:
            self._asks = False
            self.ask()

    def _evict(self, offer: EvictionOffer) -> None:
        session, life = self._session, self._life.incarnation
        if self._evicted is None:
            log.warning(
                "%s evicts what it told system %r: snapshots fail, and it may keep no more. If anything dies "
                "before one succeeds, the system stops: see system.status()",
                *(session.name, session.system),
            )
        evicted = Evicted(life, session.name, offer.sent, offer.received, owed=offer.owed)
        self._evicted = evicted.and_before(self._evicted)
        session.carry_out(session.machine.handle(OfferTaken(life, offer)))
        for channel in session.channels.values():
            channel.room.notify_all()

    def covered(self, cut: Covered) -> None:
        """A durable snapshot holds this."""
        if self._evicted is not None and self._evicted.is_held(cut.sent, cut.received, cut.ended, cut.owed):
            self._evicted = None
            log.info("snapshot %s holds all that %s evicted", cut.snapshot, self._session.name)
