"""How a coordinator notices that drivers die."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from rayshot.errors import SnapshotAborted
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import is_driver
from rayshot.runtime.coordinator.clock import TICK_S
from rayshot.runtime.coordinator.life import Life
from rayshot.runtime.door import door, notes
from rayshot.runtime.door.state import gone, when_owner_dies
from rayshot.runtime.door.survived_errors import survived
from rayshot.runtime.wire.initiation import some_names

if TYPE_CHECKING:
    from rayshot.protocol.identity import SnapshotId

log = logging.getLogger("rayshot")
LOOK_S = 1.0
"""Seconds between two looks at the drivers that do not announce themselves, and at the notes."""
FOLLOW_S, KNOWN_S = 30.0, 3.0
"""Seconds for drivers to tell again; seconds until all drivers have announced themselves to a new coordinator."""


class DriverWatch:
    """The drivers of a system. `life` gives its present life.

    Each driver keeps a call of `stay` open, owns the reference to its result, and gives the reference to
    `watch`: it fails when the driver's process dies. Then the coordinator tells the actors. They close the driver's
    channels, and forget its counters when a snapshot holds the last ones.

    It notes where each driver is. A coordinator that is started again asks Ray for those that do not announce
    themselves to it: they may have died while nobody coordinated. The note of a dead driver stays until the system can
    go back to no snapshot any more that has a channel of it.
    """

    def __init__(self, system: str, life: Callable[[], Life]) -> None:
        self._life = life
        self._drivers: dict[str, Any] = {}
        self._notes = notes.of_drivers(system)
        self._places: dict[str, bytes] = {}
        """Where each driver is, or was: what the notes say, or shall say soon."""
        self._unheard: dict[str, bytes] = {}
        """The drivers of the coordinator before this one that have not announced themselves, and where they were."""
        self._dead: set[str] = set()
        self._deaths: dict[str, tuple[int, Collection[SnapshotId]]] = {}
        """Drivers of whose death all were told; the last position in the log and the open snapshots then."""
        self._look_now = threading.Event()
        self._followed: dict[str, int] = {}
        self._changed: dict[str, Mapping[str, int]] = {}
        """By driver that lives and actor, how many answers have changed on which the driver had acted."""
        self._counting = threading.Lock()  # its holders call nobody
        self.changed_answers = 0
        """How many have changed since this coordinator began."""
        self.began = time.monotonic()

    def __contains__(self, name: str) -> bool:
        """Whether this driver lives, as far as anybody knows here."""
        return name in self._drivers

    def __len__(self) -> int:
        return len(self._drivers)

    def watch(self, name: str, reference: Any, place: bytes) -> None:
        """Notice the death of the driver that owns the reference. For `place` see `here.place`."""
        assert is_driver(name), f"{name} is an actor, and drivers are watched here"
        self._drivers[name] = reference  # Ray reports the owner's death only while a process holds the reference
        when_owner_dies(reference, place, lambda: self._driver_lost(name))
        self._places[name] = place
        self._look_now.set()
        if name in self._dead:  # it was given up
            self._drivers.pop(name, None)

    def give_up(self, name: str) -> None:
        """A process sends nothing any more through this driver of it: it counts as dead."""
        self._dead.add(name)  # first, as `watch` may come later or run beside this
        self._drivers.pop(name, None)
        self._tell_of_death(name)

    @property
    def dead(self) -> frozenset[str]:
        """The drivers that died. They stay dead in all lives that the system goes back to."""
        return frozenset(self._dead)

    def find(self) -> None:
        """After the coordinator was started again: which drivers it takes over."""
        self._unheard = self._notes.all()
        self._places = dict(self._unheard)

    def find_dead(self) -> frozenset[str]:
        """As `dead`, also those of which only Ray knows so far that they died."""
        try:
            self._dead |= {*gone(dict(self._unheard))}
        except door.CallFailed as error:
            log.info("nobody knows now which drivers are dead: %r", error)
        return self.dead

    def keep_notes(self) -> None:
        """Write and remove the notes, and tell of the deaths of drivers that were taken over, from now on."""
        threading.Thread(target=self._keep_notes, args=({*self._places},), name="rayshot-drivers", daemon=True).start()

    def _keep_notes(self, noted: set[str]) -> None:
        while True:
            with survived("the notes of drivers cannot be written now", level=logging.INFO):
                self._hear_of_drivers()
                for name in self._places.keys() - noted:
                    self._notes.put(name, self._places[name])
                    noted.add(name)
                for name in [name for name in noted if name not in self._places or self._is_past(name)]:
                    self._places.pop(name, None)
                    self._deaths.pop(name, None)
                    self._notes.remove(name)
                    noted.remove(name)
            self._look_now.wait(LOOK_S)
            self._look_now.clear()

    def _hear_of_drivers(self) -> None:
        dead = self.find_dead()
        for name in [*self._unheard]:
            if name in self._drivers:
                del self._unheard[name]
            elif name in dead:
                self._tell_of_death(name)
                del self._unheard[name]

    def _is_past(self, name: str) -> bool:
        """Whether all were told of a driver's death, and the system cannot go back to where it lived."""
        if name not in self._deaths:
            return False
        life, (position, were_open) = self._life(), self._deaths[name]
        if not life.heals:
            return True
        holds = life.notifications.newest
        return (
            holds is not None
            and holds.position > position
            and holds.snapshot.by_coordinator
            and holds.snapshot not in were_open
            and name not in holds.drivers
        )

    def followed(self, driver: str, incarnation: int) -> None:
        """What this driver had to tell again in that life has arrived."""
        self._followed[driver] = max(incarnation, self._followed.get(driver, 0))

    def answers_changed(self, driver: str, counts: Mapping[str, int]) -> None:
        """So many answers have changed on which this driver had acted: by actor, in all. It may say so twice."""
        assert is_driver(driver), f"{driver} is an actor, and answers of actors go back with them"
        with self._counting:
            before = self._changed.get(driver, {})
            more = {actor: count - known for actor, count in counts.items() if count > (known := before.get(actor, 0))}
            if driver in self._dead:
                return
            self._changed[driver] = {**before, **{actor: counts[actor] for actor in more}}
            self.changed_answers += sum(more.values())
        self._life().metrics.answers_changed(more)

    def await_followers(self, life: Life) -> None:
        """Wait until all living drivers have told again what this life needs: who stops the system would lose the rest.

        Raises SnapshotAborted after FOLLOW_S seconds.
        """
        deadline = time.monotonic() + FOLLOW_S
        while True:
            behind = [driver for driver in self._drivers if self._followed.get(driver, 0) < life.incarnation]
            if not behind and time.monotonic() >= self.began + KNOWN_S:
                return
            if time.monotonic() >= deadline:
                raise SnapshotAborted(
                    f"{some_names(behind)} has not yet told again what it told before the system went back, and a stop "
                    f"would lose it: the system goes on. Try again, or take a savepoint and shut it down",
                    reason=AbortReason.TIMEOUT.value,
                    missing=tuple(behind),
                )
            time.sleep(TICK_S)

    def _driver_lost(self, name: str) -> None:
        if self._drivers.pop(name, None) is not None:
            threading.Thread(target=self._tell_of_death, args=(name,), daemon=True).start()  # see DeathWatch

    def _tell_of_death(self, name: str) -> None:
        log.info("%s is gone: its channels are closed", name)
        self._dead.add(name)
        self._followed.pop(name, None)
        self._changed.pop(name, None)
        life = self._life()
        life.driver_died(name)
        with life.lock:
            last = life.runner.committed
            self._deaths[name] = 0 if last is None else last.position, frozenset(life.runner.pending)
