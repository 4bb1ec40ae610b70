"""How a coordinator makes processes and loads them: those of a life that goes on from a snapshot."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rayshot.errors import (
    Damaged,
    HookFailed,
    Incompatible,
    NameTaken,
    OutsideConflict,
    OutsideRefused,
    RayshotError,
    StoreError,
)
from rayshot.protocol.recovery_events import LoadProcess, LoadRefused, ProcessLoaded, ProcessLost, RecoveryEvent
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import spawn_host
from rayshot.runtime.coordinator.death_watch import in_short
from rayshot.runtime.coordinator.members import Living
from rayshot.runtime.coordinator.spares import Spares
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door import door
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.door.failure_detector import FailureDetector
from rayshot.runtime.wire.initiation import some_names

if TYPE_CHECKING:
    from rayshot.runtime.actor.loading import LoadPlan
    from rayshot.runtime.coordinator.life import Life

LOAD_SILENT_S = 30.0
"""Others wait for a host that is being loaded, so it is killed after fewer seconds of silence than one that runs."""


@dataclass
class _Load:
    """A load that has not been answered. `living` is the host that goes back in its place, None for a new one.

    `has_room`: its process is known to run, and waits for no room on a node.
    """

    order: LoadProcess
    life: "Life"
    host: Any
    living: Living | None
    answer: Any
    has_room: bool


class Loader:
    """The loads of one life after the other. `start` may be called by any thread, all else by the healer's only.

    `left` are hosts that live and are not in the present life yet. `starts` has the newest start of each process of the
    present life. `causes` has the error of each process that refused its state, until it takes it. The system's `lock`
    covers these. `later(f)` calls `f` on the healer's thread, `hear` takes what became of a load, and
    `is_wanted(order)` says whether it is still to be loaded.
    """

    def __init__(
        self,
        spares: Spares,
        lock: SystemLock,
        later: Callable[[Callable[[], None]], None],
        hear: Callable[[RecoveryEvent], None],
        is_wanted: Callable[[LoadProcess], bool],
    ) -> None:
        self.left: dict[str, Living] = {}
        self.starts: dict[str, int] = {}
        self.plans: Mapping[str, LoadPlan] = {}
        self.causes: dict[str, RayshotError] = {}
        self._spares, self._lock, self._later, self._hear = spares, lock, later, hear
        self._is_wanted = is_wanted
        self._loads: dict[str, _Load] = {}
        self._was_spare: set[str] = set()
        """Who got a spare process in this life. If that is silent, the next may be too, so nobody gets a second one."""
        self._detector = FailureDetector()
        self._newest_at = 0.0

    def start(self, plans: "Mapping[str, LoadPlan]", silent_s: float | None = None) -> None:
        """Another life is loaded, from these plans: what comes of earlier loads does not count any more.

        A process that says nothing for `silent_s` seconds, None for LOAD_SILENT_S, while it is loaded is made again.
        """
        assert self._lock.is_held, "a life is loaded under the lock"
        self.plans, self._newest_at = plans, time.monotonic()
        self._detector = FailureDetector(LOAD_SILENT_S if silent_s is None else silent_s)
        for each in (self._loads, self.starts, self.causes, self._was_spare):
            each.clear()

    def load(self, order: LoadProcess, life: "Life") -> None:
        """Carry the order out. What becomes of it is heard later."""
        failpoint("before_load_process")
        name = order.process
        with self._lock:
            self.starts[name] = order.start
        if order.start > 1 and (lost := life.lose(name)) is not None:
            door.kill(lost)  # it lives, if its actor failed
        living, specification = self.left.get(name), self.plans[name].specification
        if living is not None and not specification.reloads_in_place:
            door.kill(self._take_left(name).host)
            living = None
        try:
            load = self._begin(order, life, living)
        except NameTaken as error:  # Ray has not heard yet that the process died which had the name before
            self._hear(ProcessLost(order.life, name, order.start, error.message, time.time()))
            return
        except Exception as error:  # noqa: BLE001 - Ray refuses options with errors of any class
            self._note(name, error)
            self._refused(order, f"{name} cannot be made: {error}")
            return
        with self._lock:
            if wanted := self._is_wanted(order):
                self._loads[name] = load
        if not wanted:  # the system was stopped meanwhile
            _end(load)
            return
        door.when_answered(load.answer, lambda result: self._later(lambda: self._answered(load, result)))
        if not load.has_room:
            door.when_answered(load.host.hello.remote(), partial(self._found_room, load))

    def _begin(self, order: LoadProcess, life: "Life", living: Living | None) -> _Load:
        name, identity, plan = order.process, life.identity(), self.plans[order.process]
        if living is not None:
            with self._lock:  # one that was told to stop must not go back behind that
                wanted = self._is_wanted(order)
                answer = living.host.roll_back.remote(life.issuer, identity, plan) if wanted else None
            return _Load(order, life, living.host, living, answer, has_room=True)
        spare = None if name in self._was_spare else self._spares.take(name, plan.specification)
        if spare is None:
            host = spawn_host(Host, identity, plan.specification, name, loading=True)
            return _Load(order, life, host, None, host.load.remote(plan), has_room=False)
        self._was_spare.add(name)
        options = plan.specification.ray_options if identity.heals else {}
        own = replace(identity, name=name, loading=True, options=options)
        return _Load(order, life, spare.host, None, spare.host.become.remote(own, plan), has_room=True)

    def _take_left(self, name: str) -> Living:
        with self._lock:
            return self.left.pop(name)

    def _found_room(self, load: _Load, answer: object) -> None:
        """A new process has answered: from now on it is noticed if it is silent."""
        load.has_room = not isinstance(answer, Exception)

    def _refused(self, order: LoadProcess, why: str) -> None:
        """It may be tried again."""
        self._hear(LoadRefused(order.life, order.process, order.start, why))

    def _note(self, name: str, cause: object) -> None:
        """Note the error with which a process refused its state, if rayshot raised it; else there is none any more."""
        with self._lock:
            self.causes.pop(name, None)
            if isinstance(cause, RayshotError):
                self.causes[name] = cause

    def _answered(self, load: _Load, result: object) -> None:
        order, now = load.order, time.time()
        name = order.process
        with contextlib.suppress(Exception):  # otherwise Ray prints the error of an answer that nobody took
            door.get(load.answer, timeout=0)
        with self._lock:
            if self._loads.get(name) is not load:
                return
            del self._loads[name]
            self._newest_at = time.monotonic()
        lost = order.life, name, order.start
        if isinstance(result, Exception):
            _end(load)  # another start makes another process, maybe under the same name
            if load.living is None:
                load.life.lose(name)
            self._note(name, result.cause if isinstance(result, door.Raised) else None)
        match result:
            case door.Died():
                with self._lock:
                    self.left.pop(name, None)
                why = f"{name} died while its state was loaded: {in_short(result)}"
                self._hear(ProcessLost(*lost, why, now))
            case door.Raised(cause=StoreError() as cause):
                self._refused(order, cause.message)
            case door.Raised(cause=HookFailed() | OutsideRefused() as cause):
                self._hear(ProcessLost(*lost, cause.message, now))  # what it lacks may come back soon
            case door.Raised(cause=Damaged() | Incompatible() | OutsideConflict() as cause):
                self._hear(ProcessLost(*lost, f"{name} cannot be loaded: {cause.message}", now, hopeless=True))
            case door.Raised(cause=cause):  # nobody expects it: another process may do better
                if load.living is not None:
                    door.kill(self._take_left(name).host)
                why = f"{name} cannot be loaded: {in_short(cause)} ({type(cause).__name__})"
                self._hear(ProcessLost(*lost, why, now))
            case Exception():
                self._refused(order, f"{name} cannot be made: {result}")
            case _:
                self._loaded(load, result)

    def _loaded(self, load: _Load, node: object) -> None:
        """From now on its death is seen by the life, which waits for others to be loaded."""
        name, living = load.order.process, load.living
        self._note(name, None)
        if living is not None:
            assert isinstance(node, str), "a host that went back says on which node it is"
            try:
                load.life.join(name, node, living)
            except door.CallFailed as error:
                self._refused(load.order, f"{name} is loaded, and cannot be written down now: {error}")
                return
            self._take_left(name)
        with self._lock:
            if self._is_wanted(load.order):
                load.life.members.watch(name)
                self._hear(ProcessLoaded(load.order.life, name, load.order.start))

    # Who keeps others waiting ----------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Find hosts that are silent. Not those that wait for room: they may do so for any time.

        A host that goes back in its place is asked from the beginning of the life on, also between two loads: to load a
        process that is stopped may fail sooner than it counts as silent, again and again.
        """
        with self._lock:
            hosts = {name: living.host for name, living in self.left.items()}
            hosts |= {name: load.host for name, load in self._loads.items() if load.has_room}
        self._detector.look(hosts, now)

    def why_late(self, now: float, patience_s: float) -> str:
        """Which processes have found no room, if no load was answered for so many seconds; else ""."""
        absent = sorted(name for name, load in tuple(self._loads.items()) if not load.has_room)
        if not absent or now - self._newest_at < patience_s:
            return ""
        return f"{some_names(absent)} did not start within {patience_s:g} s: has the cluster the resources?"

    # The end ---------------------------------------------------------------------------------------------------

    def end_loads(self) -> None:
        """The system has stopped: end the processes that are still being made, as no other life uses them."""
        with self._lock:
            loads = tuple(self._loads.values())
            self._loads.clear()
        for load in loads:
            _end(load)

    def end_left(self) -> None:
        """End what is left of earlier lives."""
        with self._lock:
            left = tuple(self.left.values())
            self.left.clear()
        for living in left:
            door.kill(living.host)


def _end(load: _Load) -> None:
    """End the process, if it was made for this load."""
    if load.living is None:
        door.kill(load.host)
