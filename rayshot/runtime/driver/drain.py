"""Before a snapshot: wait until the messages and actors of this driver have arrived, so that the cut holds them."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from math import inf

from rayshot.runtime.door import door
from rayshot.runtime.driver.progress import wait_with_progress
from rayshot.runtime.driver.session import DriverSession
from rayshot.runtime.wire.initiation import some_names

log = logging.getLogger("rayshot")
LOOK_S, POLL_S = 0.1, 0.02
BIRTH_S = 10.0
"""If no actor gets ready for so many seconds, the others seem to wait for room, and a snapshot goes on without them."""
STOP_S = 30.0
"""Seconds that messages sent before a system stops have to arrive: otherwise they would be lost."""


class Drain:
    """All messages that a driver has sent, and all actors that it has made, until now."""

    def __init__(self, session: DriverSession) -> None:
        self._session = session
        self._told = session.told()
        self.life = session.life.incarnation
        """The life in which it was waited for last."""

    def wait(self, told_s: float, until: float = inf, *, birth_s: float | None = None) -> list[str]:
        """Wait until all of it has arrived, or the time is over.

        Args:
            told_s: seconds that messages may take once the actors have started.
            until: the wait ends at this time at the latest, by time.monotonic.
            birth_s: stop waiting for actors when none has got ready for so many seconds; None for BIRTH_S.

        Returns the receivers of the messages that did not arrive. Raises SystemDown.
        """
        session, awaited = self._session, list[str]()
        within_s = BIRTH_S if birth_s is None else birth_s
        self._await_constructors(within_s, lambda: session.down is not None or time.monotonic() >= until)
        deadline = min(time.monotonic() + told_s, until)

        def is_done(timeout_s: float) -> bool:
            self.life = session.life.incarnation
            awaited[:] = session.await_taken(self._told, min(timeout_s, max(0.0, deadline - time.monotonic())))
            return session.creations.given_up.issuperset(awaited) or time.monotonic() >= deadline

        wait_with_progress(is_done, lambda: f"waiting for {some_names(awaited)} to take what was told before")
        return awaited

    def _await_constructors(self, patience_s: float, is_over: Callable[[], bool]) -> None:
        """Wait until all are constructed or `is_over`. Give up the rest if none gets ready for `patience_s` seconds."""
        creations, before, due = self._session.creations, set[str](), 0.0

        def is_done(timeout_s: float) -> bool:
            nonlocal before, due
            until = time.monotonic() + timeout_s
            while (now := time.monotonic()) < until:
                awaited = creations.awaited
                if not awaited or is_over():
                    return True
                if awaited != before:
                    before, due = awaited, now + patience_s
                elif now >= due:
                    creations.give_up(awaited)
                    return True
                self._look(awaited)
                time.sleep(POLL_S)
            return False

        wait_with_progress(is_done, lambda: f"waiting for {some_names(creations.awaited)} to start")

    def _look(self, names: set[str]) -> None:
        hosts = {name: self._session.find(name) for name in names}
        refs = {name: host.status.remote() for name, host in sorted(hosts.items()) if host is not None}
        ready, _ = door.wait(list(refs.values()), num_returns=len(refs), timeout=LOOK_S) if refs else ([], [])
        for name in names:
            if name not in refs or (refs[name] in ready and _is_done(refs[name])):
                self._session.creations.constructed(name)

    def left_out(self, sent: Mapping[str, int], ended: Collection[str]) -> dict[str, int]:
        """Count by receiver the messages that the cut does not hold, and log a warning if there are any.

        The cut holds the messages up to number `sent`. Receivers that `ended` before the cut do not count: nothing is
        in flight to them.
        """
        left = {
            channel.receiver: last - sent.get(channel.receiver, 0)
            for channel, last in self._told.items()
            if last > sent.get(channel.receiver, 0) and channel.down is None and channel.receiver not in ended
        }
        if left:
            counts = ", ".join(f"{count:,} to {receiver}" for receiver, count in left.items())
            log.warning("the snapshot does not hold %s, which this program had told before: not yet taken", counts)
        return left


def _is_done(answer: object) -> bool:
    """Whether a host's status says that its actor is constructed, or never will be."""
    try:
        status = door.get(answer)
    except door.CallFailed:  # it died: the system stops
        return True
    return bool(status["born"] or status["down"])
