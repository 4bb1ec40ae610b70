"""What drivers must hear of a system that heals itself: which of their messages are safe, and that it went back.

Drivers keep what they told until a durable snapshot holds it. So each keeps one call open here.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rayshot.format.manifest import Manifest
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import NOTHING_OWED, Owed, SnapshotId, is_driver
from rayshot.runtime.wire.host_identity import HostIdentity, Stop
from rayshot.runtime.wire.notifications import Covered, Notification, WentBack

HOLD_S = 10.0
"""Without news the coordinator answers after so many seconds, and the driver calls again: a connection that was lost
unnoticed would bring no news for ever."""
CALLS_MAX = 64
"""So many calls wait here at a time; others queue behind them, until there are news or a call was held long enough."""
ROUND_S = 20.0
"""Each driver has its turn within so many seconds, however many there are: later it takes its call for lost."""


class DriverNumbers(NamedTuple):
    """What a durable snapshot holds of one driver: see `wire.notifications`."""

    sent: Mapping[str, int]
    received: Mapping[str, int]
    ended: frozenset[str]
    owed: Owed = NOTHING_OWED


class DurableNumbers(NamedTuple):
    """What a durable snapshot holds of drivers. `position` is that of the record in the log that says so."""

    position: int
    snapshot: SnapshotId
    drivers: Mapping[str, DriverNumbers]
    ended: frozenset[str]

    def of(self, driver: str) -> DriverNumbers:
        """What it holds of this driver."""
        return self.drivers.get(driver) or DriverNumbers({}, {}, self.ended)


def holds_of_cut(position: int, cut: Cut) -> DurableNumbers:
    """As a cut has it that was just committed."""
    channels = ((*c.channel, c.sent, c.received, c.owed) for c in cut.channels)
    return _holds(position, cut.snapshot, channels, frozenset(cut.ended))


def holds_of_manifest(position: int, manifest: Manifest) -> DurableNumbers:
    """As a stored snapshot has it."""
    channels = ((c.sender, c.receiver, c.sent, c.received, c.owed) for c in manifest.channels)
    return _holds(position, manifest.snapshot, channels, frozenset(manifest.ended))


def _holds(
    position: int,
    snapshot: SnapshotId,
    channels: Iterable[tuple[str, str, int, int, tuple[int, ...]]],
    ended: frozenset[str],
) -> DurableNumbers:
    found: dict[str, tuple[dict[str, int], dict[str, int], dict[str, tuple[int, ...]]]] = {}
    for sender, receiver, n, m, unanswered in channels:
        if is_driver(sender):
            sent, received, owed = found.setdefault(sender, ({}, {}, {}))
            sent[receiver], received[receiver] = n, m
            if unanswered:
                owed[receiver] = unanswered
    drivers = {name: DriverNumbers(sent, received, ended, owed) for name, (sent, received, owed) in found.items()}
    return DurableNumbers(position, snapshot, drivers, ended)


def hold_s(drivers: int) -> float:
    """How long to hold the call of one of so many drivers if there are no news."""
    return min(HOLD_S, ROUND_S * CALLS_MAX / max(1, drivers))


class Notifications:
    """The news of one life. `origin` is what the life went on from, if it went on from a snapshot by itself."""

    def __init__(self, incarnation: int, identity: Callable[[], HostIdentity]) -> None:
        self._incarnation = incarnation
        self._identity = identity
        self._changed = threading.Condition()
        self._origin: DurableNumbers | None = None
        self._covered: DurableNumbers | None = None
        self._stop: Stop | None = None
        self._next: Notifications | None = None

    def runs(self, origin: DurableNumbers) -> None:
        """The life runs, and went on from there."""
        with self._changed:
            self._origin = origin
            self._changed.notify_all()

    def covered(self, holds: DurableNumbers) -> None:
        """A snapshot that advances was committed."""
        with self._changed:
            self._covered = holds
            self._changed.notify_all()

    @property
    def newest(self) -> DurableNumbers | None:
        """What the newest snapshot of this life that advances holds."""
        return self._covered

    def stop(self, stop: Stop) -> None:
        """The system is over."""
        with self._changed:
            self._stop = stop
            self._changed.notify_all()

    def pass_on(self, following: "Notifications") -> None:
        """The system goes back: those who wait here wait for the news of the next life from now on."""
        with self._changed:
            self._next = following
            self._changed.notify_all()

    def wait(self, driver: str, life: int, position: int, held_s: float) -> Notification:
        """The news for a driver that knows this life, and this position of the log. See `wire.notifications`.

        Without news it answers after `held_s` seconds, also while the system waits for its next life.
        """
        deadline = time.monotonic() + held_s
        with self._changed:
            while self._next is None:
                news = self._news(driver, life, position) if self._stop is None else self._stop
                left_s = deadline - time.monotonic()
                if news is not None or left_s <= 0:
                    return news
                self._changed.wait(left_s)
        return self._next.wait(driver, life, position, deadline - time.monotonic())

    def _news(self, driver: str, life: int, position: int) -> Notification:
        covered, origin = self._covered, self._origin
        if life < self._incarnation:
            if origin is None:
                return None
            return WentBack(self._identity(), origin.position, *origin.of(driver))
        if covered is None or covered.position <= position:
            return None
        return Covered(covered.position, covered.snapshot, *covered.of(driver))
