"""One view of a system's snapshots for programs without Spark. Needs pyarrow."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

try:
    import pyarrow as pa
except ModuleNotFoundError as error:
    from rayshot.errors import ConfigError

    raise ConfigError("tables need pyarrow: pip install 'rayshot[tables]'") from error

from rayshot.analysis.batches import arrow_schema, read_batches
from rayshot.analysis.planning import plan
from rayshot.analysis.query import Query, option_texts, parse_query, system_for
from rayshot.snapshots.catalog import Storage, SystemView


class Table:
    """The rows of one view. It fixes which snapshots it reads when it is opened; each reading gives the same rows.

    pandas, polars, DuckDB and everything that knows Arrow's C stream can read it directly:
    `polars.from_arrow(messages)`, `duckdb.sql("select * from messages")`. Reading raises what `Snapshot` raises.
    """

    def __init__(self, query: Query, system: SystemView) -> None:
        self._query = query
        self._system = system
        self._pieces = [piece for share in plan(query, system) for piece in share.pieces]

    def __repr__(self) -> str:
        return f"<Table {self._query.view_name!r} of {self._system.name!r} in {self._system.url}>"

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns; the metadata of each field describes it under `comment`."""
        columns = self._query.view.columns
        schema = arrow_schema(columns, dict.fromkeys((column.name for column in columns), True))
        fields = zip(schema, columns, strict=True)
        return pa.schema([field.with_metadata({"comment": column.about}) for field, column in fields])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read while the caller asks for them."""
        for batch in read_batches(self._query, self._system, self._pieces):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """All rows in memory."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame."""
        import polars as pl  # noqa: PLC0415 - only for users who ask for it

        return pl.DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for any library that reads Arrow (the Arrow PyCapsule interface)."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)


def open_table(of: SystemView | Storage, view: str, options: Mapping[str, Any]) -> Table:
    """See `SystemView.table` and `Storage.table`."""
    query = parse_query({"view": view} | option_texts(options))
    return Table(query, system_for(query, of) if isinstance(of, Storage) else of)
