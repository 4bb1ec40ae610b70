"""The metrics of a system for Prometheus, through Ray's metrics. The coordinator reports them for the whole system.

Ray drops a gauge that was not set for 20 s or more, so each is set again every PAUSE_S. No message costs extra work:
the coordinator asks actors for counters that they have anyway. If an actor is busy, or has a full outbox, when it is
asked, it counts as busy or full since the question before. As with any sample, this is right on average.
"""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rayshot.protocol.abort import AbortReason
from rayshot.runtime.door.metrics import make_metric, takes_metrics_here
from rayshot.runtime.door.survived_errors import survived
from rayshot.runtime.wire.states import STATES

log = logging.getLogger("rayshot")
PAUSE_S = 5.0
ASKED_A_SECOND = 50
"""The coordinator asks at most so many actors a second, so it asks the actors of a large system less often."""
PHASE_BOUNDS_S = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `kind` is the name of its class in `ray.util.metrics`."""

    name: str
    kind: str
    about: str
    labels: tuple[str, ...] = ()


METRICS = (
    Metric(
        "rayshot_snapshots_total",
        "Counter",
        "Snapshots that ended. outcome: committed or aborted; reason: why it was aborted; trigger: interval, request, "
        "savepoint, drain or actor",
        ("outcome", "reason", "trigger"),
    ),
    Metric("rayshot_snapshots_in_progress", "Gauge", "Open snapshots: begun, and neither committed nor aborted."),
    Metric(
        "rayshot_snapshot_phase_seconds",
        "Histogram",
        "Of each committed snapshot. record: until all actors have recorded (aligned: with their waits for markers); "
        "hold: the longest pause of an actor; store: the writing.",
        ("phase",),
    ),
    Metric("rayshot_snapshot_bytes", "Gauge", "Size of the last snapshot, shared chunks included."),
    Metric("rayshot_snapshot_written_bytes", "Gauge", "Bytes that the last snapshot added to the storage."),
    Metric("rayshot_snapshot_in_flight_messages", "Gauge", "Messages in flight in the last snapshot."),
    Metric(
        "rayshot_last_snapshot_timestamp_seconds",
        "Gauge",
        "Unix time of the last committed snapshot of this life; before the first one, when the coordinator began.",
    ),
    Metric(
        "rayshot_recoveries_total",
        "Counter",
        "How often the system went back to a snapshot. cause: restore by a program, rollback by itself.",
        ("cause",),
    ),
    Metric(
        "rayshot_recovery_phase_seconds",
        "Histogram",
        "Of each restore and rollback. load: until all actors are loaded. Of a rollback also stop, record, resume, and "
        "pause where it waits before it goes on.",
        ("phase",),
    ),
    Metric("rayshot_system_state", "Gauge", "1 for the state that the system is in, 0 for all others.", ("state",)),
    Metric("rayshot_life", "Gauge", "The number of the system's life."),
    Metric("rayshot_actors", "Gauge", "Living actors.", ("actor_class",)),
    Metric("rayshot_messages_total", "Counter", "Messages that actors handled.", ("actor_class",)),
    Metric("rayshot_dead_letters_total", "Counter", "Messages that no actor could handle.", ("actor_class",)),
    Metric(
        "rayshot_changed_answers_total",
        "Counter",
        "Answers that a program had got and acted on, and that were others after the system had gone back.",
        ("actor_class",),
    ),
    Metric(
        "rayshot_outside_behind_seconds",
        "Gauge",
        "For how long actors have not done yet outside what follows from a durable snapshot; the maximum of all.",
    ),
    Metric(
        "rayshot_outside_failures_total",
        "Counter",
        "What was tried outside in vain, such as to write into a table, and is tried again.",
    ),
    Metric(
        "rayshot_mailbox_messages",
        "Gauge",
        "Messages that wait at an actor; the maximum of its class.",
        ("actor_class",),
    ),
    Metric(
        "rayshot_outbox_messages",
        "Gauge",
        "Messages that an actor has to send; the maximum of its class.",
        ("actor_class",),
    ),
    Metric("rayshot_busy_seconds_total", "Counter", "Seconds in handlers, by sampling.", ("actor_class",)),
    Metric(
        "rayshot_backpressured_seconds_total", "Counter", "Seconds with a full outbox, by sampling.", ("actor_class",)
    ),
)
"""All metrics; each has the label `system` too. Ray puts `ray_` before the names."""


class ActorFigures(NamedTuple):
    """An actor's answer. Messages are counts; `handled` and `dead_letters` count over a life."""

    actor_class: str
    handled: int
    dead_letters: int
    mailbox: int
    outbox: int
    busy: bool
    full: bool


