"""Pipelines of their own that are killed behind one commit: of the second batch to a table.

Arguments: the storage, the lake, its format, and the table. Without a table it is the lake's writer alone, without
Spark, in a process for each table, one after the other: between them come more snapshots.
"""

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark_rayshot import local_session, pipeline
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.writing import _destination, open_lake
from rayshot.store.catalog import SystemView
from rayshot.store.locate import open_store
from rayshot.store.repository import Repository
from tests.spark.lake_oracle import grow

SNAPSHOTS_MAX = 2


def die_behind(form: str, table: str, also: int | None) -> None:
    kind = _destination(form)
    commit = kind.commit
    commits = []

    def dying(self: Any, name: str, *rest: Any) -> None:
        commit(self, name, *rest)
        commits.append(name)
        if name == table and commits.count(name) == 2:
            if also is not None:
                os.kill(also, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    kind.commit = dying  # type: ignore[method-assign]


def with_spark(storage: str, lake: str, form: str, table: str) -> None:
    spark = local_session("pipeline that is killed")
    die_behind(form, table, spark.sparkContext._gateway.proc.pid)
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
