"""The common part of batches and streams: a task's share of the rows, and how the task reads it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyspark_rayshot.options import ReadOptions
from rayshot.analysis.planning import TableShare

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SnapshotPartition(InputPartition):  # type: ignore[misc]  # Spark has no types
    """One task's share of the rows: an address and ids, never an open store."""

    share: TableShare


class RowReader:
    """Reads on the executors what the driver planned. `nullable` has the columns, and says which may hold nulls.

    The driver looks up the keys of encrypted snapshots. They travel to the executors with the reader, never as an
    option, which Spark would show.
    """

    def __init__(self, options: ReadOptions, nullable: Mapping[str, bool]) -> None:
        self._keys = options.encryption_keys()
        self._options = options
        self._nullable = nullable

    def read(self, partition: SnapshotPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one partition."""
        from rayshot.analysis.batches import read_batches  # noqa: PLC0415 - needs pyarrow, which may be missing

        share = partition.share
        yield from read_batches(self._options.query, share.open_system(), share.pieces, self._keys, self._nullable)
