"""How a driver follows a system that goes back to its snapshots by itself: one long call for news after the other."""

import contextlib
import logging
import threading
import time

from rayshot.errors import SystemDown, SystemStopped
from rayshot.runtime.door import door
from rayshot.runtime.life.driver import DriverPort
from rayshot.runtime.life.presence import AGAIN_S
from rayshot.runtime.life.succession import cover, go_back
from rayshot.runtime.wire.following import Covered, News, WentBack
from rayshot.runtime.wire.host_identity import Stop

log = logging.getLogger("rayshot")
FOLLOW_S = 300.0
SILENT_S = 45.0
"""Much longer than the coordinator holds a call, see `tidings`."""


class Following:
    """Asks the coordinator for news while the driver's port takes messages, and this process is in the cluster.

    No thread waits for the answers: each is heeded on a thread of its own, and then the next call is made. The
    coordinator answers after some seconds, if there are no news. So a call that brings no answer for SILENT_S was lost
    with a node or a connection, and is made anew.
    """

    def __init__(self, port: DriverPort) -> None:
        self._port = port
        self._position = 0
        self._followed = port.life.incarnation
        self._asked = 0
        self._ask()

    def _ask(self) -> None:
        port, life = self._port, self._port.life
        if port.down is None and door.is_joined():
            self._asked += 1
            asked = self._asked
            news = life.identity.coordinator.news.remote(port.name, life.incarnation, self._position, self._followed)
            patience = threading.Timer(SILENT_S, life.peers.submit, (lambda: self._lost(asked),))
            patience.daemon = True
            patience.start()
            door.when_answered(news, lambda answer: life.peers.submit(lambda: self._answered(answer, asked, patience)))

    def _lost(self, asked: int) -> None:
        if asked == self._asked:
            log.info("%s asks anew for the news of system %r", self._port.name, self._port.system)
            self._ask()

    def _answered(self, answer: News | Exception, asked: int, patience: threading.Timer) -> None:
        patience.cancel()
        if asked != self._asked:
            return  # a later call brings the same
        if isinstance(answer, door.Died) or self._port.down is not None:
            return  # see Presence
        try:
            self._heed(answer)
        except Exception as error:
            self._port.close(
                SystemStopped(
                    f"this program cannot follow system {self._port.system!r} any more, as its log says: {error!r}",
                    system=self._port.system,
                )
            )
            raise
        self._ask()

    def _follow(self) -> None:
        """Tell the coordinator when all that had to be told again has arrived."""
        port, life = self._port, self._port.life
        with contextlib.suppress(SystemDown):
            if not port.await_taken(port.told(), FOLLOW_S) and not life.is_over:
                self._followed = life.incarnation
                life.identity.coordinator.followed.remote(port.name, life.incarnation)

    def _heed(self, answer: News | Exception) -> None:
        match answer:
            case None:
                pass
            case Stop():
                self._port.close(answer.error())
            case Covered():
                cover(self._port, answer)
                self._position = answer.position
            case WentBack():
                if answer.identity.incarnation > self._port.life.incarnation:
                    go_back(self._port, answer)
                    self._port.session.recoveries.runs(answer.identity.incarnation)
                    self._port.life.peers.submit(self._follow)
                self._position = answer.position
            case _:  # the coordinator is being restarted
                log.debug("%s hears no news: %s", self._port.name, answer)
                time.sleep(AGAIN_S)
