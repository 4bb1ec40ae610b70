"""The two actors of the job on rayshot: a source, whose offset is its state, and a counter."""

import time
from typing import Any

import rayshot
from benchmarks.peers.records import PERIOD, keys_and_values


class Source:
    """Sends the records, `batch` in each message, and never more than two runs of messages ahead of the counter."""

    def __init__(self, counter: rayshot.ActorHandle, keys: int, batch: int, run: int, total: int) -> None:
        self.counter = counter
        self.keys, self.batch, self.run, self.total = keys, batch, run, total
        self.offset = 0
        self._make_table()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the table of records: it is made again from the number of keys."""
        return {name: value for name, value in self.__dict__.items() if name != "table"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.__dict__.update(state)
        self._make_table()

    def begin(self) -> None:
        """Send the first two runs."""
        self.send_run(None)
        self.send_run(None)

    def send_run(self, _processed: None) -> None:
        """Send a run; the answer to its last message asks for another one."""
        last = min(self.offset + self.run * self.batch, self.total) - self.batch
        if last < self.offset:
            return
        take = self.counter.take if self.batch > 1 else self.counter.take_one
        for offset in range(self.offset, last, self.batch):
            take.tell(*self.table[offset % PERIOD // self.batch])
        take.remote(*self.table[last % PERIOD // self.batch]).then(self.send_run)
        self.offset = last + self.batch

    def _make_table(self) -> None:
        keys, values = keys_and_values(self.keys)
        starts = range(0, PERIOD, self.batch)
        self.table: list[tuple[Any, Any]] = (
            list(zip(keys, values, strict=True))
            if self.batch == 1
            else [(keys[start : start + self.batch], values[start : start + self.batch]) for start in starts]
        )


class Counter:
    """Keeps count and sum of each key."""

    def __init__(self) -> None:
        self.records = 0
        self.counts: dict[int, int] = {}
        self.sums: dict[int, int] = {}

    def take(self, keys: list[int], values: list[int]) -> None:
        """Count a batch, record by record."""
        counts, sums = self.counts, self.sums
        for key, value in zip(keys, values, strict=True):
            if key in counts:
                counts[key] += 1
                sums[key] += value
            else:
                counts[key] = 1
                sums[key] = value
        self.records += len(keys)

    def take_one(self, key: int, value: int) -> None:
        """Count one record."""
        self.counts[key] = self.counts.get(key, 0) + 1
        self.sums[key] = self.sums.get(key, 0) + value
        self.records += 1

    def progress(self) -> tuple[float, int]:
        """Now, and the records counted until now."""
        return time.time(), self.records

    def result(self) -> dict[int, tuple[int, int]]:
        """Count and sum of each key."""
        return {key: (count, self.sums[key]) for key, count in self.counts.items()}
