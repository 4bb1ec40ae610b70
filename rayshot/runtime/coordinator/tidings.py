"""What drivers must hear of a system that heals itself: which of their messages are safe, and that it went back.

Drivers keep what they told until a durable snapshot holds it. So each keeps one call open here.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rayshot.format.manifest import Manifest
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import SnapshotId, is_driver
from rayshot.runtime.wire.following import Covered, News, WentBack
from rayshot.runtime.wire.host_identity import HostIdentity, Stop

HOLD_S = 10.0
"""Without news the coordinator answers after so many seconds, and the driver calls again: a connection that was lost
unnoticed would bring no news for ever."""

Numbers = Mapping[str, dict[str, int]]
"""Driver -> receiver -> number."""


class Holds(NamedTuple):
    """What a durable snapshot holds of drivers. `position` is that of the record in the log that says so."""

    position: int
    snapshot: SnapshotId
    sent: Numbers
    received: Numbers
    ended: frozenset[str]


def holds_of_cut(position: int, cut: Cut) -> Holds:
    """As a cut has it that was just committed."""
    channels = ((c.channel.sender, c.channel.receiver, c.sent, c.received) for c in cut.channels)
    return _holds(position, cut.snapshot, channels, frozenset(cut.ended))


def holds_of_manifest(position: int, manifest: Manifest) -> Holds:
    """As a stored snapshot has it."""
    channels = ((c.sender, c.receiver, c.sent, c.received) for c in manifest.channels)
    return _holds(position, manifest.snapshot, channels, frozenset(manifest.ended))


def _holds(
    position: int, snapshot: SnapshotId, channels: Iterable[tuple[str, str, int, int]], ended: frozenset[str]
) -> Holds:
    sent: dict[str, dict[str, int]] = {}
    received: dict[str, dict[str, int]] = {}
    for sender, receiver, n, m in channels:
        if is_driver(sender):
            sent.setdefault(sender, {})[receiver] = n
            received.setdefault(sender, {})[receiver] = m
    return Holds(position, snapshot, sent, received, ended)


class Tidings:
    """The news of one life. `origin` is what the life went on from, if it went on from a snapshot by itself."""

    def __init__(self, incarnation: int, identity: Callable[[], HostIdentity]) -> None:
        self._incarnation = incarnation
        self._identity = identity
        self._changed = threading.Condition()
        self._origin: Holds | None = None
        self._covered: Holds | None = None
        self._stop: Stop | None = None
        self._over = False

    def runs(self, origin: Holds) -> None:
        """The life runs, and went on from there."""
        with self._changed:
            self._origin = origin
            self._changed.notify_all()

    def covered(self, holds: Holds) -> None:
        """A snapshot that advances was committed."""
        with self._changed:
            self._covered = holds
            self._changed.notify_all()

    @property
    def newest(self) -> Holds | None:
        """What the newest snapshot of this life that advances holds."""
        return self._covered

    def end(self, stop: Stop | None) -> None:
        """The life is over: for good with `stop`, else the next one has its own news."""
        with self._changed:
            self._stop, self._over = stop, True
            self._changed.notify_all()

    def wait(self, driver: str, life: int, position: int) -> News:
        """The news for a driver that knows this life, and this position of the log. See `following.News`."""
        deadline = time.monotonic() + HOLD_S
        with self._changed:
            while True:
                if self._stop is not None:
                    return self._stop
                news = self._news(driver, life, position)
                left_s = deadline - time.monotonic()
                if news is not None or self._over or left_s <= 0:
                    return news
                self._changed.wait(left_s)

    def _news(self, driver: str, life: int, position: int) -> News:
        covered, origin = self._covered, self._origin
        if life < self._incarnation:
            if origin is None:
                return None
            told = (origin.sent.get(driver, {}), origin.received.get(driver, {}), origin.ended)
            return WentBack(self._identity(), origin.position, *told)
        if covered is None or covered.position <= position:
            return None
        told = (covered.sent.get(driver, {}), covered.received.get(driver, {}), covered.ended)
        return Covered(covered.position, covered.snapshot, *told)
