"""What a driver does with the news of its system: durable snapshots cover what it keeps, and a later life begins."""

import logging
import time
from collections.abc import Collection

from rayshot.errors import ConfigError, NameTaken, RayshotError
from rayshot.protocol.driver_events import CutCommitted, RolledBack
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import spawn_host
from rayshot.runtime.door import door
from rayshot.runtime.life.keeping_port import KeepingPort
from rayshot.runtime.life.presence import AGAIN_S
from rayshot.runtime.wire.following import Covered, WentBack
from rayshot.runtime.wire.host_identity import Ending

log = logging.getLogger("rayshot")


def cover(port: KeepingPort, cut: Covered) -> None:
    """A durable snapshot holds what it says: the driver lets go of it. Takes the lock."""
    with port.lock:
        if port.latest is not port or cut.snapshot.incarnation != port.incarnation:
            return
        port.heed()  # of calls that are forgotten now, too, nobody else fetches the outcomes
        _bury(port, cut.ended)
        effects = port.machine.handle(CutCommitted(cut.snapshot, cut.sent, cut.ended, cut.received))
        _let_go(port, cut)
        port.letting_go.covered(cut)
        port.carry_out(effects)
        for channel in port.channels.values():
            channel.room.notify_all()


def _bury(port: KeepingPort, ended: Collection[str]) -> None:
    """These actors have ended for ever."""
    for receiver in port.channels.keys() & ended:
        port.end(receiver, Ending(f"actor {receiver!r} has ended"))


def _let_go(port: KeepingPort, cut: Covered | WentBack) -> None:
    """Forget what no later life can need."""
    for receiver in port.channels.keys() & cut.ended:
        port.channels.pop(receiver).discard()
    port.lasting.creations.covered(cut.sent, cut.ended)


class Heir:
    """The port of the life that follows on the life of `old`. `back` says which, and from where it goes on."""

    def __init__(self, old: KeepingPort, back: WentBack) -> None:
        self.port = KeepingPort(back.identity, old.lasting)
        self._old = old
        self._back = back
        self._made: set[str] = set()

    def make_actors(self) -> None:
        """Make the driver's actors that the snapshot lacks. Ray is called, so nobody may hold the lock.

        The snapshot may hold an actor without its creation: then the coordinator has brought the actor back. While
        nobody says so, or Ray makes no process, `take_over` returns False: otherwise the actor would be lost.
        """
        port, lasting = self.port, self._old.lasting
        with port.lock:
            missing = lasting.creations.without(self._back.sent, self._back.ended)
            over = self._old.ended.keys()
        for name in sorted(missing, key=over.__contains__):  # processes start slowly: first of those that live on
            specification = missing[name]
            if name in self._made or not door.is_joined():  # otherwise to ask would start Ray anew
                continue
            try:
                if port.is_there(name) is None:
                    port.peers.know(name, spawn_host(Host, port.identity, specification, name, maker=port.name))
            except (NameTaken, ConfigError) as error:
                log.warning("%s: actor %r cannot be made again: %s", port.name, name, error)
            except (RayshotError, door.CallFailed) as error:
                log.warning("%s: actor %r cannot be made again yet: %r", port.name, name, error)
                time.sleep(AGAIN_S)
                continue
            self._made.add(name)

    def take_over(self) -> bool:
        """Go on with everything that the old port has; it raises SystemRecovering from now on. Call under the lock.

        Returns False, and does nothing, if there are more actors to make before.
        """
        port, old, back = self.port, self._old, self._back
        assert port.lock.locked()
        missing = old.lasting.creations.without(back.sent, back.ended).keys()
        if not missing <= self._made:
            return False
        old.goes_back = True  # it sends nothing more
        _bury(old, back.ended)
        effects = old.machine.handle(RolledBack(port.incarnation, back.sent, back.ended, back.received))
        _let_go(old, back)
        for name in old.starting - missing:
            port.births.started(name)
        for name in missing:
            port.starting.add(name)
            port.births.add(name)
        port.made_again = frozenset(missing - old.ended.keys())
        port.ended.update((name, error) for name, error in old.ended.items() if name in back.ended)
        port.lasting.port = port  # before the old port refuses anything: who is refused looks there
        self._take_channels()
        port.carry_out(effects)
        for channel in port.channels.values():
            channel.go_on()
        port.let_go()
        return True

    def _take_channels(self) -> None:
        port, old = self.port, self._old
        old.down = old.recovering("this part of the program knows only a life that is over")
        port.channels, old.channels = old.channels, {}
        for receiver, channel in port.channels.items():
            channel.go_back(port, self._back.sent.get(receiver, 0))
        for handle in port.lasting.handles.values():
            handle._port = port  # noqa: SLF001 - it is the port's own
        old.news.notify_all()
