"""What the machine of recovery hears and orders, and its policy: see `recovery`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rayshot.protocol.identity import NOTHING_OWED, Owed, SnapshotId
from rayshot.protocol.poison import Caution, MessageId, Poison

TIMES_MAX = 100
"""So many rollbacks for one process are remembered; a pause is the longest one long before."""


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """When a system gives up, and how long it pauses before it goes back.

    Attributes:
        rolls_back: False for a system that never goes back by itself: the first failure stops it.
        failures_max: the system stops at the first failure behind so many rollbacks, for whatever reason; None for any
            number.
        fruitless_max: the system stops at the first loss of a process behind so many rollbacks for it in a row that led
            nowhere.
        pause_s: seconds between a failure and the new life, if a rollback of this row was for the same process, less
            than `stable_s` before the failure.
        pause_factor: each further one multiplies the pause by it, up to `pause_max_s`.
        pause_max_s: the longest pause.
        stable_s: if a process lasts so many seconds, its next pause is 0. The time in which it was loaded counts too.
        dead_letters: a message that ends its actor's process again and again becomes a dead letter; see `poison`.
    """

    rolls_back: bool = True
    failures_max: int | None = None
    fruitless_max: int = 3
    pause_s: float = 1.0
    pause_factor: float = 2.0
    pause_max_s: float = 60.0
    stable_s: float = 60.0
    dead_letters: bool = False

    def __post_init__(self) -> None:
        assert self.failures_max is None or self.failures_max >= 0, f"failures_max is {self.failures_max}"
        assert self.fruitless_max >= 1, f"fruitless_max is {self.fruitless_max}, not at least 1"
        assert min(self.pause_s, self.pause_max_s, self.stable_s) >= 0, f"a time is negative: {self}"
        assert self.pause_factor >= 1, f"pause_factor is {self.pause_factor}, not at least 1"

    def pause(self, rollbacks: tuple[float, ...], now: float) -> float:
        """Seconds before the next rollback, for a loss `now`; `rollbacks` are `Past.times`, those of earlier ones.

        Those are the times at which lives began, so the pause before a life is not part of the life before it.
        """
        pause_s = 0.0
        for number, (began, ended) in enumerate(pairwise((*rollbacks, now)), 1):
            longer_s = min(self.pause_max_s, pause_s * self.pause_factor) if pause_s else self.pause_s
            failed = ended if number == len(rollbacks) else ended - longer_s
            pause_s = 0.0 if failed - began >= self.stable_s else longer_s
        return pause_s


@dataclass(frozen=True, slots=True)
class Began:
    """A person began this life: it runs, or if it `waits_for_commit`, as soon as it has its first snapshot.

    In the second case a program makes the first actors, and no other one can finish that.
    """

    life: int
    waits_for_commit: bool = False


@dataclass(frozen=True, slots=True)
class RestoreWanted:
    """A person restores a system: this life goes on from a snapshot of these `processes`."""

    life: int
    processes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StarterDied:
    """The program died that started this life; `detail` says so. One that had said what to restore is not needed."""

    life: int
    detail: str


@dataclass(frozen=True, slots=True)
class PatienceOver:
    """A restore has come no further for so long that a person shall hear of it; `detail` says what it waits for."""

    life: int
    detail: str


@dataclass(frozen=True, slots=True)
class ProcessLost:
    """A process died, or failed so that it must be begun again. `at` counts Unix seconds.

    `start` is the one of `LoadProcess`, and 1 for a process that joined a life by itself. `hopeless`: another start
    hardly helps, as for a state that its class does not take. `handled` is the message that it had said to handle, see
    `poison`.
    """

    life: int
    process: str
    start: int
    detail: str
    at: float
    hopeless: bool = False
    handled: MessageId | None = None

    def __post_init__(self) -> None:
        assert self.life >= 1, f"life is {self.life}, not at least 1"
        assert self.start >= 1, f"start is {self.start}, not at least 1"
        assert self.detail, "nobody says why the process was lost: detail is empty"


@dataclass(frozen=True, slots=True)
class Past:
    """What the log says of earlier rollbacks.

    `rollbacks` counts those since a person began or restored the system. `row` has those since the last life with two
    commits: the process that was lost, None for a coordinator, and the times of its newest rollbacks, at most
    TIMES_MAX, in Unix seconds. Of these, `fruitless` counts for each process those since a life with a commit was ended
    by another one. `commits` counts those of the present life, up to 2: more of them change nothing.
    """

    rollbacks: int = 0
    row: Mapping[str | None, tuple[float, ...]] = field(default_factory=dict)
    fruitless: Mapping[str, int] = field(default_factory=dict)
    commits: int = 0

    @property
    def losses(self) -> Mapping[str, int]:
        """Process -> how many rollbacks of the row were for it. The death of a coordinator is no process's fault."""
        return {process: len(times) for process, times in self._row_of_now.items() if process is not None}

    def led_nowhere(self, process: str) -> int:
        """How many rollbacks for this process led nowhere, now that it is lost."""
        return self.fruitless.get(process, 0) if self.commits <= 1 else 0

    def times(self, process: str | None) -> tuple[float, ...]:
        """The times of the rollbacks in this row for that process, or for coordinators, in order."""
        return self._row_of_now.get(process, ())

    def rolled_back(self, at: float, process: str | None) -> "Past":
        """What the log says behind one more rollback, for the loss of this process, or for that of a coordinator."""
        row = {**self._row_of_now, process: (*self.times(process), at)[-TIMES_MAX:]}
        if process is None:
            return Past(self.rollbacks + 1, row, self.fruitless if self.commits <= 1 else {})
        others = self.fruitless if self.commits == 0 else {}
        return Past(self.rollbacks + 1, row, {**others, process: self.led_nowhere(process) + 1})

    def committed(self) -> "Past":
        """What the log says behind one more commit."""
        return replace(self, commits=self.commits + 1) if self.commits <= 1 else self

    @property
    def _row_of_now(self) -> Mapping[str | None, tuple[float, ...]]:
        """A second commit of a life lies behind what its processes did in it: the row is over."""
        return self.row if self.commits <= 1 else {}


