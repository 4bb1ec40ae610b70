"""Pathway: a Python subject, `groupby().reduce()`, persistence of the input. Operator snapshots need a licence.

So a restart would replay all input; that is not measured.
"""

from typing import Any

import pathway as pw

from benchmarks.peers.measuring import Steady, job_of_command_line, tell
from benchmarks.peers.records import BATCH, PERIOD, check, keys_and_values

COMMIT_MS = 100
AHEAD_MAX = 16 * BATCH


class Record(pw.Schema):  # type: ignore[misc]
    """One record."""

    k: int
    v: int


class Numbers(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    """The source."""

    def __init__(self, keys: int, total: int) -> None:
        super().__init__()
        self._columns = keys_and_values(keys)
        self._total = total

    def run(self) -> None:
        """Hand on all records; `next` waits where the engine is behind."""
        keys, values = self._columns
        for number in range(self._total):
            offset = number % PERIOD
            self.next(k=keys[offset], v=values[offset])


def main() -> None:
    """Run the job to its end."""
    job = job_of_command_line()
    found: dict[int, tuple[int, int]] = {}
    processed = 0
    steady = Steady(job, lambda: len(list((job.folder / "persisted").glob("streams/*/*/*"))))
    numbers = pw.io.python.read(
        Numbers(job.keys, job.records),
        schema=Record,
        autocommit_duration_ms=COMMIT_MS,
        max_backlog_size=AHEAD_MAX,
        name="numbers",
    )
    counted = numbers.groupby(pw.this.k).reduce(pw.this.k, c=pw.reducers.count(), s=pw.reducers.sum(pw.this.v))

    def changed(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:  # noqa: ARG001, FBT001
        nonlocal processed
        processed += row["c"] if is_addition else -row["c"]
        if is_addition:
            found[row["k"]] = row["c"], row["s"]

    def ended(time: int) -> None:  # noqa: ARG001
        steady.see(processed)

    pw.io.subscribe(counted, on_change=changed, on_time_end=ended)
    backend = pw.persistence.Backend.filesystem(str(job.folder / "persisted"))
    persistence = pw.persistence.Config(backend, snapshot_interval_ms=round(1000 * job.interval_s))
    pw.run(
        monitoring_level=pw.MonitoringLevel.NONE,
        persistence_config=persistence if job.interval_s else None,
    )
    steady.finish(job.records)
    check(found, job.records, job.keys)
    tell("exact")


if __name__ == "__main__":
    main()
