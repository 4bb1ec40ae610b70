"""Pipelines of their own that are killed behind one commit: of the second batch to a table.

Arguments: the storage, the lake, its format, and the table, or "none" to end before the second batch counts at all.
Without a table it is the lake's writer alone, without Spark, in a process for each table, one after the other: between
them come more snapshots. With Spark, executors write all snapshots for those of BY_EXECUTORS.
"""

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_rayshot import local_session, pipeline
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.staging import Staging
from pyspark_rayshot.lake.writing import _destination, open_lake
from rayshot.places.kinds import open_store
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from tests.spark.lake_oracle import grow
from tests.spark.lake_workers import make_all_large

SNAPSHOTS_MAX = 2
BY_EXECUTORS = {"messages", "none"}


def die(also: int | None) -> None:
    if also is not None:
        os.kill(also, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def die_with_all_written(also: int) -> None:
    close = Staging.close
    closed = []

    def dying(self: Any, last: int) -> Path:
        closed.append(last)
        if len(closed) == 2:
            die(also)
        return close(self, last)

    Staging.close = dying  # type: ignore[method-assign]


def die_behind(form: str, table: str, also: int | None) -> None:
    kind = _destination(form)
    commit = kind.commit
    commits = []

    def dying(self: Any, name: str, *rest: Any) -> None:
        commit(self, name, *rest)
        commits.append(name)
        if name == table and commits.count(name) == 2:
            die(also)

    kind.commit = dying  # type: ignore[method-assign]


def with_spark(storage: str, lake: str, form: str, table: str) -> None:
    spark = local_session("pipeline that is killed")
    jvm = spark.sparkContext._gateway.proc.pid
    if table == "none":
        die_with_all_written(jvm)
    else:
        die_behind(form, table, jvm)
    if table in BY_EXECUTORS:
        make_all_large(pytest.MonkeyPatch())
    pipeline(spark, storage, lake, format=form, once=True, snapshots_max=SNAPSHOTS_MAX)


def alone(storage: str, lake: str, form: str) -> None:
    store = open_store(storage)
    repository = Repository(store, "bank", create=False)
    repository.log.begin_epoch(repository.next_incarnation(), "w2")
    counters = itertools.count(100)
    for table in TABLES:
        child = os.fork()
        if not child:
            die_behind(form, table, None)
            system = SystemView(store, "bank")
            with open_lake(system, Path(lake), form) as writer:
                for upto in range(system.log_end()):
                    writer.write(upto)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, (table, status)
        for _ in range(3):
            grow(repository, next(counters))


if __name__ == "__main__":
    (with_spark if len(sys.argv) > 4 else alone)(*sys.argv[1:])
