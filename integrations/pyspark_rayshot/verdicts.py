"""The verdicts of a stable property on all snapshots at once, by Spark's tasks."""

from typing import TYPE_CHECKING, Any

from pyspark_rayshot.options import parse_options
from rayshot.analysis.query import option_texts
from rayshot.properties import Property
from rayshot.properties.property import require_stable
from rayshot.protocol.identity import SnapshotId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

TASKS_MAX = 256


def verdicts(spark: Any, path: str, asked: Property, **options: Any) -> Any:
    """A DataFrame with the verdict of a property on each snapshot that exists now, one row for each.

    Its columns are those that every view has, and property, kind, holds, why, meaning, evidence, told: see
    `rayshot help properties`. One task judges each snapshot.

    Args:
        spark: a session, also one of Spark Connect.
        path: the storage.
        asked: declared with `rayshot.properties.stable` or `invariant`, or ready-made. It travels to the tasks, so
            the tasks must be able to import what it imports.
        options: those of the view `snapshots`, also with names of Python: `show_secrets=True`.

    Raises NotStable and ConfigError. If the storage cannot be read, and for errors in a task, raises an error of Spark
    with the text of ours.
    """
    require_stable(asked)
    given = {"path": str(path), **option_texts(options), "view": "snapshots"}
    read = parse_options(given)
    read.refuse_for_batch()
    keys = read.encryption_keys()
    rows = spark.read.format("rayshot").options(**given).load().select("snapshot").collect()
    ids = [SnapshotId.parse(row.snapshot) for row in rows]

    def judge(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from rayshot.analysis.verdicts import verdict_batches  # noqa: PLC0415 - needs pyarrow, which may be missing

        system = read.open_system()
        for batch in batches:
            some = [ids[index] for index in batch.column(0).to_pylist()]
            yield from verdict_batches(system, asked, some, read.query.show_secrets, keys)

    from rayshot.analysis.verdicts import COLUMNS  # noqa: PLC0415 - see above

    tasks = max(1, min(len(ids), TASKS_MAX))
    return spark.range(len(ids), numPartitions=tasks).mapInArrow(judge, ", ".join(column.ddl for column in COLUMNS))
