"""What a driver did before it asks for a snapshot, on its way into the cut."""

import logging
import time
from collections.abc import Collection, Mapping
from math import inf

from rayshot.runtime.life.driver import DriverPort
from rayshot.runtime.life.progress import wait_with_progress
from rayshot.runtime.wire.initiation import some_names

log = logging.getLogger("rayshot")


class Drain:
    """All that a driver has told and made until now."""

    def __init__(self, port: DriverPort) -> None:
        self._port = port
        self._told = port.told()

    def wait(self, told_s: float, birth_s: float, until: float = inf) -> list[str]:
        """Let it arrive, as far as it does in time.

        Args:
            told_s: so long messages may take when the actors are there.
            birth_s: actors are waited for until none has got ready for so long: those that are left wait for room.
            until: it ends then in any case, by time.monotonic.

        Returns the receivers of what did not arrive. Raises SystemDown.
        """
        port, awaited = self._port, list[str]()
        port.births.wait(birth_s, lambda: port.down is not None or time.monotonic() >= until)
        deadline = min(time.monotonic() + told_s, until)

        def is_done(timeout_s: float) -> bool:
            awaited[:] = port.await_taken(self._told, min(timeout_s, max(0.0, deadline - time.monotonic())))
            return port.births.given_up.issuperset(awaited) or time.monotonic() >= deadline

        wait_with_progress(is_done, lambda: f"waiting for {some_names(awaited)} to take what was told before")
        return awaited

    def left_out(self, sent: Mapping[str, int], ended: Collection[str]) -> dict[str, int]:
        """How many of the messages are behind a cut that holds those up to `sent`, by receiver; says so in the log.

        None are of a receiver that `ended` before the cut: nothing is in flight to it.
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
