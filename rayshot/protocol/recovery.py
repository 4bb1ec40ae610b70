"""The machine that decides how a system goes back to its last snapshot by itself, and goes on.

Whole-system rollback: one process is lost, and all go back to one cut. A lost process alone cannot, because others have
acknowledged what it sent, and no longer keep what it took.

A rollback has five steps. (1) The handlers of the old life stop. (2) The log gets one record, which begins the new life
and chooses its snapshot. Without this record there is no new life: otherwise a later coordinator could use its number
again, and old packets would count. (3) Every process of the snapshot is loaded: a living one in its place, a lost one
in a new start. Nobody sends before all are loaded, because a message to a process that is not loaded yet would be lost
with what that process was before. (4) The new life is marked as running, where a later coordinator finds it. (5) All go
on. Drivers hear of the new life only now: until then, what they send would meet processes that wait to be loaded.

Who was lost is named by life, process and start, where the start counts how often this process was begun in this life.
News of another life or of an earlier start are old, and count for nothing. A process that is lost before its life runs
has sent nothing, so it is loaded again in the same life. One that is lost afterwards ends the life.

A coordinator that takes over does not finish the rollback of another one, because it does not know who went on: if it
finds a life without a mark, or anybody in it who does not run, it begins the next life.

It ends: a message that kills its process would be sent again in each life. If `fruitless_max` lives in a row committed
nothing, the system stops. All that counts is in the log, so that it outlives coordinators.

Sources: K. M. Chandy and L. Lamport, "Distributed Snapshots" (1985), for the cut; E. N. Elnozahy et al., "A Survey of
Rollback-Recovery Protocols in Message-Passing Systems" (2002), section 2, for recovery from coordinated checkpoints.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

LOG_PAUSE_S = 1.0
"""After the log was refused, the next try comes after so many seconds, then after twice as many, and so on."""
LOG_PAUSE_MAX_S = 30.0
STARTS_AT_ONCE = 3
"""So many starts of one process in one life follow each other without a pause."""
START_PAUSE_S = 5.0
"""Seconds before each further start: its node may be gone, and Ray may not know it yet."""
STARTS_MAX = 20
"""After so many starts of one process in one life the system stops: its state does not load any more."""


class Phase(Enum):
    """Where a system is between two moments of work; the values are its words in `status()`."""

    RUNNING = "running"
    WAITING = "recovering: waits"
    """The old life is over, and the log does not have the new one yet."""
    LOADING = "recovering: loads"
    MARKING = "recovering: all loaded"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """When a system gives up, and how long it pauses before it goes back.

    Attributes:
        failures_max: the system stops at the first failure behind so many rollbacks; None for any number.
        fruitless_max: the system stops at the first failure behind so many lives in a row that committed nothing.
        pause_s: seconds between a failure and the new life, if there was a rollback within `stable_s` before.
        pause_factor: each further one multiplies the pause by it, up to `pause_max_s`.
        pause_max_s: the longest pause.
        stable_s: a system that ran so many seconds behind a rollback counts as stable: the next pause is 0.
    """

    failures_max: int | None = None
    fruitless_max: int = 3
    pause_s: float = 1.0
    pause_factor: float = 2.0
    pause_max_s: float = 60.0
    stable_s: float = 60.0

    def __post_init__(self) -> None:
        assert self.failures_max is None or self.failures_max >= 0, f"failures_max is {self.failures_max}"
        assert self.fruitless_max >= 1, f"fruitless_max is {self.fruitless_max}, not at least 1"
        assert min(self.pause_s, self.pause_max_s, self.stable_s) >= 0, f"a time is negative: {self}"
        assert self.pause_factor >= 1, f"pause_factor is {self.pause_factor}, not at least 1"

    def pause(self, rollbacks: tuple[float, ...], now: float) -> float:
        """Seconds before the next rollback; `rollbacks` are the times of those before, oldest first."""
        count, later = 0, now
        for time in reversed(rollbacks):
            if later - time >= self.stable_s:
                break
            count, later = count + 1, time
            if self.pause_s * self.pause_factor ** (count - 1) >= self.pause_max_s:
                return self.pause_max_s
        return self.pause_s * self.pause_factor ** (count - 1) if count else 0.0


@dataclass(frozen=True, slots=True)
class ProcessLost:
    """A process died, or failed so that it must be begun again. `at` counts Unix seconds.

    `start` is the one of `LoadProcess`, and 1 for a process that joined a life by itself. `hopeless`: another start
    cannot help, as for a state that does not load.
    """

    life: int
    process: str
    start: int
    detail: str
    at: float
    hopeless: bool = False

    def __post_init__(self) -> None:
        assert self.life >= 1, f"life is {self.life}, not at least 1"
        assert self.start >= 1, f"start is {self.start}, not at least 1"


@dataclass(frozen=True, slots=True)
class TookOver:
    """A coordinator was begun again, and read the log. It is the first event of its machine.

    `life` is the newest in the log; `marked`: its mark is there. `lost` are processes that should run in it and do not:
    they are dead, belong to another life, or wait to be resumed. See LifeBegan for the rest.
    """

    life: int
    marked: bool
    lost: tuple[str, ...]
    at: float
    rollbacks: tuple[float, ...] = ()
    fruitless: int = 0


@dataclass(frozen=True, slots=True)
class LifeBegan:
    """The log has the new life, which goes on from a snapshot of these `processes`.

    `rollbacks` are the times in Unix seconds of all rollbacks since a person began or restored the system, the new one
    included; `fruitless` counts the newest ones without a commit behind them.
    """

    life: int
    processes: tuple[str, ...]
    rollbacks: tuple[float, ...]
    fruitless: int

    def __post_init__(self) -> None:
        assert self.life > 1, f"life is {self.life}, and no rollback begins the first one"
        assert self.fruitless >= 1, f"fruitless is {self.fruitless}, and the new life has committed nothing"


@dataclass(frozen=True, slots=True)
class LogRefused:
    """The storage could not be reached, so nobody knows whether the new life is in the log. `detail` says why."""

    detail: str


@dataclass(frozen=True, slots=True)
class NoWayBack:
    """There is no snapshot to go back to, or another coordinator has the system. Nothing was written."""

    detail: str


@dataclass(frozen=True, slots=True)
class ProcessLoaded:
    """A process has its state, and waits to go on."""

    life: int
    process: str
    start: int


@dataclass(frozen=True, slots=True)
class LifeMarked:
    """The mark of a life that runs is written, with the place of each process."""

    life: int


@dataclass(frozen=True, slots=True)
class PauseOver:
    """The pause with this number is over."""

    number: int


@dataclass(frozen=True, slots=True)
class CommitWritten:
    """A snapshot of this life was committed."""

    life: int


@dataclass(frozen=True, slots=True)
class StopWanted:
    """A person stops the system, or it was stopped for another reason."""

    detail: str


RecoveryEvent = (
    ProcessLost
    | TookOver
    | LifeBegan
    | LogRefused
    | NoWayBack
    | ProcessLoaded
    | LifeMarked
    | PauseOver
    | CommitWritten
    | StopWanted
)


@dataclass(frozen=True, slots=True)
class StopHandlers:
    """No process of this life or an earlier one works any more: it handles and sends nothing."""

    life: int


@dataclass(frozen=True, slots=True)
class BeginLife:
    """Write the record of a new life behind `life`. `process` was lost, if any; `detail` says why the old life ended.

    Answer with LifeBegan, LogRefused or NoWayBack.
    """

    life: int
    process: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class LoadProcess:
    """Begin this process, or use it where it is if it lives, and load it. Answer with ProcessLoaded or ProcessLost."""

    life: int
    process: str
    start: int


@dataclass(frozen=True, slots=True)
class MarkLife:
    """Write where each process is, and then that this life runs. Answer with LifeMarked."""

    life: int


@dataclass(frozen=True, slots=True)
class ResumeLife:
    """Let all processes of this life go on, and drivers hear of it."""

    life: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Say PauseOver with this number in so many seconds."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StopSystem:
    """The system does not go on by itself; `process` was lost, if any."""

    process: str | None
    detail: str


RecoveryEffect = StopHandlers | BeginLife | LoadProcess | MarkLife | ResumeLife | Pause | StopSystem


@dataclass(slots=True)
class Recovery:
    """See the module. `handle` is the only mutator.

    `detail` says why the system is not running, empty if it is. `trouble` says what holds a new life up, if anything.
    """

    life: int
    policy: RecoveryPolicy = RecoveryPolicy()
    phase: Phase = Phase.RUNNING
    detail: str = ""
    trouble: str = ""
    _lost: str | None = None
    """The process for whose sake the old life ended."""
    _starts: dict[str, int] = field(default_factory=dict)
    """Process -> its newest start in this life, where that is not the first."""
    _waiting: set[str] = field(default_factory=set)
    """The processes that are not loaded yet."""
    _postponed: set[str] = field(default_factory=set)
    """Those of them whose next start waits for a pause."""
    _pauses: int = 0
    _refusals: int = 0
    _rollbacks: tuple[float, ...] = ()
    _fruitless: int = 0

    @property
    def waiting(self) -> tuple[str, ...]:
        """The processes that are not loaded yet, sorted."""
        return tuple(sorted(self._waiting))

    def handle(self, event: RecoveryEvent) -> tuple[RecoveryEffect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        if self.phase is Phase.STOPPED:
            return ()
        match event:
            case ProcessLost():
                return self._process_lost(event)
            case TookOver():
                return self._took_over(event)
            case LifeBegan():
                return self._life_began(event)
            case LogRefused(detail):
                return self._log_refused(detail)
            case NoWayBack(detail):
                return self._stop(detail) if self.phase is Phase.WAITING else ()
            case ProcessLoaded(life, process, start):
                return self._process_loaded(life, process, start)
            case LifeMarked(life):
                return self._life_marked(life)
            case PauseOver(number):
                return self._pause_over(number)
            case CommitWritten(life):
                if life == self.life:
                    self._fruitless = 0
                return ()
            case StopWanted(detail):
                self._end(detail)
                return ()
            case _:
                assert_never(event)

    def validate(self) -> None:
        """Assert what holds between any two events; for tests."""
        loading = self.phase is Phase.LOADING
        assert bool(self._waiting) == loading, f"{self.phase}, and {self._waiting} are not loaded"
        assert self._postponed <= self._waiting, f"{self._postponed} wait for a pause, and are loaded"
        assert (self.phase is Phase.RUNNING) == (self.detail == ""), f"{self.phase}: {self.detail!r}"
        assert all(start > 1 for start in self._starts.values()), f"a first start is noted: {self._starts}"

    def _process_lost(self, lost: ProcessLost) -> tuple[RecoveryEffect, ...]:
        if lost.life != self.life or lost.start != self._starts.get(lost.process, 1):
            return ()
        match self.phase:
            case Phase.RUNNING | Phase.MARKING:
                return self._go_back(lost.process, lost.detail, lost.at)
            case Phase.LOADING:
                return self._start_again(lost)
            case _:
                return ()

    def _go_back(self, process: str | None, detail: str, at: float) -> tuple[RecoveryEffect, ...]:
        """End this life."""
        failures = len(self._rollbacks)
        if self.policy.failures_max is not None and failures >= self.policy.failures_max:
            return self._stop(f"{detail}; the system has gone back {failures} times, the most that it may", process)
        if self._fruitless >= self.policy.fruitless_max:
            return self._stop(
                f"{detail}; the last {self._fruitless} lives committed no snapshot, so the next one would not either",
                process,
            )
        self.phase, self.detail, self._lost, self._refusals = Phase.WAITING, detail, process, 0
        self._waiting.clear()
        self._postponed.clear()
        pause_s = self.policy.pause(self._rollbacks, at)
        return (StopHandlers(self.life), self._pause(pause_s) if pause_s else self._begin())

    def _begin(self) -> BeginLife:
        return BeginLife(self.life, self._lost, self.detail)

    def _took_over(self, event: TookOver) -> tuple[RecoveryEffect, ...]:
        self.life, self._rollbacks, self._fruitless = event.life, event.rollbacks, event.fruitless
        if event.lost:
            return self._go_back(event.lost[0], "it was lost while nobody coordinated", event.at)
        if not event.marked:
            return self._go_back(None, "the coordinator died while it went back", event.at)
        return ()

    def _life_began(self, event: LifeBegan) -> tuple[RecoveryEffect, ...]:
        if self.phase is not Phase.WAITING or event.life <= self.life:
            return ()
        self.life, self._rollbacks, self._fruitless = event.life, event.rollbacks, event.fruitless
        self.trouble = ""
        self._starts.clear()
        self._waiting = set(event.processes)
        if not self._waiting:
            return self._all_loaded()
        self.phase = Phase.LOADING
        return tuple(LoadProcess(self.life, process, 1) for process in event.processes)

    def _log_refused(self, detail: str) -> tuple[RecoveryEffect, ...]:
        if self.phase is not Phase.WAITING:
            return ()
        self._refusals += 1
        self.trouble = detail
        return (self._pause(min(LOG_PAUSE_MAX_S, LOG_PAUSE_S * 2.0 ** min(self._refusals - 1, 10))),)

    def _start_again(self, lost: ProcessLost) -> tuple[RecoveryEffect, ...]:
        """A process was lost before this life ran: load it again."""
        if lost.hopeless or lost.start == STARTS_MAX:
            return self._stop(lost.detail, lost.process)
        self._waiting.add(lost.process)
        self._starts[lost.process] = lost.start + 1
        if lost.start < STARTS_AT_ONCE:
            return (LoadProcess(self.life, lost.process, lost.start + 1),)
        self._postponed.add(lost.process)
        self.trouble = lost.detail
        return (self._pause(START_PAUSE_S),)

    def _process_loaded(self, life: int, process: str, start: int) -> tuple[RecoveryEffect, ...]:
        current = life == self.life and start == self._starts.get(process, 1)
        if self.phase is not Phase.LOADING or not current:
            return ()
        self._waiting.discard(process)
        return () if self._waiting else self._all_loaded()

    def _all_loaded(self) -> tuple[RecoveryEffect, ...]:
        self.phase = Phase.MARKING
        return (MarkLife(self.life),)

    def _life_marked(self, life: int) -> tuple[RecoveryEffect, ...]:
        if self.phase is not Phase.MARKING or life != self.life:
            return ()
        self.phase, self.detail, self.trouble, self._lost = Phase.RUNNING, "", "", None
        return (ResumeLife(life),)

    def _pause(self, seconds: float) -> Pause:
        self._pauses += 1
        return Pause(self._pauses, seconds)

    def _pause_over(self, number: int) -> tuple[RecoveryEffect, ...]:
        if self.phase is Phase.WAITING and number == self._pauses:
            return (self._begin(),)
        if self.phase is Phase.LOADING:
            postponed, self._postponed = self._postponed, set()
            return tuple(LoadProcess(self.life, process, self._starts[process]) for process in sorted(postponed))
        return ()

    def _stop(self, detail: str, process: str | None = None) -> tuple[RecoveryEffect, ...]:
        self._end(detail)
        return (StopSystem(process, detail),)

    def _end(self, detail: str) -> None:
        self.phase, self.detail = Phase.STOPPED, detail
        self._waiting.clear()
        self._postponed.clear()
