"""The format: the objects that Spark uses for `format("rayshot")`, for a batch or for a stream."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from pyspark_rayshot.options import parse_options
from pyspark_rayshot.reading import RowReader, SnapshotPartition
from pyspark_rayshot.refused import RefusedStream
from pyspark_rayshot.stream import SnapshotStream
from rayshot.analysis.planning import plan
from rayshot.errors import RayshotError


class DefaultSource(DataSource):  # type: ignore[misc]  # Spark has no types
    """The format "rayshot": the committed snapshots of one system, read without executing anything of them.

    Spark makes one for each `load` and pickles it. Its DataFrame always shows the log of this moment, however often
    Spark plans it.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(dict(options)).pinned()

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "rayshot"

    def schema(self) -> str:
        """All columns of the view; Spark does not ask if the user gives a schema."""
        return self._options.query.view.ddl

    def reader(self, schema: Any) -> "SnapshotReader":
        """Read the columns of `schema` and no others. Raises ConfigError if the view does not have them so."""
        self._options.refuse_for_batch()
        return SnapshotReader(self._options, self._nullable(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The same as a stream, of snapshots as they come; its errors come at the first call of the stream."""
        try:
            self._options.refuse_for_stream()
            return SnapshotStream(self._options, self._nullable(schema))
        except RayshotError as error:
            return RefusedStream(error)

    def _nullable(self, schema: Any) -> dict[str, bool]:
        view = self._options.query.view
        view.check_schema([(field.name, field.dataType.simpleString()) for field in schema.fields])
        return {field.name: field.nullable for field in schema.fields}


class SnapshotReader(RowReader, DataSourceReader):  # type: ignore[misc]  # Spark has no types
    """Plans and reads a batch.

    It takes no filters: Spark 4.3 keeps a plan with one query's filters for the next query of the same
    DataFrame, and for the other side of a join with itself (docs/design/0032-spark-pushes-no-filters.md).
    """

    def partitions(self) -> list[SnapshotPartition]:
        """Which task reads which snapshots, and which of their actors or channels."""
        shares = plan(self._options.query, self._options.open_system(), self._keys, self._options.ends)
        return [SnapshotPartition(share) for share in shares]
