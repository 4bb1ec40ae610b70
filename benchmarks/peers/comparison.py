"""The benchmark `peers`: all engines in turn, with and without checkpoints, then killed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from benchmarks.peers.environment import python_of, versions, why_not
from benchmarks.peers.records import BATCH, PERIOD
from benchmarks.peers.running import Measured, Task, measure, recover
from benchmarks.report import Figure, Report, Series, Target

FEW, MANY = "1,000 keys", "100,000 keys"
FEW_TARGET = Target(">=", 1.0)
MANY_TARGET = Target(">=", 10.0)
QUESTION = "A keyed count with checkpoints: what does one core do in a second?"
KILLED_AFTER_S = 2.5
"""So long after its first checkpoint."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine, and sizes of its runs that take some seconds here; None: not measured.

    `few` counts records for 1,000 keys and a checkpoint a second, `many` for 100,000 keys and one each 0.1 s, `killed`
    for the run that is killed. `rounds` is how often `few` is measured, with and without checkpoints, in turn.
    """

    name: str
    environment: str
    module: str
    few: int
    many: int | None
    killed: int | None
    rounds: int = 1
    without: bool = True


ENGINES = (
    Engine("rayshot", "rayshot", "rayshot_count", 4000 * BATCH, 1200 * BATCH, 5000 * BATCH, rounds=2),
    Engine("bytewax", "bytewax", "bytewax_count", 2000 * BATCH, 50 * BATCH, 3000 * BATCH, rounds=2),
    Engine("rayshot, a record a message", "rayshot", "rayshot_count_single", 500 * BATCH, None, None),
    Engine("PyFlink", "flink", "flink_count", 50 * BATCH, None, None, without=False),
    Engine("PyFlink SQL", "flink", "flink_sql_count", 1200 * BATCH, None, 1200 * BATCH),
    Engine("Spark SQL", "spark", "spark_count", 8 * PERIOD, None, 8 * PERIOD, without=False),
    Engine("Pathway", "pathway", "pathway_count", 200 * BATCH, None, None, without=False),
)
"""Spark always commits; what checkpoints cost PyFlink and Pathway was below the noise. Pathway's operator snapshots
need a licence, so a restart would replay its input."""
SHORT = ("rayshot", "bytewax")
"""The others take longer to start than a short run may take."""


class _Found:
    """The samples, and what could not be measured."""

    def __init__(self) -> None:
        self.series: dict[str, tuple[str, list[float]]] = {}
        self.not_run: dict[str, str] = {}
        self.versions: dict[str, str] = {}

    def add(self, name: str, unit: str, value: float) -> None:
        self.series.setdefault(name, (unit, []))[1].append(value)

    def add_run(self, name: str, run: Measured) -> None:
        self.add(f"{name}: records", "1/s", run.per_second)
        self.add(f"{name}: records per core", "1/s", run.per_core)
        self.add(f"{name}: cores", "cores", run.processor_s / run.seconds)
        if run.checkpoints:
            self.add(f"{name}: between checkpoints", "s", run.seconds / run.checkpoints)

    def median(self, name: str) -> float | None:
        return median(self.series[name][1]) if name in self.series else None


def run(*, short: bool) -> Report:
    """Measure those engines whose environments are there; the report says who was not, and why."""
    found = _Found()
    engines = [engine for engine in ENGINES if _is_there(engine, found, short=short)]
    for engine in engines:
        if engine.environment != "rayshot":
            found.versions[engine.environment] = versions(engine.environment)
    _measure_few(engines, found, short=short)
    if not short:
        _measure_many(engines, found)
        for engine in engines:
            if engine.killed is not None:
                task = Task(engine.environment, engine.module, engine.killed, 1000, 1.0, warm_share=0.1)
                found.add(f"{engine.name}: recovery", "s", recover(task, KILLED_AFTER_S).seconds)
    return Report(
        "peers",
        QUESTION,
        {
            "batch": BATCH,
            "engines": [engine.name for engine in engines],
            "versions": found.versions,
            "not_run": found.not_run,
            "records": {engine.name: {FEW: engine.few, MANY: engine.many} for engine in engines},
        },
        tuple(Series(name, unit, tuple(samples)) for name, (unit, samples) in found.series.items()),
        tuple(_figures(engines, found)),
    )


def _is_there(engine: Engine, found: _Found, *, short: bool) -> bool:
    if short and engine.name not in SHORT:
        found.not_run[engine.name] = "it starts too slowly for a short run"
        return False
    if python_of(engine.environment) is None:
        found.not_run[engine.name] = why_not(engine.environment)
        return False
    return True


def _measure_few(engines: Sequence[Engine], found: _Found, *, short: bool) -> None:
    for number in range(1 if short else max(engine.rounds for engine in engines)):
        for engine in engines:
            if number >= engine.rounds:
                continue
            records, interval_s = (engine.few // 30 // BATCH * BATCH, 0.1) if short else (engine.few, 1.0)
            task = Task(engine.environment, engine.module, records, 1000, interval_s)
            found.add_run(f"{engine.name}, {FEW}", with_ := measure(task))
            if engine.without and not short:
                without = measure(replace(task, interval_s=0.0))
                found.add_run(f"{engine.name}, {FEW}, no checkpoint", without)
                found.add(f"{engine.name}: checkpoints cost", "%", 100 * (1 - with_.per_core / without.per_core))


def _measure_many(engines: Sequence[Engine], found: _Found) -> None:
    for engine in engines:
        if engine.many is not None:
            task = Task(engine.environment, engine.module, engine.many, 100_000, 0.1)
            found.add_run(f"{engine.name}, {MANY}", measure(task))


def _figures(engines: Sequence[Engine], found: _Found) -> Any:
    best = [found.median(f"{name}, {FEW}: records per core") for name in ("bytewax", "PyFlink", "PyFlink SQL")]
    if peers := [value for value in best if value is not None]:
        ours = found.median(f"rayshot, {FEW}: records per core")
        assert ours is not None
        yield Figure(f"rayshot / best of bytewax and PyFlink, {FEW}", ours / max(peers), "x", target=FEW_TARGET)
    ours, theirs = (found.median(f"{name}, {MANY}: records per core") for name in ("rayshot", "bytewax"))
    if ours is not None and theirs is not None:
        yield Figure(f"rayshot / bytewax, {MANY}", ours / theirs, "x", target=MANY_TARGET)
    for engine in engines:
        for what in (
            f"{engine.name}, {FEW}: records per core",
            f"{engine.name}, {FEW}: records",
            f"{engine.name}, {FEW}: between checkpoints",
            f"{engine.name}: checkpoints cost",
            f"{engine.name}, {MANY}: records per core",
            f"{engine.name}, {MANY}: records",
            f"{engine.name}, {MANY}: between checkpoints",
            f"{engine.name}: recovery",
        ):
            value = found.median(what)
            if value is not None:
                yield Figure(what, value, found.series[what][0])
