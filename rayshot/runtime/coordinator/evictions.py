"""What drivers evicted in one life, because they may keep no more and no snapshot succeeds.

While anything of it stands, the system cannot go back to the snapshots that it has: see `rayshot.protocol.recovery`.
"""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from rayshot.protocol.recovery_events import Evicted
from rayshot.runtime.coordinator.notifications import DurableNumbers
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door import notes
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.packets import pack, unpack

log = logging.getLogger("rayshot")
FRUITLESS_MAX = 2
"""Drivers may evict when so many snapshots in a row failed."""


class Evictions:
    """See the module. `lock` is the system's; call all but `take` and `strike` under it.

    The notes are in Ray's control service. They may say more than what stands, never less: a coordinator that is
    started again then goes back to fewer snapshots than it could.
    """

    def __init__(self, system: str, incarnation: int, lock: SystemLock) -> None:
        self._system, self._incarnation, self._lock = system, incarnation, lock
        self._notes = notes.of_evictions(system, incarnation)
        self._stands: dict[str, Evicted] = {}
        self._dead: set[str] = set()
        self._noted: set[str] = set()
        """The drivers that have a note."""
        self._writing = threading.Lock()
        """Held while a note is written or struck: no lock is taken inside but the system's."""

    def take(self, evicted: Evicted, hear: Callable[[Evicted], bool]) -> bool:
        """A driver may evict this from now on, if `hear` says so under the lock: then a later coordinator knows."""
        assert not self._lock.is_held, "nobody asks Ray's control service under the lock"
        driver = evicted.driver
        with self._writing:
            with self._lock:
                before = self._stands.get(driver)
            after = evicted.and_before(before)
            self._note(after)
            with self._lock:
                if driver not in self._dead and hear(after):
                    if not self._stands:
                        log.warning(
                            "system %r cannot go back to a snapshot until one succeeds: %s evicts",
                            self._system,
                            driver,
                        )
                    self._stands[driver] = after
                    return True
                before = self._stands.get(driver)
            self._strike()
            if before is not None:
                self._note(before)
            return False

    def _note(self, evicted: Evicted) -> None:
        self._noted.add(evicted.driver)
        self._notes.put(evicted.driver, pack((evicted.sent, evicted.received, evicted.at, evicted.owed)))

    def find(self) -> tuple[Evicted, ...]:
        """After the coordinator was started again: what drivers had evicted."""
        assert self._lock.is_held, "what stands changes under the lock"
        for driver, packed in self._notes.all().items():
            self._noted.add(driver)
            self._stands[driver] = Evicted(self._incarnation, driver, *unpack(packed))
        return tuple(self._stands.values())

    def committed(self, holds: DurableNumbers) -> frozenset[str]:
        """A snapshot that advances is durable. Returns the drivers of which it holds all that they evicted."""
        assert self._lock.is_held, "what stands changes under the lock"
        held = frozenset(driver for driver, evicted in self._stands.items() if is_held(evicted, holds))
        for driver in held:
            self.forget(driver)
        if held and not self._stands:
            log.warning("system %r can go back again, to snapshot %s", self._system, holds.snapshot)
        return held

    def forget(self, driver: str) -> None:
        """What this driver evicted is durable. Its note can be struck."""
        assert self._lock.is_held, "what stands changes under the lock"
        self._stands.pop(driver, None)

    def forget_dead(self, driver: str) -> None:
        """This driver is dead: nothing of it stands, also nothing that it was just about to evict."""
        self._dead.add(driver)
        self.forget(driver)

    def strike(self) -> None:
        """Remove the notes of what does not stand any more. Without the lock."""
        assert not self._lock.is_held, "nobody asks Ray's control service under the lock"
        with self._writing:
            self._strike()

    def _strike(self) -> None:
        with self._lock:
            past = self._noted - self._stands.keys()
        for driver in past:
            self._notes.remove(driver)
        self._noted -= past

    @property
    def since(self) -> float | None:
        """The Unix time since when the system cannot go back; None if it can."""
        return min((evicted.at for evicted in self._stands.values()), default=None)

    @property
    def text(self) -> str:
        """Why the system cannot go back, for people; "" if it can."""
        if self.since is None:
            return ""
        return (
            f"since {moment(self.since)} it cannot go back to a snapshot, until one succeeds: snapshots failed, and "
            f"{some_names(sorted(self._stands))} could keep no more of what no snapshot holds. If anything dies now, "
            f"the system stops. Mend what makes the snapshots fail: its log says it"
        )


def is_held(evicted: Evicted, holds: DurableNumbers) -> bool:
    """Whether a snapshot holds all that a driver evicted."""
    return evicted.is_held(*holds.of(evicted.driver))


def moment(at: float) -> str:
    """A Unix time for people."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
