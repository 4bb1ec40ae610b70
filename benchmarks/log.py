"""What the length of the commit log costs: opening it, and the next commit."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Figure, Report, Series, Target
from rayshot.log.layout import manifest_name, segment_folder
from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord, DeleteRecord, Record
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId

COMMITS, COMMITS_SHORT = (100, 1_000, 10_000), (100, 200)
KEPT = 10
"""Snapshots that are not deleted: for each further commit there is a DELETE."""
SYSTEM, WRITER = "bank", "coordinator-1"
OPENS, FLAT = Target("<=", 0.2), Target("<=", 1.3)
"""Seconds to open a log of 10,000 commits; how many times as long the next commit takes as at 100."""


def run(*, short: bool) -> Report:
    """Make logs of several lengths, and open each and commit to it, in turn."""
    rounds = 3 if short else 15
    commits = COMMITS_SHORT if short else COMMITS
    opened: dict[int, list[float]] = {count: [] for count in commits}
    without: dict[int, list[float]] = {count: [] for count in commits}
    appended: dict[int, list[float]] = {count: [] for count in commits}
    folder = Path(tempfile.mkdtemp(prefix="rayshot-log-"))
    try:
        stores = {count: _fill(folder / str(count), count) for count in commits}
        bare = {count: _without_segments(folder / str(count), folder / f"{count}-bare") for count in commits}
        for _ in range(rounds):
            for count in commits:
                opened[count].append(_seconds_to_open(stores[count]))
                without[count].append(_seconds_to_open(bare[count]))
                appended[count] += _seconds_to_commit(stores[count])
    finally:
        shutil.rmtree(folder)
    return _report(opened, without, appended, {"rounds": rounds, "kept": KEPT})


def _fill(folder: Path, count: int) -> Store:
    store = open_store(str(folder))
    log = CommitLog(store, SYSTEM)
    log.begin_epoch(1, WRITER)
    for record in _records(count):
        log.append(record)
    log.write_segments()
    return store


def _records(count: int) -> Iterator[Record]:
    position = 1
    for counter in range(1, count + 1):
        yield _commit(position, counter)
        position += 1
        if counter > KEPT:
            yield DeleteRecord(position, WRITER, SnapshotId(1, "coordinator", counter - KEPT))
            position += 1


def _commit(position: int, counter: int) -> CommitRecord:
    snapshot = SnapshotId(1, "coordinator", counter)
    return CommitRecord(position, WRITER, 1, snapshot, manifest_name(snapshot), "ab" * 32, 1.5)


def _without_segments(folder: Path, copy: Path) -> Store:
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / segment_folder(SYSTEM), ignore_errors=True)
    return open_store(str(copy))


def _seconds_to_open(store: Store) -> float:
    began = time.perf_counter()
    CommitLog(store, SYSTEM).refresh()
    return time.perf_counter() - began


def _seconds_to_commit(store: Store) -> list[float]:
    log = CommitLog(store, SYSTEM)
    log.refresh()
    taken = []
    for _ in range(5):
        record = _commit(log.next_position, 1_000_000 + log.next_position)
        began = time.perf_counter()
        log.append(record)
        taken.append(time.perf_counter() - began)
    return taken


def _report(
    opened: dict[int, list[float]],
    without: dict[int, list[float]],
    appended: dict[int, list[float]],
    settings: dict[str, int],
) -> Report:
    short, long = min(opened), max(opened)
    figures = [
        Figure.median_of(f"open {count:,} commits", opened[count], "s", OPENS if count == long else None)
        for count in opened
    ]
    figures.append(Figure.median_of(f"open {long:,} commits without segments", without[long], "s", None))
    ratios = [one / other for one, other in zip(appended[long], appended[short], strict=True)]
    figures.append(Figure.median_of(f"the next commit at {long:,} as at {short:,}", ratios, "x", FLAT))
    series = (
        *(Series(f"open {count:,}", "s", tuple(samples)) for count, samples in opened.items()),
        *(Series(f"open {count:,} without segments", "s", tuple(samples)) for count, samples in without.items()),
        *(Series(f"commit at {count:,}", "s", tuple(samples)) for count, samples in appended.items()),
    )
    return Report("log", "What does a long commit log cost?", settings, series, tuple(figures))