@dataclass(frozen=True, slots=True)
class TookOver:
    """A coordinator was begun again, and read the log. Only DriverLost comes to its machine before.

    `life` is the newest in the log; `marked`: it runs, or has run. `lost` are the processes that should be in it and
    are dead; `detail` says why the first one is. `idle`: some live, and do not run in it: they belong to an earlier
    life, or wait to be resumed. `evicted` is what drivers evicted. `unfinished` says what only a program could have
    finished, whose work is lost; empty if there is nothing. `savepoint` is the one with which the system was stopped.
    """

    life: int
    marked: bool
    lost: tuple[str, ...]
    at: float
    past: Past = Past()
    idle: bool = False
    detail: str = "it was lost while nobody coordinated"
    evicted: tuple["Evicted", ...] = ()
    unfinished: str = ""
    savepoint: SnapshotId | None = None


@dataclass(frozen=True, slots=True)
class LifeBegan:
    """The log has the new life, which goes on from a snapshot of these `processes`. `past` counts its rollback too.

    `over` are those of the machine's dead letters that never come again: the snapshot holds them as handled, or their
    sender is gone.
    """

    life: int
    processes: tuple[str, ...]
    past: Past
    over: frozenset[Poison] = frozenset()

    def __post_init__(self) -> None:
        assert self.life > 1, f"life is {self.life}, and no rollback begins the first one"
        assert self.past.rollbacks, "past is of a system that never went back"
        assert self.past.commits == 0, f"past is that of a life with {self.past.commits} commits"


@dataclass(frozen=True, slots=True)
class LogRefused:
    """The storage could not be reached, so nobody knows whether the new life is in the log. `detail` says why."""

    detail: str


@dataclass(frozen=True, slots=True)
class NoRollback:
    """The system cannot go back: no snapshot is there, its log is damaged, or another coordinator leads it."""

    detail: str


@dataclass(frozen=True, slots=True)
class ProcessLoaded:
    """A process has its state, and waits to go on."""

    life: int
    process: str
    start: int


@dataclass(frozen=True, slots=True)
class LoadRefused:
    """A process cannot be loaded now, as the storage is away or no node has room; this start of it goes on."""

    life: int
    process: str
    start: int
    detail: str


@dataclass(frozen=True, slots=True)
class MarkRefused:
    """The mark of a life could not be written now; `detail` says why."""

    life: int
    detail: str


@dataclass(frozen=True, slots=True)
class LifeMarked:
    """The mark of a life that runs is written, with the place of each process."""

    life: int


