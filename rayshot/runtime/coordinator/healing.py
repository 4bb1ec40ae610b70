"""How a coordinator brings its system back to the last snapshot by itself: the runner of the machine of recovery.

One thread gives the machine one event after the other, and carries out what it orders. Loads go on at the same time:
the hosts answer, and each answer is another event.
"""

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from rayshot.errors import (
    Damaged,
    Fenced,
    HookFailed,
    Incompatible,
    OutsideRefused,
    RayshotError,
    StoreError,
    SystemDown,
)
from rayshot.protocol.poison import Letter
from rayshot.protocol.recovering import (
    BeginLife,
    DriverDied,
    LifeBegan,
    LifeMarked,
    LoadProcess,
    LoadRefused,
    LogRefused,
    MarkLife,
    MarkRefused,
    NoWayBack,
    Pause,
    PauseOver,
    ProcessLoaded,
    ProcessLost,
    RecoveryEffect,
    RecoveryEvent,
    ResumeLife,
    StopHandlers,
    StopSystem,
    StopWanted,
    TakeCare,
    TookOver,
)
from rayshot.protocol.recovery import Phase, Recovery
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.spawning import spawn_host
from rayshot.runtime.coordinator.committer import new_writer
from rayshot.runtime.coordinator.life import Life
from rayshot.runtime.coordinator.members import Living
from rayshot.runtime.coordinator.spares import Spares
from rayshot.runtime.coordinator.under_way import KEYS_MISSING
from rayshot.runtime.coordinator.watching import in_short
from rayshot.runtime.coordinator.way_back import CannotGoBack, NewLife, Origin, begin_life_behind, find_way_past
from rayshot.runtime.door import door
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.door.silence import Silence
from rayshot.runtime.wire.host_identity import Stop
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.recovery_report import RecoveryReport
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.store.records import RollbackRecord

if TYPE_CHECKING:
    from rayshot.runtime.actor.loading import LoadPlan

log = logging.getLogger("rayshot")
REPORTS_KEPT = 100
LOOK_S = 1.0
LOAD_SILENT_S = 30.0
"""Others wait for a host that is being loaded, so it is killed after fewer seconds of silence than one that runs."""
CLOSE_S = 10.0
"""A step that is being taken delays the end of a system by at most so many seconds."""


