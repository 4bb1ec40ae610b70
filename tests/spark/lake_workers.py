"""Processes that write a lake's large snapshots, as Spark's executors do, and what makes each snapshot a large one."""

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyspark_rayshot.lake import writing


class Forks:
    """Two processes for each job; what they worked on is noted."""

    count = 2

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def run(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.parts += [item.part for item in items]
        with multiprocessing.get_context("fork").Pool(len(items)) as pool:
            return pool.map(task, items, chunksize=1)


def make_all_large(patch: pytest.MonkeyPatch) -> None:
    """Have whatever is written given to workers where there are some."""
    patch.setattr(writing, "LARGE_SHARES", 1)
    patch.setattr(writing, "SHARE_BYTES", 1)