@dataclass(frozen=True, slots=True)
class PauseOver:
    """The pause with this number is over."""

    number: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """A driver evicts messages that no durable snapshot holds, so no life can go on from a cut that lacks them.

    By receiver: messages up to `sent` are kept no longer, and the answers up to `received` are forgotten, but not of
    those calls that are `owed`. What several of these say of one driver adds up. `at` is the Unix time of the first.
    """

    life: int
    driver: str
    sent: Mapping[str, int]
    received: Mapping[str, int] = field(default_factory=dict)
    at: float = 0.0
    owed: Owed = field(default_factory=dict)

    def is_held(
        self, sent: Mapping[str, int], received: Mapping[str, int], ended: Collection[str], owed: Owed = NOTHING_OWED
    ) -> bool:
        """Whether a cut holds all of this, by its numbers of this driver and the processes that had ended."""
        pairs = ((self.sent, sent), (self.received, received))
        return all(
            receiver in ended or held.get(receiver, 0) >= number
            for needed, held in pairs
            for receiver, number in needed.items()
        ) and all(
            receiver in ended or number > self.received.get(receiver, 0) or number in self.owed.get(receiver, ())
            for receiver, numbers in owed.items()
            for number in numbers
        )

    def and_before(self, earlier: "Evicted | None") -> "Evicted":
        """What this and an earlier one of the same driver say together."""
        if earlier is None:
            return self
        assert earlier.driver == self.driver, f"{earlier.driver} is not {self.driver}"
        sent, received = _highest(earlier.sent, self.sent), _highest(earlier.received, self.received)
        owed = {receiver: numbers for receiver in received if (numbers := self._still_owed(earlier, receiver))}
        return replace(earlier, sent=sent, received=received, owed=owed)

    def _still_owed(self, earlier: "Evicted", receiver: str) -> list[int]:
        """The calls of which neither of the two forgets the answer."""
        last, before = self.received.get(receiver, 0), earlier.received.get(receiver, 0)
        ours, theirs = self.owed.get(receiver, ()), earlier.owed.get(receiver, ())
        return [*(n for n in theirs if n > last or n in ours), *(n for n in ours if n > before)]


def _highest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


@dataclass(frozen=True, slots=True)
class CommitWritten:
    """A snapshot of this life was committed. It advances, and holds all that the drivers `holds` evicted."""

    life: int
    holds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DriverLost:
    """A driver is dead. What it evicted it would not tell again either."""

    driver: str


@dataclass(frozen=True, slots=True)
class SavepointStored:
    """The snapshot is durable with which a person stops the system."""

    life: int
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class LifeFenced:
    """Another life has the storage, or what is outside does not fit: this one can commit nothing any more."""

    life: int
    detail: str


@dataclass(frozen=True, slots=True)
class StopWanted:
    """A person ends the system."""

    detail: str


@dataclass(frozen=True, slots=True)
class ActedInVain:
    """A life answered a call otherwise than an earlier one, and a program had acted on the first answer.

    That stays so if this life is over by now. `evidence` says by name which program and which call.
    """

    detail: str
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Defect:
    """It cannot go on, for a reason that nobody expects."""

    detail: str


RecoveryEvent = (
    Began
    | RestoreWanted
    | StarterDied
    | PatienceOver
    | ProcessLost
    | TookOver
    | LifeBegan
    | LogRefused
    | NoRollback
    | ProcessLoaded
    | LoadRefused
    | LifeMarked
    | MarkRefused
    | PauseOver
    | Evicted
    | CommitWritten
    | DriverLost
    | SavepointStored
    | LifeFenced
    | ActedInVain
    | Defect
    | StopWanted
)


@dataclass(frozen=True, slots=True)
class StopHandlers:
    """No process of this life or an earlier one works any more: it handles and sends nothing.

    From this moment no snapshot of this life begins, and none that began is stored: it would lack the `process` that
    was lost, if one was.
    """

    life: int
    process: str | None = None


@dataclass(frozen=True, slots=True)
class BeginLife:
    """Write the record of a new life behind `life`. `process` was lost, if any; `detail` says why the old life ended.

    Answer with LifeBegan, LogRefused or NoRollback. The number of the new life may be higher than one more. If the
    snapshot lacks anything of `needs`, the answer is NoRollback, and no record is written.
    """

    life: int
    process: str | None
    detail: str
    needs: tuple[Evicted, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchForPoison:
    """In this life these processes handle their messages so, also those that are begun later; see `poison`."""

    life: int
    cautions: Mapping[str, Caution]


@dataclass(frozen=True, slots=True)
class LoadProcess:
    """Begin this process, or use it where it is if it lives, and load it.

    Answer with ProcessLoaded, ProcessLost or LoadRefused.
    """

    life: int
    process: str
    start: int


@dataclass(frozen=True, slots=True)
class MarkLife:
    """Write where each process is, and then that this life runs. Answer with LifeMarked or MarkRefused."""

    life: int


@dataclass(frozen=True, slots=True)
class ResumeLife:
    """Let all processes of this life go on, and drivers hear of it. Tell each process again until it has answered."""

    life: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Say PauseOver with this number in so many seconds."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StopSystem:
    """The system does not go on, from this moment. `process` was lost, or it was stopped with `savepoint`, if any."""

    process: str | None
    detail: str
    savepoint: SnapshotId | None = None


RecoveryEffect = StopHandlers | BeginLife | WatchForPoison | LoadProcess | MarkLife | ResumeLife | Pause | StopSystem
