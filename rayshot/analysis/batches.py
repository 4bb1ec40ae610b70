"""Rows into Arrow record batches of bounded size, column by column. Needs pyarrow."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from rayshot.analysis.planning import Piece, read_entries, read_items
from rayshot.analysis.query import Query
from rayshot.analysis.view import Block, Cells, Column, Repeated
from rayshot.inert.redaction import with_secrets_shown
from rayshot.keys.encryption import EncryptionKey
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot

BATCH_ROWS_MAX = 4096
BATCH_BYTES = 8 << 20
"""A batch ends when its texts have this many characters, or its arrays this many values; each cell is bounded too."""
_MEASURED = (str, np.ndarray)

_ARROW_TYPES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "decimal(38,0)": pa.decimal128(38, 0),
        "double": pa.float64(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<bigint>": pa.list_(pa.field("element", pa.int64())),
        "array<double>": pa.list_(pa.field("element", pa.float64())),
        "array<string>": pa.list_(pa.field("element", pa.string())),
    }
)
"""The types that views have: Spark's name, and the Arrow type that Spark itself uses for it."""


def arrow_schema(columns: Iterable[Column], nullable: Mapping[str, bool]) -> pa.Schema:
    """The Arrow schema that Spark expects of these columns."""
    return pa.schema([pa.field(column.name, _ARROW_TYPES[column.type], nullable[column.name]) for column in columns])


def read_batches(
    query: Query,
    system: SystemView,
    pieces: Iterable[Piece],
    keys: Sequence[EncryptionKey] | None = None,
    nullable: Mapping[str, bool] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of pieces, with the columns that `nullable` names; it says which may hold nulls. None: all columns may.

    Raises what reading the snapshots raises.
    """
    nullable = nullable or dict.fromkeys((column.name for column in query.view.columns), True)
    columns = query.view.columns_named(nullable)
    schema = arrow_schema(columns, nullable)
    manifests = not all(column.from_log for column in columns)
    if query.view.blocks is None:
        batches = to_batches(read_items(query, system, pieces, keys, manifests=manifests), columns, schema)
    else:
        entries = read_entries(query, system, pieces, keys, manifests=manifests)
        blocks = (block for snapshot, entry in entries for block in query.blocks(snapshot, entry, columns))
        batches = _joined((_block_batch(block, schema) for block in blocks), schema)
    return with_secrets_shown(query.show_secrets, batches)


def to_batches(
    items: Iterable[tuple[Snapshot, Any]], columns: Sequence[Column], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The cells of `columns` for every (snapshot, row), in batches of `schema`, whose fields are the columns."""
    gathered: list[list[Any]] = []
    size = 0
    for snapshot, row in items:
        cells = [column.cell(snapshot, row) for column in columns]
        gathered.append(cells)
        size += sum(len(cell) for cell in cells if isinstance(cell, _MEASURED))
        if len(gathered) == BATCH_ROWS_MAX or size >= BATCH_BYTES:
            yield _batch(gathered, schema)
            gathered, size = [], 0
    if gathered:
        yield _batch(gathered, schema)


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _block_batch(block: Block, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_array(cells, block.count, field.type) for cells, field in zip(block.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(cells: Cells, count: int, kind: pa.DataType) -> pa.Array:
    if isinstance(cells, Repeated):
        return pa.repeat(pa.scalar(cells.cell, kind), count)
    if isinstance(cells, range):
        return pa.array(np.arange(cells.start, cells.stop), kind)
    return pa.array(cells, kind)


def _joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of `batches`, with small batches joined."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        gathered.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= BATCH_ROWS_MAX or size >= BATCH_BYTES:
            yield from pa.Table.from_batches(gathered, schema).combine_chunks().to_batches()
            gathered, rows, size = [], 0, 0
    if gathered:
        yield from pa.Table.from_batches(gathered, schema).combine_chunks().to_batches()
