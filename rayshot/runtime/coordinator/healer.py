"""How a coordinator leads its system from one life to the next: the runner of the machine of recovery.

It goes back to the last snapshot by itself, or to the one from which a person restores the system.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, assert_never

from rayshot.errors import ConfigError, Damaged, Fenced, RayshotError, StoreError
from rayshot.log.records import RollbackRecord
from rayshot.protocol.poison import Poison
from rayshot.protocol.recovery import Phase, Recovery
from rayshot.protocol.recovery_events import (
    ActedInVain,
    BeginLife,
    Defect,
    LifeBegan,
    LifeMarked,
    LoadProcess,
    LogRefused,
    MarkLife,
    MarkRefused,
    NoRollback,
    PatienceOver,
    Pause,
    PauseOver,
    ProcessLost,
    RecoveryEffect,
    RecoveryEvent,
    RestoreWanted,
    ResumeLife,
    StopHandlers,
    StopSystem,
    StopWanted,
    TookOver,
    WatchForPoison,
)
from rayshot.runtime.coordinator.committer import new_writer
from rayshot.runtime.coordinator.life import Life
from rayshot.runtime.coordinator.loader import Loader
from rayshot.runtime.coordinator.pending_snapshots import KEYS_MISSING
from rayshot.runtime.coordinator.restoration import Restoration, RestoreProgress
from rayshot.runtime.coordinator.rollback import CannotRollBack, NewLife, Origin, begin_life_behind, find_fallback
from rayshot.runtime.coordinator.spares import Spares
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door import door, notes
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.door.failure_detector import FailureDetector
from rayshot.runtime.door.survived_errors import survived
from rayshot.runtime.wire.changed_answer import ChangedAnswer
from rayshot.runtime.wire.host_identity import Stop
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.packets import pack, unpack
from rayshot.runtime.wire.recovery_report import RecoveryReport
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.leases import reading

if TYPE_CHECKING:
    from rayshot.runtime.actor.loading import LoadPlan

log = logging.getLogger("rayshot")
REPORTS_KEPT = 100
LOOK_S = 1.0
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


class Healer:
    """See the module. It leads the lives of one system, one after the other; the present one is `life`.

    `install(life)` makes a new life the present one of the coordinator. `keyring` gives the keys, None while they are
    missing. `dead_drivers` gives the names of the drivers that died, `programs` the present driver of each
    program with a name.

    `lock` covers the machine: each event is handled under it, on the thread that brings it. What only tells others is
    done there at once, so nobody ever sees a life in one phase that does the work of another. What waits for the
    storage, or for Ray's control service, is done one after the other on a thread of its own.
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
        self.lock = SystemLock()
        self._settings, self._owner = settings, owner
        self._install, self._keyring, self._dead_drivers = install, keyring, dead_drivers
        self._programs = programs
        self._machine: Recovery
        self._life: Life
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._spares = Spares(settings.system, settings.failure.spares, settings.hash_seed)
        self._loader = Loader(self._spares, self.lock, self._work.put, self._hear_of_load, self._is_wanted)
        self._options: dict[str, Mapping[str, Any]] = {}
        self._detector, self._vault_detector = FailureDetector(), FailureDetector(kill=door.restart)
        self._writer = new_writer(owner)
        self._dead_then: frozenset[str] = frozenset()
        self._reports: deque[RecoveryReport] = deque(maxlen=REPORTS_KEPT)
        self._way = ""
        self._patience_s = inf
        self._order: BeginLife | None = None
        self._origin: Origin | None = None
        self._stopwatch = Stopwatch(time.time())
        self._leases = ExitStack()
        self._thread = threading.Thread(target=self._run, name="rayshot-healer", daemon=True)

    def lead(self, life: Life) -> None:
        """Begin with this life."""
        self._life, self._machine = life, Recovery(life.incarnation, self._settings.failure.policy)
        self._install(life)
        life.start()
        self._thread.start()

    def shut_down(self, detail: str) -> None:
        """Stop the system for good, and end all its processes but this one. Without the lock."""
        assert not self.lock.is_held, "a system is ended without the lock"
        self.hear(StopWanted(detail))
        self._work.put(None)
        self._thread.join(CLOSE_S)
        self._loader.end_left()
        self._spares.close()
        self._life.shut_down(detail)

    def phase_of(self, life: int) -> Phase:
        """Where this life is. One that another one follows is WAITING. Any thread may ask."""
        machine = self._machine
        return machine.phase if machine.life == life else Phase.WAITING

    def status(self) -> dict[str, Any]:
        """For `Coordinator.status`: why the system goes back and what it waits for, "" if it runs; and the reports."""
        with self.lock:
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

    # Events ----------------------------------------------------------------------------------------------------

    def hear(self, event: RecoveryEvent) -> None:
        """Give the machine an event. Any thread may call."""
        with self.lock:
            before = self._machine.phase
            if isinstance(event, PauseOver) and before in (Phase.WAITING, Phase.MARKING):
                self._stopwatch.lap("pause")
            try:
                effects = self._machine.handle(event)
                phase = self._machine.phase
                if phase is not before:
                    log.info("system %r: %s: %s", self._settings.system, phase.value, self._machine.detail)
                for effect in effects:
                    self._carry_out(effect, event)
            except Exception as error:  # noqa: BLE001 - otherwise the system would stay as it is for ever
                self._fail(error)
            is_over, life = self._machine.phase in (Phase.WAITING, Phase.STOPPED), self._life
            assert is_over == (life.end is not None), f"life {life.incarnation}, {self._machine.phase}: {life.end}"

    def _fail(self, error: Exception) -> None:
        """Nobody expects this error, which a thread has caught: the system stops because of it."""
        log.error("system %r cannot go on, a defect of rayshot", self._settings.system, exc_info=error)
        self.hear(Defect(f"it could not go on: {error!r}"))

    def lost(self, life: int, name: str, detail: str) -> None:
        """A host of a life died, or its actor failed."""
        at = time.time()
        with self.lock:
            handled = self._life.poison.handled_by(name) if life == self._life.incarnation else None
            start = self._loader.starts.get(name, 1)
            self.hear(ProcessLost(life, name, start, detail or "it died", at, handled=handled))

    def acted_in_vain(self, driver: str, changed: ChangedAnswer) -> None:
        """A driver had acted on an answer that has changed, and the settings stop the system then."""
        assert self._settings.failure.on_changed_answer == "stop", "the program is told, and no more"
        assert changed.life > 1, f"no life before {changed.life} has answered"
        why = f"life {changed.life} answers a call of {driver} otherwise than before the system went back"
        evidence = {"driver": driver, "actor": changed.actor, "method": changed.method, "number": changed.number}
        detail = f"{why}: {changed.what}. rayshot.resume goes on from the last snapshot"
        try:
            notes.of_vain_acts(self._settings.system).put(self._owner, pack((detail, evidence)))
        finally:  # also if Ray's control service does not answer now
            self.hear(ActedInVain(detail, evidence))

    def take_over(self, event: TookOver) -> None:
        """A coordinator that was started again has read the log, and found these remains. For `Life.start`."""
        vain = notes.of_vain_acts(self._settings.system).all().get(self._owner)
        if vain is not None and event.savepoint is None:
            self.hear(ActedInVain(*unpack(vain)))
            return
        members, dead = self._life.members, self._dead_drivers()
        if self._life.heals:
            members.find_options()
        self.hear(replace(event, evicted=tuple(one for one in event.evicted if one.driver not in dead)))
        if self._machine.phase is Phase.WAITING:
            self._loader.left = {**members.find_living(), **self._loader.left}

    def _hear_of_load(self, event: RecoveryEvent) -> None:
        found = isinstance(event, ProcessLost) and event.hopeless and self._loader.causes.get(event.process)
        if isinstance(found, Damaged) and self._origin is not None:
            keyring = self._keyring()
            self._way = "" if keyring is None else find_fallback(self._origin, self._settings, keyring)
        self.hear(event)

    # Effects ---------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: RecoveryEffect, event: RecoveryEvent) -> None:
        """Do what only tells others, and leave the rest to the thread. Under the lock."""
        assert self.lock.is_held, "effects are carried out under the lock"
        match effect:
            case StopHandlers(process=lost):
                assert isinstance(event, ProcessLost | TookOver), f"{event} ends no life"
                failpoint("before_stop_handlers")
                self._stopwatch = Stopwatch(event.at)
                self._leave_life(lost)
                self._stopwatch.lap("stop")
            case WatchForPoison(_, cautions):
                self._life.poison.cautions = cautions
            case ResumeLife():
                failpoint("before_resume_life")
                self._life.resume()
                self._report()
                self._work.put(self._clear_up)
            case StopSystem():
                self._stop(effect, event)
            case Pause(number, seconds):
                timer = threading.Timer(seconds, self.hear, (PauseOver(number),))
                timer.daemon = True
                timer.start()
            case BeginLife():
                self._work.put(lambda: self._begin_life(effect))
            case LoadProcess():
                self._work.put(lambda: self._load(effect))
            case MarkLife(life):
                self._work.put(lambda: self._mark(life))
            case _:
                assert_never(effect)

    def _leave_life(self, process: str | None) -> None:
        assert self.lock.is_held, "a life is left under the lock"
        self._loader.left |= self._life.leave(process, self._machine.detail)
        self._options |= self._life.members.options
        self._loader.start({})
        self._writer = new_writer(self._owner)

    def _report(self) -> None:
        """Who sees that the life runs sees its report too."""
        assert self.lock.is_held, "a life is reported under the lock"
        if (order := self._order) is None or self._origin is None:
            return
        self._stopwatch.lap("resume")
        watch, snapshot = self._stopwatch, self._origin.snapshot.id
        report = RecoveryReport(
            self._life.incarnation, snapshot, order.process, order.detail, watch.at, watch.seconds, watch.laps
        )
        self._reports.append(report)
        self._life.metrics.went_back(report.phases)
        log.warning(
            "system %r runs again after %.2f s, in life %d, from snapshot %s; %s: %s (%s)",
            *(self._settings.system, report.seconds, report.life, report.snapshot, report.actor or "coordinator"),
            report.detail,
            ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in report.phases.items()),
        )

    def _stop(self, effect: StopSystem, event: RecoveryEvent) -> None:
        assert self.lock.is_held, "a system stops under the lock"
        life, name = self._life, (self._settings.system, self._settings.storage)
        if effect.savepoint is None:
            stop = Stop(*name, effect.process, effect.detail, way=self._way)
        else:
            advances, late = effect.savepoint == life.runner.news.advanced, tuple(life.runner.news.figures())
            stop = Stop.with_savepoint(*name, effect.savepoint, advances=advances, unsettled=late)
        if isinstance(event, ActedInVain):
            stop = replace(stop, acted_in_vain=event.evidence)
        is_shut_down = isinstance(event, StopWanted)
        life.stop(stop, told=not is_shut_down)
        if effect.savepoint is None and not is_shut_down:
            log.error("%s", stop.error())
        for living in self._loader.left.values():
            living.host.stop.remote(life.issuer, stop)
        self._work.put(self._end_spares)

    # The thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        look_at = time.monotonic() + LOOK_S
        while True:
            try:
                work = self._work.get(timeout=max(0.0, look_at - time.monotonic()))
            except queue.Empty:
                self._look_in_peace()
                look_at = time.monotonic() + LOOK_S
                continue
            if work is None:
                return
            try:
                work()
            except Exception as error:  # noqa: BLE001 - as in `hear`
                self._fail(error)

    def _begin_life(self, order: BeginLife) -> None:
        assert not self.lock.is_held, "the log is written without the lock"
        if self._machine.phase is not Phase.WAITING:
            return  # it was stopped
        self._order = order
        keyring = self._keyring()
        if keyring is None:
            self.hear(LogRefused(KEYS_MISSING))
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
        except CannotRollBack as error:
            self._way = error.way
            lost = f"{order.process} was lost: " if order.process else ""
            self.hear(NoRollback(f"{lost}{order.detail}; {error}"))
        except Fenced as error:
            self.hear(NoRollback(error.message))
            self._life.fenced(error)
        except StoreError as error:
            log.warning("system %r cannot go back now: %s", self._settings.system, error)
            self._stopwatch.lap("record")
            self.hear(LogRefused(error.message))
        except RayshotError as error:
            self.hear(NoRollback(f"{order.detail}; its log cannot be read: {error}"))
        else:
            self._lead_on(began)

    def _lead_on(self, began: NewLife) -> None:
        self._dead_then = self._dead_drivers()
        plans = began.origin.plans(self._options, self._dead_then, self._programs())
        ended = frozenset(began.origin.manifest.ended)
        over = frozenset(
            one for one in self._machine.letters if one.process in ended or self._is_over(one, plans.get(one.process))
        )
        with self.lock:
            if self._machine.phase is not Phase.WAITING:
                return
            self._life, self._origin = self._life.next(began), began.origin
            self._install(self._life)
            self._loader.start(plans)
            self._stopwatch.lap("record")
            self.hear(LifeBegan(self._life.incarnation, tuple(sorted(plans)), began.past, over))
            behind = [self._loader.left.pop(name) for name in self._loader.left.keys() - plans.keys()]
        for living in behind:  # they were made behind the snapshot
            door.kill(living.host)

    def _is_over(self, letter: Poison, plan: "LoadPlan | None") -> bool:
        """Whether the snapshot of the life that begins holds this message as handled, or nobody can tell it again."""
        if plan is None:
            return False
        message = letter.message
        is_lost = message.sender in self._dead_then and plan.arrived.get(message.sender, 0) < message.number
        return is_lost or plan.received.get(message.sender, 0) >= message.number

    def _is_wanted(self, order: LoadProcess) -> bool:
        machine = self._machine
        return machine.phase is Phase.LOADING and machine.life == order.life

    def _load(self, order: LoadProcess) -> None:
        assert not self.lock.is_held, "processes are made without the lock"
        if self._is_wanted(order):
            self._loader.load(order, self._life)

    def _mark(self, life: int) -> None:
        failpoint("before_mark_life")
        if self._machine.phase is not Phase.MARKING or self._machine.life != life:
            return
        self._stopwatch.lap("load")
        try:
            self._life.complete()
        except door.CallFailed as error:
            self.hear(MarkRefused(life, repr(error)))
        else:
            self.hear(LifeMarked(life))

    def _clear_up(self) -> None:
        """The life runs, and nobody waits for this any more."""
        self._leases.close()
        if self._order is None:
            return
        for driver in self._dead_drivers() - self._dead_then:
            with self.lock:
                self._life.members.tell_all("driver_died", driver)
        try:
            self._life.forget_earlier()
        except door.CallFailed as error:
            log.info("system %r: the rosters of earlier lives stay for now: %s", self._settings.system, error)

    def _end_spares(self) -> None:
        self._leases.close()
        self._loader.end_loads()
        self._spares.close()

    # Restoring -------------------------------------------------------------------------------------------------

    def restore(self, order: Restoration) -> None:
        """A person restores the system so. From now on this needs the program no more: see `progress`.

        Raises ConfigError if the life began otherwise, SystemDown if it was stopped; SnapshotDeleted, StoreError.
        """
        assert not self.lock.is_held, "the log is written without the lock"
        if (over := self._life.over) is not None:
            raise over
        if self._machine.phase is not Phase.NEW:
            raise ConfigError(f"system {self._settings.system!r} is {self._life.state}: it cannot be restored now")
        view = open_storage(order.origin or self._settings.storage).system(self._settings.system)
        with ExitStack() as stack:
            stack.enter_context(reading(view.log, order.snapshot))
            self._life.restore(order)
            with self.lock:
                if (over := self._life.over) is not None:  # its program died meanwhile
                    raise over
                self._patience_s = order.patience_s
                self._loader.start(order.plans, order.patience_s)
                self.hear(RestoreWanted(self._life.incarnation, tuple(order.plans)))
                self._leases = stack.pop_all()

    def progress(self) -> RestoreProgress:
        """How far the restore is."""
        with self.lock:
            machine, stop = self._machine, self._life.stopped
            is_over = machine.phase is not Phase.NEW and not machine.restores
            cause = None if stop is None or stop.actor is None else self._loader.causes.get(stop.actor)
            return RestoreProgress(is_over, machine.waiting, machine.trouble, stop, cause)

    # Looking ---------------------------------------------------------------------------------------------------

    def _look_in_peace(self) -> None:
        with survived("system %r: nobody looks for silent hosts now", self._settings.system):
            self._look()

    def _look(self) -> None:
        """Find hosts and vaults that are silent.

        Spare processes are started only when the life has a snapshot, so that this delays neither its beginning nor
        what it has to catch up.
        """
        now, life = time.monotonic(), self._life
        self._loader.look(now)
        if self._machine.restores and self._machine.phase is Phase.LOADING:
            if late := self._loader.why_late(now, self._patience_s):
                self.hear(PatienceOver(life.incarnation, late))
        elif life.heals and self._machine.phase is Phase.RUNNING:
            self._detector.look(life.members.hosts | self._spares.ready, now)
            self._vault_detector.look(life.members.vaults, now)
            if life.runner.committed is not None and (modules := life.committer.modules) is not None:
                self._spares.keep(life.incarnation, modules, now)
