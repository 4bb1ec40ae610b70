"""What a driver does with the news of its system: durable snapshots cover what it keeps, and a later life begins."""

from collections.abc import Collection

from rayshot.model.specification import ActorSpecification
from rayshot.protocol.driver_events import CutCommitted, SystemRolledBack
from rayshot.runtime.door import door
from rayshot.runtime.driver.life import DriverLife
from rayshot.runtime.driver.maker import Maker
from rayshot.runtime.driver.session import DriverSession, PresentLife
from rayshot.runtime.wire.host_identity import Ending
from rayshot.runtime.wire.notifications import Covered, WentBack

RETURN_S = 15.0
"""After a rollback some actors are made again by others: a driver looks so many seconds for a receiver."""


def cover(session: DriverSession, cut: Covered) -> None:
    """A durable snapshot holds what it says: the driver releases it. Takes the lock."""
    with session.lock:
        life = session.life
        if cut.snapshot.incarnation != life.incarnation:
            return
        session.take_news()  # of calls that are forgotten now, too, nobody else fetches the outcomes
        _bury(life, session, cut.ended)
        effects = session.machine.handle(CutCommitted(cut.snapshot, cut.sent, cut.ended, cut.received, cut.owed))
        _forget(session, cut.ended)
        life.eviction.covered(cut)
        session.carry_out(effects)
        for channel in session.channels.values():
            channel.room.notify_all()


def _bury(life: PresentLife, session: DriverSession, ended: Collection[str]) -> None:
    """These actors have ended for ever."""
    for receiver in session.channels.keys() & ended:
        life.end(receiver, Ending(f"actor {receiver!r} has ended"))


def _forget(session: DriverSession, ended: Collection[str]) -> None:
    """No later life can need anything that is kept of these actors."""
    for receiver in session.channels.keys() & ended:
        session.forget(receiver)


def roll_back(session: DriverSession, maker: Maker, back: WentBack) -> None:
    """The system went back to a snapshot: the driver goes on in its next life. Takes the lock."""
    succession = Succession(session, maker, back)
    while session.down is None and door.is_joined():
        succession.make_actors()
        with session.lock:
            if session.down is None and succession.take_over():
                return


class Succession:
    """The step into the next life of a system. `back` says which life, and from where it goes on."""

    def __init__(self, session: DriverSession, maker: Maker, back: WentBack) -> None:
        self._session, self._maker, self._back = session, maker, back
        self._life = DriverLife(session, back.identity, RETURN_S)
        self._made: set[str] = set()

    def _missing(self) -> dict[str, ActorSpecification]:
        """The driver's actors that the snapshot lacks, in the order in which it made them. Call under the lock."""
        names = self._session.machine.missing(self._back.sent, self._back.ended)
        return {name: self._session.creations[name] for name in names}

    def make_actors(self) -> None:
        """Make the driver's actors that the snapshot lacks. Ray is called, so nobody may hold the lock.

        The snapshot may hold an actor without its creation: then the coordinator has brought the actor back. Until all
        are there, `take_over` returns False: otherwise an actor would be lost.
        """
        session = self._session
        with session.lock:
            missing = self._missing()
            over = session.life.ended.keys()
        names = sorted(missing.keys() - self._made, key=over.__contains__)
        # processes start slowly: first of those that live on
        self._made |= self._maker.make_again(self._life, {name: missing[name] for name in names})

    def take_over(self) -> bool:
        """Go on in the next life, with everything that the driver has. Call under the lock.

        Returns False, and does nothing, if there are more actors to make before.
        """
        session, old, life, back = self._session, self._session.life, self._life, self._back
        assert session.lock.locked()
        missing = self._missing()
        if not missing.keys() <= self._made:
            return False
        old.rolls_back = True  # it sends nothing more
        _bury(old, session, back.ended)
        for name in session.machine.starting - missing.keys():
            session.creations.started(name)
        numbers = back.sent, back.ended, back.received, back.owed
        effects = session.machine.handle(SystemRolledBack(life.incarnation, *numbers))
        _forget(session, back.ended)
        for name, specification in missing.items():
            session.creations.add(name, specification)
        life.made_again = frozenset(missing.keys() - old.ended.keys())
        life.ended.update((name, error) for name, error in old.ended.items() if name in back.ended)
        for receiver, channel in session.channels.items():
            channel.roll_back(life, back.sent.get(receiver, 0))
        session.dead_letters.life = life.incarnation
        session.life = life  # after the channels: who sees it finds no method of an earlier life there
        session.news.notify_all()
        session.carry_out(effects)
        for channel in session.channels.values():
            channel.go_on()
        life.evict()
        return True
