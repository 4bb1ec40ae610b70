"""Snapshots as tables: rows a second through Spark, beside parquet of the same rows, and what a filter reads."""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, NotRun, Report, Series, Target
from benchmarks.samples import Measure, in_turn, paired_ratios
from benchmarks.written import SYSTEM, Shots, by_value_message, flat_message, mixed_message
from rayshot.errors import ConfigError
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import SystemView

LATENCY_S = 0.01


@dataclass(frozen=True)
class Size:
    """How much is written and how often it is read."""

    flat: int
    mixed: int
    by_value: int
    elements: int
    channels: int
    messages_a_channel: int
    snapshots: int
    rounds: int


FULL = Size(1_000_000, 300_000, 10_000, 1_000_000, 1_000, 2_500, 1_000, 3)
SHORT = Size(10_000, 2_000, 200, 1_000, 20, 2_500, 20, 1)

PARQUET, FLAT, VARIANT = "parquet of the same rows", "flat", "flat, arguments as VARIANT"
MIXED, BY_VALUE = "one in ten with a list or a dict", "objects with their class"
ENTRIES = "entries of a dict of scalars"
ONE_CHANNEL, SNAPSHOTS, FAR = "one channel of many", "all snapshots", "all snapshots, 10 ms a call"


def run(*, short: bool) -> Report:
    """Write the storages, and read each in turn."""
    size = SHORT if short else FULL
    folder = Path(tempfile.mkdtemp(prefix="rayshot-tables-"))
    try:
        return _measured(size, folder)
    finally:
        shutil.rmtree(folder)


def _measured(size: Size, folder: Path) -> Report:
    _write(size, folder)
    spark = _session()
    try:
        rows = {
            PARQUET: size.flat,
            FLAT: size.flat,
            VARIANT: size.flat,
            MIXED: size.mixed,
            BY_VALUE: size.by_value,
            ENTRIES: size.elements,
        }
        _table(spark, folder / "flat").write.parquet(str(folder / "parquet"))
        read = spark.read.parquet(str(folder / "parquet"))
        ways: dict[str, Measure] = {
            PARQUET: lambda: _seconds(lambda: _drain(read)),
            FLAT: lambda: _seconds(lambda: _drain(_table(spark, folder / "flat"))),
            VARIANT: lambda: _seconds(lambda: _drain(_with_variant(_table(spark, folder / "flat")))),
            MIXED: lambda: _seconds(lambda: _drain(_table(spark, folder / "mixed"))),
            BY_VALUE: lambda: _seconds(lambda: _drain(_table(spark, folder / "by_value"))),
            ENTRIES: lambda: _seconds(lambda: _drain(_table(spark, folder / "dict", view="entries"))),
            ONE_CHANNEL: lambda: _seconds(lambda: _drain(_table(spark, folder / "many", receiver="a7"))),
            SNAPSHOTS: lambda: _seconds(lambda: _drain(_table(spark, folder / "long", view="snapshots"))),
            FAR: lambda: _seconds(lambda: _read_far(folder / "long")),
        }
        seconds = in_turn(size.rounds, ways)
    finally:
        spark.stop()
    return _report(size, seconds, rows, _share_of_chunks(folder / "many"))


def _write(size: Size, folder: Path) -> None:
    for name, message, count in (
        ("flat", flat_message, size.flat),
        ("mixed", mixed_message, size.mixed),
        ("by_value", by_value_message, size.by_value),
    ):
        Shots(folder / name).add({("alice", "bob"): [message(number) for number in range(count)]})
    Shots(folder / "dict").add({}, {"alice": {"big": {f"k{number:06}": number for number in range(size.elements)}}})
    numbers = range(size.messages_a_channel)
    Shots(folder / "many").add(
        {
            ("alice", f"a{channel}"): [flat_message(number, f"account-{channel}-{number}") for number in numbers]
            for channel in range(size.channels)
        }
    )
    shots = Shots(folder / "long")
    for _ in range(size.snapshots):
        shots.begin_epoch()
        shots.add({("alice", "bob"): [flat_message(1)]})


def _session() -> Any:
    try:
        from pyspark_rayshot import local_session  # noqa: PLC0415 - Spark may be missing

        return local_session("tables")
    except (ImportError, ConfigError) as error:
        raise NotRun(str(error)) from error


def _table(spark: Any, folder: Path, view: str = "messages", **options: str) -> Any:
    return spark.read.format("rayshot").options(view=view, **options).load(str(folder))


def _with_variant(table: Any) -> Any:
    return table.selectExpr("* except (args)", "parse_json(args) as args")


def _drain(table: Any) -> None:
    """Have Spark compute all rows, and throw them away."""
    table.write.format("noop").mode("overwrite").save()


def _seconds(action: Callable[[], object]) -> float:
    began_at = time.perf_counter()
    action()
    return time.perf_counter() - began_at


class FarStore(LocalStore):
    """A folder that answers as slowly as a server, and counts the chunks that are read."""

    latency_s = 0.0
    chunks_read = 0

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """As that of a folder."""
        time.sleep(self.latency_s)
        self.chunks_read += "/chunks/" in key
        return super().read_range(key, start, length)


def _read_far(folder: Path) -> None:
    store = FarStore(folder)
    store.latency_s = LATENCY_S
    SystemView(store, SYSTEM).table("snapshots").to_arrow()


def _share_of_chunks(folder: Path) -> float:
    """Of all chunks, those that are read for one channel of many."""
    store = FarStore(folder)
    system = SystemView(store, SYSTEM)
    system.table("messages", receiver="a7").to_arrow()
    return store.chunks_read / len(system.latest().manifest.chunks)


def _report(size: Size, seconds: dict[str, list[float]], rows: dict[str, int], share: float) -> Report:
    rates = {way: [count / one for one in seconds[way]] for way, count in rows.items()}
    targets = {FLAT: 300_000, VARIANT: 200_000, MIXED: 60_000, ENTRIES: 150_000}
    figures = [
        Figure.median_of(way, found, "rows/s", Target(">=", targets[way]) if way in targets else None)
        for way, found in rates.items()
    ]
    ratios = paired_ratios(rates[FLAT], rates[PARQUET])
    figures += [
        Figure.median_of("flat, as a part of parquet", ratios, "x", Target(">=", 0.2)),
        Figure("chunks read for one channel of many, as a part of all", share, "x", None, Target("<=", 1 / 500)),
        *(
            Figure.median_of(way, seconds[way], "s", Target("<=", bound))
            for way, bound in ((ONE_CHANNEL, 2), (SNAPSHOTS, 2), (FAR, 3))
        ),
    ]
    series = [Series(way, "s", tuple(found)) for way, found in seconds.items()]
    return Report(
        "tables",
        "How fast are snapshots read as tables?",
        {name: getattr(size, name) for name in Size.__dataclass_fields__},
        tuple(series),
        tuple(figures),
    )
