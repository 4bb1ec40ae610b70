"""How a driver follows a system that goes back to its snapshots by itself: one long call for news after the other."""

import contextlib
import logging
import threading
import time

from rayshot.errors import SystemDown, SystemStopped
from rayshot.runtime.door import door
from rayshot.runtime.driver.liveness import AGAIN_S
from rayshot.runtime.driver.maker import Maker
from rayshot.runtime.driver.session import DriverSession
from rayshot.runtime.driver.succession import cover, roll_back
from rayshot.runtime.wire.host_identity import Stop
from rayshot.runtime.wire.notifications import Covered, Notification, WentBack

log = logging.getLogger("rayshot")
FOLLOW_S = 300.0
SILENT_S = 45.0
"""Much longer than the coordinator holds a call, see `notifications`."""


class Subscription:
    """Asks the coordinator for news while the driver takes messages, and this process is in the cluster.

    No thread waits for the answers: each is heeded on a thread of its own, and then the next call is made. The
    coordinator answers after some seconds, if there are no news. So a call that brings no answer for SILENT_S was lost
    with a node or a connection, and is made anew.
    """

    def __init__(self, session: DriverSession, maker: Maker) -> None:
        self._session, self._maker = session, maker
        self._position = 0
        self._followed = session.life.incarnation
        self._asked = 0
        self._ask()

    def _ask(self) -> None:
        session, life = self._session, self._session.life
        if session.down is None and door.is_joined():
            self._asked += 1
            asked = self._asked
            news = life.identity.coordinator.news.remote(session.name, life.incarnation, self._position, self._followed)
            patience = threading.Timer(SILENT_S, life.peers.submit, (lambda: self._lost(asked),))
            patience.daemon = True
            patience.start()
            door.when_answered(news, lambda answer: life.peers.submit(lambda: self._answered(answer, asked, patience)))

    def _lost(self, asked: int) -> None:
        if asked == self._asked:
            log.info("%s asks anew for the news of system %r", self._session.name, self._session.system)
            self._ask()

    def _answered(self, answer: Notification | Exception, asked: int, patience: threading.Timer) -> None:
        patience.cancel()
        if asked != self._asked:
            return  # a later call brings the same
        if isinstance(answer, door.Died) or self._session.down is not None:
            return  # see Liveness
        try:
            self._notified(answer)
        except Exception as error:
            self._session.close(
                SystemStopped(
                    f"this program cannot follow system {self._session.system!r} any more, as its log says: {error!r}",
                    system=self._session.system,
                )
            )
            raise
        self._ask()

    def _follow(self) -> None:
        """Tell the coordinator when all that had to be told again has arrived."""
        session, life = self._session, self._session.life
        with contextlib.suppress(SystemDown):
            if not session.await_taken(session.told(), FOLLOW_S) and not life.is_over:
                self._followed = life.incarnation
                life.identity.coordinator.followed.remote(session.name, life.incarnation)

    def _notified(self, answer: Notification | Exception) -> None:
        match answer:
            case None:
                pass
            case Stop():
                self._session.close(answer.error())
            case Covered():
                cover(self._session, answer)
                self._position = answer.position
            case WentBack():
                if answer.identity.incarnation > self._session.life.incarnation:
                    roll_back(self._session, self._maker, answer)
                    self._session.recoveries.hear(answer.identity.incarnation)
                    self._session.life.peers.submit(self._follow)
                self._position = answer.position
            case _:  # the coordinator is being restarted
                log.debug("%s hears no news: %s", self._session.name, answer)
                time.sleep(AGAIN_S)
