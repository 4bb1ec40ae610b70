"""What drivers let go of in one life, because they may keep no more and no snapshot succeeds.

While anything of it stands, the system cannot go back to the snapshots that it has: see `rayshot.protocol.recovery`.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from rayshot.protocol.recovering import LetGo
from rayshot.runtime.coordinator.tidings import Holds
from rayshot.runtime.door import notes
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.packets import pack, unpack

log = logging.getLogger("rayshot")
FRUITLESS_MAX = 2
"""Drivers may let go when so many snapshots in a row failed."""


class LettingGo:
    """See the module. Call everything under the life's lock."""

    def __init__(self, system: str, incarnation: int) -> None:
        self._system, self._incarnation = system, incarnation
        self._marks = notes.of_what_drivers_let_go(system, incarnation)
        self._stands: dict[str, LetGo] = {}

    def take(self, driver: str, at: float, sent: Mapping[str, int], received: Mapping[str, int]) -> LetGo:
        """A driver may let go of this from now on: a coordinator that follows will know. `at` is the Unix time."""
        let_go = LetGo(self._incarnation, driver, sent, received, at).and_before(self._stands.get(driver))
        self._marks.put(driver, pack((let_go.sent, let_go.received, let_go.at)))
        if not self._stands:
            log.warning("system %r cannot go back to a snapshot until one succeeds: %s lets go", self._system, driver)
        self._stands[driver] = let_go
        return let_go

    def find(self) -> tuple[LetGo, ...]:
        """After the coordinator was started again: what drivers had let go of."""
        for driver, packed in self._marks.all().items():
            self._stands[driver] = LetGo(self._incarnation, driver, *unpack(packed))
        return tuple(self._stands.values())

    def committed(self, holds: Holds) -> frozenset[str]:
        """A snapshot that advances is durable. Returns the drivers of which it holds all that they let go of."""
        held = frozenset(driver for driver, let_go in self._stands.items() if is_held(let_go, holds))
        for driver in held:
            self.forget(driver)
        if held and not self._stands:
            log.warning("system %r can go back again, to snapshot %s", self._system, holds.snapshot)
        return held

    def forget(self, driver: str) -> None:
        """What this driver let go of is durable, or the driver is dead."""
        if self._stands.pop(driver, None) is not None:
            self._marks.remove(driver)

    @property
    def since(self) -> float | None:
        """The Unix time since when the system cannot go back; None if it can."""
        return min((let_go.at for let_go in self._stands.values()), default=None)

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


def is_held(let_go: LetGo, holds: Holds) -> bool:
    """Whether a snapshot holds all that a driver let go of."""
    return let_go.is_held(holds.sent.get(let_go.driver, {}), holds.received.get(let_go.driver, {}), holds.ended)


def moment(at: float) -> str:
    """A Unix time for people."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