class Stopwatch:
    """Counts the seconds from the Unix time `at`, in laps."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.seconds = max(0.0, time.time() - at)
        self.laps: dict[str, float] = {}
        self._began = time.monotonic() - self.seconds

    def lap(self, name: str) -> None:
        """The lap ends now. It goes on where it was ended before, as a step that was refused is tried again."""
        before, self.seconds = sum(self.laps.values()), time.monotonic() - self._began
        self.laps[name] = self.laps.get(name, 0.0) + self.seconds - before


@dataclass
class _Load:
    """A load that has not been answered. `living` is the host that goes back in its place, None for a new one.

    `has_room`: its process is known to run, and waits for no room on a node.
    """

    order: LoadProcess
    host: Any
    living: Living | None
    answer: Any
    has_room: bool


class Healer:
    """See the module. It leads the lives of one system, one after the other; `life` is the present one.

    `install(life)` makes a new life the present one of the coordinator. `keyring` gives the keys, None while they are
    missing. `dead_drivers` gives the names of the drivers that died, `programs` the present driver of each
    program with a name.
    """

    def __init__(
        self,
        settings: SystemSettings,
        owner: str,
        install: Callable[[Life], None],
        keyring: Callable[[], Keyring | None],
        dead_drivers: Callable[[], frozenset[str]],
        programs: Callable[[], Mapping[str, str]],
    ) -> None:
        self._settings, self._owner = settings, owner
        self._install, self._keyring, self._dead_drivers = install, keyring, dead_drivers
        self._programs = programs
        self._machine: Recovery
        self._life: Life
        self._events: queue.SimpleQueue[RecoveryEvent | Callable[[], None] | None] = queue.SimpleQueue()
        self._left: dict[str, Living] = {}
        """Hosts that live and are not in the present life yet."""
        self._plans: Mapping[str, LoadPlan] = {}
        self._options: dict[str, Mapping[str, Any]] = {}
        self._loads: dict[str, _Load] = {}
        self._starts: dict[str, int] = {}
        self._was_spare: set[str] = set()
        """Who got a spare process in this life. If that is silent, the next may be too, so nobody gets a second one."""
        self._silence, self._silence_of_loads = Silence(), Silence(LOAD_SILENT_S)
        self._silence_of_vaults = Silence(kill=door.restart)
        self._spares = Spares(settings.system, settings.failure.spares, settings.hash_seed)
        self._writer = ""
        self._dead_then: frozenset[str] = frozenset()
        self._reports: deque[RecoveryReport] = deque(maxlen=REPORTS_KEPT)
        self._lost_at, self._way = 0.0, ""
        self._order: BeginLife
        self._origin: Origin
        self._stopwatch: Stopwatch
        self._closed = False
        self._ending = threading.RLock()
        """Once `_closed` is set, no life is installed and no process is begun."""
        self._thread = threading.Thread(target=self._run, name="rayshot-healer", daemon=True)

    def lead(self, life: Life) -> None:
        """Begin with this life."""
        self._life, self._machine = life, Recovery(life.incarnation, self._settings.failure.policy)
        self._thread.start()

    def close(self) -> None:
        """The system is over: go back no more, and end what is left of earlier lives. Hold no lock."""
        with self._ending:
            self._closed = True
        self.hear(StopWanted("it was shut down"))
        self._events.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)
        for living in self._left.values():
            door.kill(living.host)
        self._spares.close()

    def hear(self, event: RecoveryEvent) -> None:
        """Give the machine an event. Any thread may call."""
        self._events.put(event)

    def lost(self, life: int, name: str, detail: str) -> None:
        """A host of a life that runs died, or its actor failed."""
        at = time.time()
        self._events.put(lambda: self._handle(self._loss(life, name, detail, at)))

    def status(self) -> dict[str, Any]:
        """For `Coordinator.status`: why the system goes back and what it waits for, "" if it runs; and the reports."""
        machine, waiting = self._machine, self._machine.waiting
        holding = f"waiting for {some_names(waiting)}" if waiting else ""
        lost = f"{machine.lost} was lost: " if machine.lost and machine.detail else ""
        why = "; ".join(text for text in (lost + machine.detail, holding, machine.trouble) if text)
        return {"recovering": why, "recoveries": self.reports, "spares": len(self._spares.ready)}

    @property
    def reports(self) -> tuple[RecoveryReport, ...]:
        """The newest reports, the oldest first. Any thread may ask."""
        return tuple(self._reports)

    def found_running(self, record: RollbackRecord) -> None:
        """A coordinator that was started again found the life running that this record began."""
        at = record.began_at or 0.0
        self._reports.append(
            RecoveryReport(record.incarnation, record.snapshot, record.actor, record.detail, at, 0.0, {})
        )

    def _loss(self, life: int, name: str, detail: str, at: float) -> ProcessLost:
        handled = self._life.caring.handled_by(name) if life == self._life.incarnation else None
        return ProcessLost(life, name, self._starts.get(name, 1), detail or "it died", at, handled=handled)

    # The thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        look_at = time.monotonic() + LOOK_S
        while True:
            try:
                event = self._events.get(timeout=max(0.0, look_at - time.monotonic()))
            except queue.Empty:
                self._look_in_peace()
                look_at = time.monotonic() + LOOK_S
                continue
            if event is None:
                return
            try:
                event() if callable(event) else self._handle(event)
            except Exception as error:
                log.exception("system %r cannot go back to a snapshot, a defect of rayshot", self._settings.system)
                self._stop(None, f"it could not go back to a snapshot: {error!r}")

    def _handle(self, event: RecoveryEvent) -> None:
        before = self._machine.phase
        if isinstance(event, ProcessLost | TookOver):
            self._lost_at = event.at
        if isinstance(event, PauseOver) and before in (Phase.WAITING, Phase.MARKING):
            self._stopwatch.lap("pause")
        effects = self._machine.handle(event)
        if self._machine.phase is not before:
            log.info("system %r: %s: %s", self._settings.system, self._machine.phase.value, self._machine.detail)
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: RecoveryEffect) -> None:
        match effect:
            case StopHandlers():
                failpoint("before_stop_handlers")
                self._stopwatch = Stopwatch(self._lost_at)
                self._leave_life()
                self._stopwatch.lap("stop")
            case BeginLife():
                self._begin_life(effect)
            case TakeCare(_, cautions):
                self._life.caring.cautions = cautions
            case LoadProcess():
                with self._ending:
                    if not self._closed:
                        self._load(effect)
            case MarkLife(life):
                self._mark(life)
            case ResumeLife():
                failpoint("before_resume_life")
                self._resume()
            case Pause(number, seconds):
                timer = threading.Timer(seconds, self.hear, (PauseOver(number),))
                timer.daemon = True
                timer.start()
            case StopSystem(process, detail):
                self._stop(process, detail)
            case _:
                assert_never(effect)

    def take_over(self, event: TookOver, left: Mapping[str, Living]) -> None:
        """A coordinator that was started again has read the log, and found these hosts."""
        self._left = dict(left)
        for driver in self._dead_drivers():  # so nobody needs what it let go of
            self.hear(DriverDied(driver))
        self.hear(event)

    # Steps -----------------------------------------------------------------------------------------------------

    def _leave_life(self) -> None:
        lost = f"{self._machine.lost} was lost: " if self._machine.lost else ""
        left = self._life.leave(lost + self._machine.detail)
        self._left |= left
        self._options |= self._life.members.options
        self._loads.clear()
        self._starts.clear()
        self._was_spare.clear()
        self._writer = new_writer(self._owner)

    def _begin_life(self, order: BeginLife) -> None:
        self._order = order
        keyring = self._keyring()
        if keyring is None:
            self._handle(LogRefused(KEYS_MISSING))
            return
        try:
            began = begin_life_behind(
                self._life.epoch,
                self._settings,
                self._writer,
                actor=order.process,
                detail=order.detail,
                keyring=keyring,
                needs=order.needs,
                fitted=self._life.members.fitted,
            )
        except CannotGoBack as error:
            self._way = error.way
            lost = f"{order.process} was lost: " if order.process else ""
            self._handle(NoWayBack(f"{lost}{order.detail}; {error}"))
        except Fenced as error:
            self._handle(NoWayBack(error.message))
            self._life.fenced(error)
        except StoreError as error:
            log.warning("system %r cannot go back now: %s", self._settings.system, error)
            self._stopwatch.lap("record")
            self._handle(LogRefused(error.message))
        except RayshotError as error:
            self._handle(NoWayBack(f"{order.detail}; its log cannot be read: {error}"))
        else:
            self._lead_on(began)

    def _lead_on(self, began: NewLife) -> None:
        self._dead_then = self._dead_drivers()
        self._plans = began.origin.plans(self._options, self._dead_then, self._programs())
        with self._ending:
            if self._closed:
                return
            life = self._life.next(began)
            self._life, self._origin = life, began.origin
            self._install(life)
        self._stopwatch.lap("record")
        for name in self._left.keys() - self._plans.keys():
            door.kill(self._left.pop(name).host)  # it was made behind the snapshot
        ended = frozenset(began.origin.manifest.ended)
        over = frozenset(one for one in self._machine.letters if one.process in ended or self._is_over(one))
        self._handle(LifeBegan(life.incarnation, tuple(sorted(self._plans)), began.past, over))

    def _is_over(self, letter: Letter) -> bool:
        """Whether the snapshot of the life that begins holds this message as handled, or nobody can tell it again."""
        plan, message = self._plans.get(letter.process), letter.message
        if plan is None:
            return False
        is_lost = message.sender in self._dead_then and plan.arrived.get(message.sender, 0) < message.number
        return is_lost or plan.received.get(message.sender, 0) >= message.number

    def _load(self, order: LoadProcess) -> None:
        failpoint("before_load_process")
        name, life = order.process, self._life
        self._starts[name] = order.start
        if order.start > 1 and (lost := life.lose(name)) is not None:
            door.kill(lost)  # it lives, if its actor failed
        living, specification = self._left.get(name), self._plans[name].specification
        if living is not None and not specification.reloads_in_place:
            door.kill(self._left.pop(name).host)
            living = None
        identity, plan = life.identity(), self._plans[name]
        spare = None
        try:
            if living is None and name not in self._was_spare:
                spare = self._spares.take(name, specification)
            if living is not None:
                host = living.host
                answer = host.go_back.remote(life.issuer, identity, plan)
            elif spare is not None:
                host = spare.host
                self._was_spare.add(name)
                own = replace(identity, name=name, loading=True, options=specification.ray_options)
                answer = host.become.remote(own, plan)
            else:
                host = spawn_host(Host, identity, specification, name, loading=True)
                answer = host.load.remote(plan)
        except Exception as error:  # noqa: BLE001 - Ray refuses options with errors of any class
            self._handle(LoadRefused(order.life, name, order.start, f"{name} cannot be made: {error}"))
            return
        self._loads[name] = load = _Load(order, host, living, answer, has_room=bool(living or spare))
        door.when_answered(answer, lambda result: self._events.put(lambda: self._answered(load, result)))
        if not load.has_room:
            door.when_answered(host.hello.remote(), partial(self._found_room, load))

    def _found_room(self, load: _Load, answer: object) -> None:
        """A new process has answered: from now on it is noticed if it is silent."""
        load.has_room = not isinstance(answer, Exception)

    def _answered(self, load: _Load, result: object) -> None:
        order, now = load.order, time.time()
        name = order.process
        with contextlib.suppress(Exception):  # otherwise Ray prints the error of an answer that nobody took
            door.get(load.answer, timeout=0)
        if self._loads.get(name) is not load:
            return
        del self._loads[name]
        lost = life, _, start = order.life, name, order.start
        if isinstance(result, Exception) and load.living is None:
            door.kill(load.host)  # another start makes another process, maybe under the same name
            self._life.lose(name)
        match result:
            case door.Died():
                self._left.pop(name, None)
                why = f"{name} died while its state was loaded: {in_short(result)}"
                self._handle(ProcessLost(*lost, why, now))
            case door.Raised(cause=StoreError() as cause):
                self._handle(LoadRefused(life, name, start, cause.message))
            case door.Raised(cause=HookFailed() | OutsideRefused() as cause):
                self._handle(ProcessLost(*lost, cause.message, now))  # what it lacks may come back soon
            case door.Raised(cause=Damaged() | Incompatible() as cause):
                if isinstance(cause, Damaged) and self._machine.phase is Phase.LOADING:
                    self._way = self._find_way_past()
                self._handle(ProcessLost(*lost, f"{name} cannot be loaded: {cause.message}", now, hopeless=True))
            case door.Raised(cause=cause):  # nobody expects it: another process may do better
                if load.living is not None:
                    door.kill(self._left.pop(name).host)
                why = f"{name} cannot be loaded: {in_short(cause)} ({type(cause).__name__})"
                self._handle(ProcessLost(*lost, why, now))
            case Exception():
                self._handle(LoadRefused(life, name, start, in_short(result)))
            case _:
                if load.living is not None:
                    assert isinstance(result, str), "a host that went back says on which node it is"
                    self._life.join(name, result, self._left.pop(name))
                self._handle(ProcessLoaded(life, name, start))

    def _find_way_past(self) -> str:
        keyring = self._keyring()
        return "" if keyring is None else find_way_past(self._origin, self._settings, keyring)

    def _look_in_peace(self) -> None:
        try:
            self._look()
        except Exception:
            log.exception("system %r: nobody looks for silent hosts now", self._settings.system)

    def _look(self) -> None:
        """Find hosts and vaults that are silent. Not new hosts while they load: they may wait for room, for any time.

        Spare processes are started only when the life has a snapshot, so that this delays neither its beginning nor
        what it has to catch up.
        """
        now, life = time.monotonic(), self._life
        self._silence_of_loads.look({name: load.host for name, load in self._loads.items() if load.has_room}, now)
        if life.stopped is not None:
            self._spares.close()
        elif self._machine.phase is Phase.RUNNING:
            self._silence.look(life.members.hosts | self._spares.ready, now)
            self._silence_of_vaults.look(life.members.vaults, now)
            if life.runner.committed is not None and life.modules is not None:
                self._spares.keep(life.incarnation, life.modules, now)

    def _mark(self, life: int) -> None:
        failpoint("before_mark_life")
        self._stopwatch.lap("load")
        try:
            self._life.complete()
        except Exception as error:  # noqa: BLE001 - Ray's control service may not answer now, with any error
            self._handle(MarkRefused(life, repr(error)))
        else:
            self._handle(LifeMarked(life))

    def _resume(self) -> None:
        with self._life.lock:  # who sees that the life runs sees its report too
            try:
                self._life.resume()
            except SystemDown as error:  # its storage was taken, or a person stopped it: the machine hears of it next
                log.info("system %r does not run again: %s", self._settings.system, error)
                return
            self._stopwatch.lap("resume")
            watch, order, snapshot = self._stopwatch, self._order, self._origin.snapshot.id
            report = RecoveryReport(
                self._life.incarnation, snapshot, order.process, order.detail, watch.at, watch.seconds, watch.laps
            )
            self._reports.append(report)
        for driver in self._dead_drivers() - self._dead_then:
            self._life.members.tell_all("driver_died", driver)
        self._life.count(report)
        log.warning(
            "system %r runs again after %.2f s, in life %d, from snapshot %s; %s: %s (%s)",
            *(self._settings.system, report.seconds, report.life, report.snapshot, report.actor or "coordinator"),
            report.detail,
            ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in report.phases.items()),
        )

    def _stop(self, process: str | None, detail: str) -> None:
        self._life.give_up(detail, process, self._way)
        stop = self._life.stopped or Stop(self._settings.system, self._settings.storage, process, detail, way=self._way)
        for living in self._left.values():
            living.host.stop.remote(self._life.issuer, stop)
        self._spares.close()
