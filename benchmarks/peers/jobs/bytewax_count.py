"""bytewax: one worker, one partition of the source, a logic with count and sum for each key, recovery in SQLite."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main

from benchmarks.peers.measuring import Job, Steady, job_of_command_line, tell
from benchmarks.peers.records import BATCH, PERIOD, check, keys_and_values

NO_CHECKPOINT = timedelta(days=1)


class Numbers(StatefulSourcePartition[Any, int]):  # type: ignore[misc]
    """The source: batches from an offset on. Keys are texts, as bytewax wants them, made before."""

    def __init__(self, job: Job, steady: Steady, epochs: list[int], offset: int | None) -> None:
        column, values = keys_and_values(job.keys)
        records = list(zip(map(str, column), values, strict=True))
        self._batches = [records[start : start + BATCH] for start in range(0, PERIOD, BATCH)]
        self._offset = offset or 0
        self._total = job.records
        self._epochs = epochs
        self._steady = steady
        if offset is not None:
            steady.resumed(offset)

    def next_batch(self) -> Iterable[Any]:
        """Hand on a batch. All of the one before has been processed: one thread does it all."""
        self._steady.see(self._offset)
        if self._offset >= self._total:
            raise StopIteration
        batch = self._batches[self._offset // BATCH % len(self._batches)]
        self._offset += BATCH
        return batch

    def snapshot(self) -> int:
        """Say the offset, at the end of an epoch: all that bytewax keeps is written then."""
        self._epochs.append(self._offset)
        return self._offset


class Source(FixedPartitionedSource[Any, int]):  # type: ignore[misc]
    """One partition."""

    def __init__(self, job: Job, steady: Steady, epochs: list[int]) -> None:
        self._arguments = job, steady, epochs

    def list_parts(self) -> list[str]:
        """Name it."""
        return ["numbers"]

    def build_part(self, _step_id: str, _for_part: str, resume_state: int | None) -> Numbers:
        """Make it, or make it again at its offset."""
        return Numbers(*self._arguments, resume_state)


class Count(StatefulBatchLogic[int, tuple[int, int], tuple[int, int]]):  # type: ignore[misc]
    """One key: its count and its sum, told at the end."""

    def __init__(self, state: tuple[int, int] | None) -> None:
        self.count, self.sum = state or (0, 0)

    def on_batch(self, values: list[int]) -> tuple[Iterable[Any], bool]:
        """Count the values that a batch has for this key."""
        self.count += len(values)
        self.sum += sum(values)
        return (), False

    def on_eof(self) -> tuple[Iterable[Any], bool]:
        """Tell the result."""
        return ((self.count, self.sum),), False

    def notify_at(self) -> datetime | None:
        """Ask for no call by the clock."""
        return None

    def snapshot(self) -> tuple[int, int]:
        """Say the state; what was said stays as it is."""
        return self.count, self.sum


class Results(StatelessSinkPartition[Any]):  # type: ignore[misc]
    """Collects what the keys tell at the end."""

    def __init__(self, found: dict[int, tuple[int, int]]) -> None:
        self._found = found

    def write_batch(self, items: list[Any]) -> None:
        """Take results."""
        self._found.update((int(key), result) for key, result in items)


class Sink(DynamicSink[Any]):  # type: ignore[misc]
    """One for the one worker."""

    def __init__(self, found: dict[int, tuple[int, int]]) -> None:
        self._found = found

    def build(self, _step_id: str, _worker_index: int, _worker_count: int) -> Results:
        """Make it."""
        return Results(self._found)


def main() -> None:
    """Run the job to its end."""
    job = job_of_command_line()
    epochs: list[int] = []
    steady = Steady(job, lambda: len(epochs) if job.interval_s else 0)
    found: dict[int, tuple[int, int]] = {}
    flow = Dataflow("count")
    numbers = op.input("numbers", flow, Source(job, steady, epochs))
    op.output("results", op.stateful_batch("count", numbers, Count), Sink(found))
    if job.interval_s:
        database = job.folder / "recovery"
        if not job.restart:
            database.mkdir()
            init_db_dir(database, 1)
        interval = timedelta(seconds=job.interval_s)
        run_main(flow, epoch_interval=interval, recovery_config=RecoveryConfig(str(database)))
    else:
        run_main(flow, epoch_interval=NO_CHECKPOINT)
    steady.finish(job.records)
    check(found, job.records, job.keys)
    tell("exact")


if __name__ == "__main__":
    main()
