"""A lake that follows a system: snapshots a second through the pipeline, and how far it lags behind."""

import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, NotRun, Report, Series, Target
from benchmarks.written import SYSTEM, Shots, flat_message
from rayshot.errors import ConfigError
from rayshot.snapshots.catalog import SystemView

FORMATS = ("parquet", "delta", "iceberg")


@dataclass(frozen=True)
class Size:
    """How many snapshots come, how far apart, of how many messages; the seconds of a trigger.

    And how many messages a large snapshot has, and how often it is written in both ways.
    """

    snapshots: int
    every_s: float
    channels: int
    messages_a_channel: int
    interval_s: float
    messages_of_large: int
    pairs: int


FULL = Size(100, 1.0, 100, 100, 5.0, 1_000_000, 5)
SHORT = Size(4, 0.2, 5, 10, 0.5, 1_000, 2)
CHANNELS_OF_LARGE = 200


def run(*, short: bool) -> Report:
    """Commit snapshots at their pace, and see when each is in the lake."""
    size = SHORT if short else FULL
    spark = _session()
    folder = Path(tempfile.mkdtemp(prefix="rayshot-lake-"))
    try:
        lags = {form: _lags(spark, folder / form, form, size) for form in FORMATS}
        large = _large(spark, folder / "large", size)
    finally:
        spark.stop()
        shutil.rmtree(folder)
    return _report(size, lags, large)


def _session() -> Any:
    try:
        from pyspark_rayshot import local_session  # noqa: PLC0415 - Spark may be missing

        return local_session("lake")
    except (ImportError, ConfigError) as error:
        raise NotRun(str(error)) from error


def _lags(spark: Any, folder: Path, form: str, size: Size) -> list[float]:
    """For each snapshot the seconds from its commit until it was in the lake."""
    from pyspark_rayshot import pipeline  # noqa: PLC0415 - Spark may be missing

    shots = Shots(folder / "shots")
    shots.begin_epoch()
    numbers = range(size.messages_a_channel)
    flows = {("alice", f"a{one}"): [flat_message(number) for number in numbers] for one in range(size.channels)}
    shots.add(flows)  # a first batch, which waits until Spark has started its workers
    pipeline(spark, str(folder / "shots"), folder / "lake", format=form, once=True)
    committed_at: list[float] = []
    lags: list[float] = []
    stop = threading.Event()

    def commit() -> None:
        for number in range(size.snapshots):
            due_at = began_at + number * size.every_s
            time.sleep(max(0.0, due_at - time.perf_counter()))
            shots.add(flows)
            committed_at.append(time.perf_counter())

    def note(one: Any) -> None:
        now = time.perf_counter()
        lags.extend(now - at for at in committed_at[len(lags) : len(lags) + one.snapshots])
        if len(lags) == size.snapshots:
            stop.set()

    began_at = time.perf_counter()
    writer = threading.Thread(target=commit)
    writer.start()
    pipeline(
        spark, str(folder / "shots"), folder / "lake", format=form, interval_s=size.interval_s, progress=note, stop=stop
    )
    writer.join()
    assert len(SystemView(shots.store, SYSTEM).snapshots()) == len(lags) + 1 == size.snapshots + 1
    return [*lags, time.perf_counter() - began_at]


def _large(spark: Any, folder: Path, size: Size) -> dict[str, list[float]]:
    """Seconds in which a large snapshot is written, by the driver alone and by executors, in turns."""
    from pyspark_rayshot.lake.writing import open_lake  # noqa: PLC0415 - Spark may be missing
    from pyspark_rayshot.running import Executors  # noqa: PLC0415 - Spark may be missing

    shots = Shots(folder / "shots")
    shots.begin_epoch()
    messages = [flat_message(number) for number in range(size.messages_of_large // CHANNELS_OF_LARGE)]
    flows = {("alice", f"a{one}"): messages for one in range(CHANNELS_OF_LARGE)}
    seconds: dict[str, list[float]] = {"driver": [], "executors": []}
    executors = Executors(spark)
    with (
        open_lake(SystemView(shots.store, SYSTEM), folder / "driver", "parquet") as alone,
        open_lake(SystemView(shots.store, SYSTEM), folder / "executors", "parquet", workers=executors) as together,
    ):
        for pair in range(size.pairs + 1):
            shots.add(flows)
            for name, lake in (("driver", alone), ("executors", together)):
                began_at = time.perf_counter()
                lake.write(shots.repository.log.next_position)
                if pair:  # the first one starts Spark's workers
                    seconds[name].append(time.perf_counter() - began_at)
    return seconds


def _report(size: Size, measured: dict[str, list[float]], large: dict[str, list[float]]) -> Report:
    gains = [driver / executors for driver, executors in zip(*large.values(), strict=True)]
    name = f"{size.messages_of_large:,} messages: driver / executors"
    figures = [Figure.median_of(name, gains, "x", Target(">=", 1.3))]
    for form, (*lags, seconds) in measured.items():
        figures += [
            Figure(f"{form}: snapshots", size.snapshots / seconds, "1/s", None, Target(">=", 0.9 / size.every_s)),
            Figure(f"{form}: longest lag", max(lags), "s", None, Target("<=", 2 * size.interval_s)),
        ]
    return Report(
        "lake",
        "Does a lake keep up with a system?",
        {name: getattr(size, name) for name in Size.__dataclass_fields__},
        (
            *(Series(f"{form}: lag", "s", tuple(lags[:-1])) for form, lags in measured.items()),
            *(Series(f"large snapshot: {name}", "s", tuple(seconds)) for name, seconds in large.items()),
        ),
        tuple(figures),
    )
