"""Rows into Arrow record batches of bounded size, column by column."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_rayshot.views import Column
from rayshot.store.snapshot import Snapshot

BATCH_ROWS_MAX = 4096
BATCH_BYTES = 8 << 20
"""A batch is closed when its texts have as much; one cell is bounded by itself."""

_ARROW_TYPES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "double": pa.float64(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<string>": pa.list_(pa.field("element", pa.string())),
        "map<string,double>": pa.map_(pa.string(), pa.float64()),
    }
)
"""Spark's types, as far as views have them, as Spark itself spells them in Arrow."""


def arrow_schema(columns: Iterable[Column], nullable: Mapping[str, bool]) -> pa.Schema:
    """The Arrow schema that Spark expects of these columns."""
    return pa.schema([pa.field(column.name, _ARROW_TYPES[column.type], nullable[column.name]) for column in columns])


def to_batches(
    items: Iterable[tuple[Snapshot, Any]], columns: Sequence[Column], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The cells of `columns` for every (snapshot, row), in batches of `schema`, whose fields are the columns."""
    gathered: list[list[Any]] = []
    size = 0
    for snapshot, row in items:
        cells = [column.cell(snapshot, row) for column in columns]
        gathered.append(cells)
        size += sum(len(cell) for cell in cells if isinstance(cell, str))
        if len(gathered) == BATCH_ROWS_MAX or size >= BATCH_BYTES:
            yield _batch(gathered, schema)
            gathered, size = [], 0
    if gathered:
        yield _batch(gathered, schema)


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
