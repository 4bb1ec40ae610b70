"""Rows into Arrow record batches of bounded size, column by column."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pyspark_rayshot.views import Column
from rayshot.store.snapshot import Snapshot

BATCH_ROWS_MAX = 4096
BATCH_BYTES = 8 << 20
"""A batch is closed when its texts have as much; one cell is bounded by itself."""


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
