"""Before a snapshot: wait until the messages and actors of this driver have arrived, so that the cut holds them."""

import logging
import time
from collections.abc import Collection, Mapping
from math import inf

from rayshot.runtime.life.driver import DriverPort
from rayshot.runtime.life.progress import wait_with_progress
from rayshot.runtime.wire.initiation import some_names

log = logging.getLogger("rayshot")


class Drain:
    """All messages that a driver has sent, and all actors that it has made, until now."""

    def __init__(self, port: DriverPort) -> None:
        self._port = port
        self._told = port.told()
        self.life = port.life.incarnation
        """The life in which it was waited for last."""

    def wait(self, told_s: float, birth_s: float, until: float = inf) -> list[str]:
        """Wait until all of it has arrived, or the time is over.

        Args:
            told_s: seconds that messages may take once the actors have started.
            birth_s: stop waiting for actors when none has got ready for so many seconds: the others wait for room.
            until: the wait ends at this time at the latest, by time.monotonic.

        Returns the receivers of the messages that did not arrive. Raises SystemDown.
        """
        port, awaited = self._port, list[str]()
        births = port.session.births
        births.wait(birth_s, lambda: port.down is not None or time.monotonic() >= until)
        deadline = min(time.monotonic() + told_s, until)

        def is_done(timeout_s: float) -> bool:
            self.life = port.life.incarnation
            awaited[:] = port.await_taken(self._told, min(timeout_s, max(0.0, deadline - time.monotonic())))
            return births.given_up.issuperset(awaited) or time.monotonic() >= deadline

        wait_with_progress(is_done, lambda: f"waiting for {some_names(awaited)} to take what was told before")
        return awaited

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