class SystemFigures(NamedTuple):
    """The figures that a coordinator knows itself; `last_taken_at` is Unix time.

    Some actor is `behind_s` seconds behind outside; `outside_failures` are counted over the life.
    """

    state: str
    in_progress: int
    last_taken_at: float
    behind_s: float
    outside_failures: int


Sample = tuple[str, float, Mapping[str, str]]
"""A metric's name, its new value or the value to add, and its labels without the system."""


class ActorSums:
    """Figures of actors, by class."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, ActorFigures]] = {}

    def add(self, now: float, answers: Mapping[str, tuple[Any, ...] | None]) -> Iterator[Sample]:
        """Samples from the actors' answers, each the fields of ActorFigures or None; `now` in monotonic seconds."""
        sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for name, answer in answers.items():
            if answer is None:
                continue
            one = ActorFigures(*answer)
            before_at, before = self._known.get(name, (now, one._replace(handled=0, dead_letters=0)))
            self._known[name] = now, one
            of_class, past_s = sums[one.actor_class], now - before_at
            of_class["rayshot_actors"] += 1
            of_class["rayshot_messages_total"] += max(0, one.handled - before.handled)
            of_class["rayshot_dead_letters_total"] += max(0, one.dead_letters - before.dead_letters)
            of_class["rayshot_busy_seconds_total"] += past_s * one.busy
            of_class["rayshot_backpressured_seconds_total"] += past_s * one.full
            for metric, waiting in (("rayshot_mailbox_messages", one.mailbox), ("rayshot_outbox_messages", one.outbox)):
                of_class[metric] = max(of_class[metric], waiting)
        for gone in self._known.keys() - answers.keys():
            del self._known[gone]
        for actor_class, found in sums.items():
            for metric, value in found.items():
                yield metric, value, {"actor_class": actor_class}

    def class_of(self, name: str) -> str:
        """The class of an actor that has answered, "" for others."""
        return self._known[name][1].actor_class if name in self._known else ""


