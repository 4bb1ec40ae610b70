"""The machine that knows whether a system runs, and decides how it goes back to its last snapshot and goes on.

A life begins in one of four ways. A person begins it, and it runs. Or a program makes its first actors, and it runs
when its first snapshot is committed. Or a person restores it: then it is loaded as in a rollback, steps 3 to 5 below,
but what is refused is not tried for ever, as somebody waits who can mend it. Or it follows another life by a rollback.

Whole-system rollback: one process is lost, and all go back to one cut. A lost process alone cannot, because others have
acknowledged what it sent, and no longer keep what it took.

A rollback has five steps. (1) The handlers of the old life stop. (2) The log gets one record, which begins the new life
and chooses its snapshot. No life begins without this record: a later coordinator could give the same number to another
life, and old packets would count there. (3) Every process of the snapshot is loaded: a living one in its place, a lost
one in a new start. Nobody sends before all are loaded, because a message to a process that is not loaded yet would be
lost with what that process was before. (4) The new life is marked as running, where a later coordinator finds it. (5)
All go on. Drivers hear of the new life only now: until then, what they send would meet processes that wait to be
loaded.

Who was lost is named by life, process and start, where the start counts how often this process was begun in this life.
News of another life or of an earlier start are old, and count for nothing. A process that is lost before all are loaded
has sent nothing, so it is loaded again in the same life. One that is lost afterwards ends the life.

A coordinator that takes over does not finish the rollback of another one, because it does not know who went on: if it
finds a life without a mark, or anybody in it who does not run, it begins the next life.

A driver that may keep no more messages evicts some, so that nobody has to wait while no snapshot succeeds. From
then on the life can only be followed by one that goes on from a cut with these messages: any other would lose them. If
a process is lost and no cut has them, the system stops. The machine compares the numbers in a cut with those that
were evicted. When a snapshot began, and who heard first of its commit, says nothing.

It ends: a message that kills its process would be sent again in each life. A snapshot may be taken before that message
is handled, so one commit proves nothing: only the second one of a life lies behind what its processes did in it. If
`fruitless_max` rollbacks for one process led nowhere, with no second commit between them, the system stops. Deaths of
different processes have nothing to do with each other: they neither add up nor lengthen each other's pauses. All that
counts is in the log, so that it outlives coordinators; their own deaths do not count. Before it stops it looks for the
message that is to blame, see `poison`; what it knows of this is lost with its coordinator.

Sources: K. M. Chandy and L. Lamport, "Distributed Snapshots" (1985), for the cut; E. N. Elnozahy et al., "A Survey of
Rollback-Recovery Protocols in Message-Passing Systems" (2002), section 2, for recovery from coordinated checkpoints.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.poison import MessageId, Poison, Suspicion
from rayshot.protocol.recovery_events import (
    ActedInVain,
    Began,
    BeginLife,
    CommitWritten,
    Defect,
    DriverLost,
    Evicted,
    LifeBegan,
    LifeFenced,
    LifeMarked,
    LoadProcess,
    LoadRefused,
    LogRefused,
    MarkLife,
    MarkRefused,
    NoRollback,
    Past,
    PatienceOver,
    Pause,
    PauseOver,
    ProcessLoaded,
    ProcessLost,
    RecoveryEffect,
    RecoveryEvent,
    RecoveryPolicy,
    RestoreWanted,
    ResumeLife,
    SavepointStored,
    StarterDied,
    StopHandlers,
    StopSystem,
    StopWanted,
    TookOver,
    WatchForPoison,
)

RETRY_PAUSE_S = 1.0
"""After the log or the mark was refused, the next try comes after so many seconds, then after twice as many."""
RETRY_PAUSE_MAX_S = 30.0
STARTS_AT_ONCE = 3
"""So many starts of one process in one life follow each other without a pause."""
START_PAUSE_S = 5.0
"""Seconds before each further start, as its node may be gone, and Ray may not know it yet; and before a load that was
refused is tried again."""
STARTS_MAX = 20
"""After so many starts of one process in one life the system stops: its state does not load any more."""

HOPELESS_STARTS_MAX = 2
"""The same where the state or the class is to blame, and another start would hardly help."""


def pause_behind(start: int, *, hopeless: bool) -> float | None:
    """Seconds between this start of a process, which failed, and its next one; None: it is not started again."""
    if start >= (HOPELESS_STARTS_MAX if hopeless else STARTS_MAX):
        return None
    return 0.0 if start < STARTS_AT_ONCE else START_PAUSE_S


class Phase(Enum):
    """Where a system is between two moments of work; the values are its words in `status()`."""

    NEW = "new"
    """Nobody has said yet how the life begins."""
    BEGINNING = "beginning"
    """A program makes the first actors. The life runs when its first snapshot is committed."""
    RUNNING = "running"
    WAITING = "goes back"
    """The old life is over, and the log does not have the new one yet."""
    LOADING = "loads"
    MARKING = "all loaded"
    STOPPED = "stopped"


class Move(NamedTuple):
    """What the machine does: a method of `Recovery`, and the phases in which it may be afterwards."""

    method: str
    to: tuple[Phase, ...]


_GOES_ON = (_NEW, _BEGINNING, _RUNNING, _WAITING, _LOADING, _MARKING) = (
    Phase.NEW,
    Phase.BEGINNING,
    Phase.RUNNING,
    Phase.WAITING,
    Phase.LOADING,
    Phase.MARKING,
)
_STOPPED = Phase.STOPPED
_LEAVES = Move("_process_lost", (_WAITING, _STOPPED))
_STOPS = Move("_stop_wanted", (_STOPPED,))
MOVES: Mapping[type[RecoveryEvent], Mapping[Phase, Move | None]] = {
    Began: {_NEW: Move("_began", (_RUNNING, _BEGINNING))},
    RestoreWanted: {_NEW: Move("_restore_wanted", (_LOADING, _MARKING))},
    TookOver: {_NEW: Move("_took_over", (_RUNNING, _WAITING, _STOPPED))},
    StarterDied: {_NEW: _STOPS, _BEGINNING: _STOPS, **dict.fromkeys((_RUNNING, _WAITING, _LOADING, _MARKING))},
    ProcessLost: {
        _BEGINNING: Move("_first_lost", (_STOPPED,)),
        _RUNNING: _LEAVES,
        _WAITING: None,
        _LOADING: Move("_start_again", (_LOADING, _STOPPED)),
        _MARKING: _LEAVES,
    },
    LifeBegan: {_WAITING: Move("_life_began", (_LOADING, _MARKING))},
    LogRefused: {_WAITING: Move("_refused", (_WAITING,))},
    NoRollback: {_WAITING: _STOPS},
    ProcessLoaded: {_LOADING: Move("_process_loaded", (_LOADING, _MARKING))},
    LoadRefused: {_LOADING: Move("_load_refused", (_LOADING, _STOPPED))},
    PatienceOver: {_LOADING: _STOPS, **dict.fromkeys((_RUNNING, _WAITING, _MARKING))},
    LifeMarked: {_WAITING: None, _MARKING: Move("_life_marked", (_RUNNING,))},
    MarkRefused: {_WAITING: None, _MARKING: Move("_mark_refused", (_MARKING, _STOPPED))},
    PauseOver: {
        _WAITING: Move("_begin_now", (_WAITING,)),
        _LOADING: Move("_load_now", (_LOADING,)),
        _MARKING: Move("_mark_now", (_MARKING,)),
    },
    Evicted: {_RUNNING: Move("_driver_evicted", (_RUNNING,)), **dict.fromkeys((_WAITING, _LOADING, _MARKING))},
    CommitWritten: {
        _BEGINNING: Move("_first_committed", (_RUNNING,)),
        _RUNNING: Move("_committed", (_RUNNING,)),
        _WAITING: Move("_committed", (_WAITING,)),
    },
    DriverLost: {phase: Move("_driver_died", (phase,)) for phase in _GOES_ON},
    SavepointStored: dict.fromkeys((_RUNNING, _WAITING, _STOPPED), Move("_savepoint_stored", (_STOPPED,))),
    LifeFenced: {**dict.fromkeys(_GOES_ON, _STOPS), _WAITING: None},
    ActedInVain: dict.fromkeys(_GOES_ON, _STOPS),
    Defect: dict.fromkeys(_GOES_ON, _STOPS),
    StopWanted: dict.fromkeys(_GOES_ON, _STOPS),
}
"""By event and phase, what the machine does. None: nothing. A life that is over loses no process, and its mark does not
count; and while the system goes back nobody may evict, as its snapshot may be chosen already. If another life has the
storage, the answer to BeginLife says so; and what a life that is over has answered counts no more. A pair that is not
here cannot come: `handle` fails with an assertion. News of
an earlier life, start or pause do not come so far. A machine that has stopped only hears still of the savepoint with
which a person wanted to stop it: that is why, whatever died meanwhile."""


@dataclass(slots=True)
class Recovery:
    """See the module. `handle` is the only mutator.

    `detail` says why the system went back or stopped, empty if neither. `trouble` says what holds a new life up, if
    anything.
    """

    life: int
    policy: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    phase: Phase = Phase.NEW
    detail: str = ""
    trouble: str = ""
    lost: str | None = None
    """The process for whose sake the old life ended, None if the life runs, or for no process's sake."""
    _starts: dict[str, int] = field(default_factory=dict)
    """Process -> its newest start in this life, where that is not the first."""
    _processes: frozenset[str] = frozenset()
    """The processes of the snapshot from which this life goes on."""
    _waiting: set[str] = field(default_factory=set)
    """Those of them that are not loaded yet."""
    _postponed: dict[str, int] = field(default_factory=dict)
    """Those of them that are to be loaded behind a pause, and its number."""
    _pauses: int = 0
    """The number of the newest pause, and of the newest one that nothing waits for any more."""
    _refusals: int = 0
    """How many times in a row this step was refused."""
    _past: Past = field(default_factory=Past)
    _suspicion: Suspicion = field(init=False)
    _evicted: dict[str, Evicted] = field(default_factory=dict)
    """Driver -> what it evicted in this life, where no commit is known to hold that."""

    def __post_init__(self) -> None:
        self._suspicion = Suspicion(self.policy.fruitless_max, self.policy.dead_letters)

    @property
    def letters(self) -> frozenset[Poison]:
        """The messages that became dead letters, as far as no snapshot is known to hold them as handled."""
        return frozenset(self._suspicion.letters)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The processes that are not loaded yet, sorted."""
        return tuple(sorted(self._waiting))

    def handle(self, event: RecoveryEvent) -> tuple[RecoveryEffect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        before = self.phase
        moves = MOVES[type(event)]
        if self._is_late(event) or (before is Phase.STOPPED and before not in moves):
            return ()
        assert before in moves, f"this cannot come in life {self.life}, {before.value} for {self.detail!r}: {event}"
        move = moves[before]
        if move is None:
            return ()
        effects: tuple[RecoveryEffect, ...] = getattr(self, move.method)(event)
        assert self.phase in move.to, f"{event} led from {before} to {self.phase}"
        return effects

    def _is_late(self, event: RecoveryEvent) -> bool:
        """Whether it is news of an earlier life, start or pause."""
        match event:
            case ProcessLost():  # who took over does not know the starts, so a higher one is of this life too
                return event.life != self.life or event.start < self._newest_start(event.process)
            case ProcessLoaded() | LoadRefused():
                is_awaited = event.process in self._waiting and event.start == self._newest_start(event.process)
                return event.life != self.life or not is_awaited
            case LifeBegan():
                return event.life <= self.life
            case (
                StarterDied() | PatienceOver() | LifeMarked() | MarkRefused() | Evicted() | CommitWritten()
                | SavepointStored() | LifeFenced()
            ):  # fmt: skip
                return event.life != self.life
            case PauseOver():
                return event.number != self._pauses and event.number not in self._postponed.values()
            case _:
                return False

    def _newest_start(self, process: str) -> int:
        return self._starts.get(process, 1)

    def validate(self) -> None:
        """Assert what holds between any two events; for tests."""
        loading = self.phase is Phase.LOADING
        assert bool(self._waiting) == loading, f"{self.phase}, and {self._waiting} are not loaded"
        assert self._postponed.keys() <= self._waiting, f"{self._postponed} wait for a pause, and are loaded"
        assert self._waiting <= self._processes, f"{self._waiting} are to be loaded, and not in the snapshot"
        runs = self.phase in (Phase.NEW, Phase.BEGINNING, Phase.RUNNING)
        assert not (runs and self.detail), f"{self.phase}: {self.detail!r}"
        assert self.detail or self.phase not in (Phase.WAITING, Phase.STOPPED), f"nobody says why: {self.phase}"
        assert all(start > 1 for start in self._starts.values()), f"a first start is noted: {self._starts}"

    @property
    def restores(self) -> bool:
        """Whether a person restores the system: it is loaded, and not because it went back."""
        return self.phase in (Phase.LOADING, Phase.MARKING) and not self.detail

    def _began(self, event: Began) -> tuple[RecoveryEffect, ...]:
        self.phase = Phase.BEGINNING if event.waits_for_commit else Phase.RUNNING
        return ()

    def _restore_wanted(self, event: RestoreWanted) -> tuple[RecoveryEffect, ...]:
        return self._load(event.processes)

    def _first_lost(self, lost: ProcessLost) -> tuple[RecoveryEffect, ...]:
        """There is no snapshot to go back to."""
        return self._stop(lost.detail, lost.process)

    def _process_lost(self, lost: ProcessLost) -> tuple[RecoveryEffect, ...]:
        return self._roll_back(lost.process, lost.detail, lost.at, lost.handled)

    def _roll_back(
        self, process: str | None, detail: str, at: float, handled: MessageId | None = None
    ) -> tuple[RecoveryEffect, ...]:
        """End this life."""
        if not self.policy.rolls_back:
            return self._stop(detail, process)
        failures = self._past.rollbacks
        if self.policy.failures_max is not None and failures >= self.policy.failures_max:
            return self._stop(f"{detail}; the system has gone back {failures} times, the most that it may", process)
        if process is not None:
            match self._suspicion.judge(process, handled, self._past.losses, self._past.led_nowhere(process)):
                case str(why):
                    return self._stop(f"{detail}; {why}", process)
                case Poison(_, message):
                    detail = f"{detail}; {process} does not live through {message}, which becomes a dead letter"
        self.phase, self.detail, self.lost, self._refusals = Phase.WAITING, detail, process, 0
        self._forget_loads()
        pause_s = self.policy.pause(self._past.times(process), at)
        return (StopHandlers(self.life, process), self._pause(pause_s) if pause_s else self._begin())

    def _begin(self) -> BeginLife:
        self._pauses += 1  # a pause that is not over yet must not begin a second life
        needs = tuple(self._evicted[driver] for driver in sorted(self._evicted))
        return BeginLife(self.life, self.lost, self.detail, needs)

    def _driver_evicted(self, event: Evicted) -> tuple[RecoveryEffect, ...]:
        self._evicted[event.driver] = event.and_before(self._evicted.get(event.driver))
        return ()

    def _driver_died(self, event: DriverLost) -> tuple[RecoveryEffect, ...]:
        self._forget_evicted((event.driver,))
        return ()

    def _first_committed(self, event: CommitWritten) -> tuple[RecoveryEffect, ...]:
        self.phase = Phase.RUNNING
        return self._committed(event)

    def _committed(self, event: CommitWritten) -> tuple[RecoveryEffect, ...]:
        self._past = self._past.committed()
        self._forget_evicted(event.holds)
        return ()

    def _forget_evicted(self, drivers: Collection[str]) -> None:
        for driver in drivers:
            self._evicted.pop(driver, None)

    def _took_over(self, event: TookOver) -> tuple[RecoveryEffect, ...]:
        self.life, self._past, self.phase = event.life, event.past, Phase.RUNNING
        self._suspicion.take_over(event.past.losses)
        self._evicted = {evicted.driver: evicted for evicted in event.evicted}
        if event.savepoint is not None:
            return self._stop_with(event.savepoint)
        if event.unfinished:
            return self._stop(event.unfinished)
        if event.marked and event.lost:
            return self._roll_back(event.lost[0], event.detail, event.at)
        if event.idle or not event.marked:  # the rollback was not finished, and no process caused that
            return self._roll_back(None, "the coordinator died while it went back", event.at)
        return ()

    def _life_began(self, event: LifeBegan) -> tuple[RecoveryEffect, ...]:
        self.life, self._past = event.life, event.past
        self.trouble, self._refusals = "", 0
        self._starts.clear()
        self._evicted.clear()
        self._suspicion.letters -= event.over
        cautions = self._suspicion.cautions(event.past.losses)
        watch = (WatchForPoison(self.life, cautions),) if cautions else ()
        return (*watch, *self._load(event.processes))

    def _load(self, processes: tuple[str, ...]) -> tuple[RecoveryEffect, ...]:
        """Begin and load all these processes, of which the life consists."""
        self._processes, self._waiting = frozenset(processes), set(processes)
        if not processes:
            return self._all_loaded()
        self.phase = Phase.LOADING
        return tuple(LoadProcess(self.life, process, 1) for process in processes)

    def _refused(self, event: LogRefused | MarkRefused) -> tuple[RecoveryEffect, ...]:
        """Try this step again later."""
        self._refusals += 1
        self.trouble = event.detail
        return (self._pause(min(RETRY_PAUSE_MAX_S, RETRY_PAUSE_S * 2.0 ** min(self._refusals - 1, 10))),)

    def _load_refused(self, event: LoadRefused) -> tuple[RecoveryEffect, ...]:
        if self.restores:  # somebody waits for it, and can mend what is wrong
            return self._stop(event.detail, event.process)
        return self._postpone(event.process, event.detail)

    def _start_again(self, lost: ProcessLost) -> tuple[RecoveryEffect, ...]:
        """A process was lost before this life ran: load it again."""
        if lost.process not in self._processes:
            return ()
        pause_s = pause_behind(lost.start, hopeless=lost.hopeless)
        if pause_s is None and self.restores:
            return self._stop(lost.detail, lost.process)
        if pause_s is None:
            return self._stop(f"{self.detail}; {lost.detail}", self.lost)
        self._waiting.add(lost.process)
        self._starts[lost.process], self.trouble = lost.start + 1, lost.detail
        self._postponed.pop(lost.process, None)
        if not pause_s:
            return (LoadProcess(self.life, lost.process, lost.start + 1),)
        return self._postpone(lost.process, lost.detail)

    def _postpone(self, process: str, why: str) -> tuple[RecoveryEffect, ...]:
        pause = self._pause(START_PAUSE_S)
        self._postponed[process], self.trouble = pause.number, why
        return (pause,)

    def _process_loaded(self, event: ProcessLoaded) -> tuple[RecoveryEffect, ...]:
        self._waiting.discard(event.process)
        self._postponed.pop(event.process, None)
        return () if self._waiting else self._all_loaded()

    def _all_loaded(self) -> tuple[RecoveryEffect, ...]:
        self.phase, self._refusals = Phase.MARKING, 0
        self._pauses += 1  # a pause that is not over yet is none of the mark
        return (MarkLife(self.life),)

    def _life_marked(self, event: LifeMarked) -> tuple[RecoveryEffect, ...]:
        self.phase, self.detail, self.trouble, self.lost = Phase.RUNNING, "", "", None
        return (ResumeLife(event.life),)

    def _pause(self, seconds: float) -> Pause:
        self._pauses += 1
        return Pause(self._pauses, seconds)

    def _begin_now(self, _: PauseOver) -> tuple[RecoveryEffect, ...]:
        return (self._begin(),)

    def _load_now(self, event: PauseOver) -> tuple[RecoveryEffect, ...]:
        due = sorted(process for process, pause in self._postponed.items() if pause == event.number)
        for process in due:
            del self._postponed[process]
        return tuple(LoadProcess(self.life, process, self._newest_start(process)) for process in due)

    def _mark_now(self, _: PauseOver) -> tuple[RecoveryEffect, ...]:
        return (MarkLife(self.life),)

    def _savepoint_stored(self, event: SavepointStored) -> tuple[RecoveryEffect, ...]:
        return self._stop_with(event.snapshot)

    def _mark_refused(self, event: MarkRefused) -> tuple[RecoveryEffect, ...]:
        if self.restores:
            return self._stop(event.detail)
        return self._refused(event)

    def _stop_with(self, savepoint: SnapshotId) -> tuple[RecoveryEffect, ...]:
        return self._stop(f"it was stopped with the savepoint {savepoint}", savepoint=savepoint)

    def _stop_wanted(
        self, event: StopWanted | Defect | StarterDied | PatienceOver | NoRollback | LifeFenced | ActedInVain
    ) -> tuple[RecoveryEffect, ...]:
        return self._stop(event.detail)

    def _stop(
        self, detail: str, process: str | None = None, savepoint: SnapshotId | None = None
    ) -> tuple[RecoveryEffect, ...]:
        self.phase, self.detail = Phase.STOPPED, detail
        self._forget_loads()
        return (StopSystem(process, detail, savepoint),)

    def _forget_loads(self) -> None:
        self._waiting.clear()
        self._postponed.clear()
