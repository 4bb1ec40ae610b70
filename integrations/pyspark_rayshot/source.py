"""The one place that subclasses Spark's classes; everything else here knows nothing of Spark."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyspark_rayshot.options import ReadOptions, parse_options
from rayshot.analysis.planning import Share, plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class DefaultSource(DataSource):  # type: ignore[misc]  # Spark has no types
    """The format "rayshot": the committed snapshots of one system, read without executing anything of them."""

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` is given."""
        return "rayshot"

    def schema(self) -> str:
        """All columns of the view; not asked for where the user gives a schema."""
        return self._options().query.view.ddl

    def reader(self, schema: Any) -> "SnapshotReader":
        """Read the columns of `schema` and no others; raises ConfigError where the view does not have them so."""
        options = self._options()
        options.query.view.check_schema([(field.name, field.dataType.simpleString()) for field in schema.fields])
        return SnapshotReader(options, {field.name: field.nullable for field in schema.fields})

    def _options(self) -> ReadOptions:
        return parse_options(dict(self.options))


@dataclass(frozen=True)
class SnapshotPartition(InputPartition):  # type: ignore[misc]  # Spark has no types
    """One task's share of the rows: an address and ids, never an open store."""

    share: Share


class SnapshotReader(DataSourceReader):  # type: ignore[misc]  # Spark has no types
    """Plans on the driver and reads on the executors. `nullable` says which columns, and which may hold nulls.

    Keys of encrypted snapshots are looked up on the driver and travel to the executors with the reader, never as an
    option, which Spark would show.
    """

    def __init__(self, options: ReadOptions, nullable: dict[str, bool]) -> None:
        self._keys = options.encryption_keys()
        self._options = options
        self._nullable = nullable

    def partitions(self) -> list[SnapshotPartition]:
        """Which snapshots, and which of their actors or channels, are read by which task."""
        shares = plan(self._options.query, self._options.open_system(), self._keys)
        return [SnapshotPartition(share) for share in shares]

    def read(self, partition: SnapshotPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one partition."""
        from rayshot.analysis.batches import read_batches  # noqa: PLC0415 - needs pyarrow, which may be missing

        share = partition.share
        yield from read_batches(self._options.query, share.open_system(), share.pieces, self._keys, self._nullable)