class Metrics:
    """The metrics of one system. All methods except `start` may be called from any thread, and cost microseconds."""

    def __init__(
        self,
        system: str,
        life: int,
        look: Callable[[], SystemFigures],
        ask: Callable[[], Mapping[str, tuple[Any, ...] | None]],
    ) -> None:
        self._labels = {"system": system}
        self._life = life
        self._look = look
        self._ask = ask
        self._began_at = time.time()
        self._last: list[Sample] = []
        """The samples of the last snapshot that stay until the next one."""
        self._actors: list[Sample] = []
        self._sums, self._ask_at = ActorSums(), 0.0
        self._made: dict[str, Any] = {}
        self._changed: deque[tuple[str, int]] = deque()
        """Actors whose answers have changed, how many more, and not reported yet."""
        self.aborted_count = self._failures_told = 0
        self._over = threading.Event()

    def start(self) -> None:
        """Start the thread that reports the metrics, if Ray takes metrics."""
        threading.Thread(target=self._run, name="rayshot-metrics", daemon=True).start()

    def stop(self) -> None:
        """The life is over: the next one reports."""
        self._over.set()

    def committed(self, trigger: str, stats: Mapping[str, float]) -> None:
        """A snapshot is durable; `stats` are the stats of its manifest, and its `bytes`."""
        self._tell(("rayshot_snapshots_total", 1, {"outcome": "committed", "reason": "", "trigger": trigger}))
        for phase, figure in (("record", "recorded_s"), ("hold", "hold_max_s"), ("store", "stored_s")):
            if figure in stats:
                self._tell(("rayshot_snapshot_phase_seconds", stats[figure], {"phase": phase}))
        self._last = [
            ("rayshot_snapshot_bytes", stats["bytes"], {}),
            ("rayshot_snapshot_written_bytes", stats["written_bytes"], {}),
            ("rayshot_snapshot_in_flight_messages", stats["in_flight"], {}),
        ]

    def aborted(self, trigger: str, reason: AbortReason) -> None:
        """A snapshot was aborted."""
        self.aborted_count += 1
        labels = {"outcome": "aborted", "reason": reason.value, "trigger": trigger}
        self._tell(("rayshot_snapshots_total", 1, labels))

    def restored(self) -> None:
        """All actors are loaded."""
        self._tell(("rayshot_recoveries_total", 1, {"cause": "restore"}))
        self._tell(("rayshot_recovery_phase_seconds", time.time() - self._began_at, {"phase": "load"}))

    def went_back(self, phases: Mapping[str, float]) -> None:
        """The system went back to a snapshot by itself; the seconds of each phase, see `RecoveryReport`."""
        self._tell(("rayshot_recoveries_total", 1, {"cause": "rollback"}))
        self._tell(*(("rayshot_recovery_phase_seconds", s, {"phase": phase}) for phase, s in phases.items()))

    def answers_changed(self, counts: Mapping[str, int]) -> None:
        """So many more answers have changed on which programs had acted, by actor."""
        assert all(count > 0 for count in counts.values()), f"a counter does not go back: {counts}"
        self._changed.extend(counts.items())

    def _run(self) -> None:
        if not takes_metrics_here():
            log.info("no metrics: this cluster's Ray drops them; pip install 'rayshot[metrics]' on its nodes")
            return
        while not self._over.is_set():
            with survived("the metrics of system %r could not be told once", self._labels["system"]):
                self._tell(*self.samples(time.monotonic()))
            self._over.wait(PAUSE_S)

    def samples(self, now: float) -> list[Sample]:
        """The samples to report at `now`, in monotonic seconds. Asks the actors if it is time to."""
        if now >= self._ask_at:
            answers = self._ask()
            actors = self._actors = list(self._sums.add(now, answers))
            self._ask_at = now + max(PAUSE_S, len(answers) / ASKED_A_SECOND)
        else:
            actors = [one for one in self._actors if _KINDS[one[0]] == "Gauge"]
        return [*actors, *self._of_answers(), *self._of_system(), *self._last]

    def _of_answers(self) -> Iterator[Sample]:
        while self._changed:
            actor, count = self._changed.popleft()
            yield "rayshot_changed_answers_total", count, {"actor_class": self._sums.class_of(actor)}

    def _of_system(self) -> Iterator[Sample]:
        figures = self._look()
        yield "rayshot_life", self._life, {}
        yield "rayshot_snapshots_in_progress", figures.in_progress, {}
        yield "rayshot_outside_behind_seconds", figures.behind_s, {}
        yield "rayshot_outside_failures_total", figures.outside_failures - self._failures_told, {}
        self._failures_told = figures.outside_failures
        yield "rayshot_last_snapshot_timestamp_seconds", figures.last_taken_at or self._began_at, {}
        for state in STATES:
            yield "rayshot_system_state", state == figures.state, {"state": state}

    def _tell(self, *samples: Sample) -> None:
        for name, value, labels in samples:
            metric = self._made.get(name) or self._made.setdefault(name, _make(name))
            tell = {"Counter": "inc", "Gauge": "set", "Histogram": "observe"}[_KINDS[name]]
            if value or tell != "inc":  # Ray refuses to count nothing
                getattr(metric, tell)(value, {**self._labels, **labels})


_KINDS = {metric.name: metric.kind for metric in METRICS}


def _make(name: str) -> Any:
    (metric,) = (one for one in METRICS if one.name == name)
    more = {"boundaries": PHASE_BOUNDS_S} if metric.kind == "Histogram" else {}
    return make_metric(metric.kind, name, metric.about, ("system", *metric.labels), **more)
