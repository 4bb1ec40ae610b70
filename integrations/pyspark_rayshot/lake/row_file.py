"""A file of rows on its way into a table."""

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_BYTES = 32 << 20
"""So many bytes of rows are held in memory for each file, until they are written."""


class RowFile:
    """A Parquet file, in groups of rows of about ROW_GROUP_BYTES. Raises OSError."""

    def __init__(self, place: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._file = place.open("wb", buffering=0)
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take in rows, as they are read."""
        for batch in batches:
            self._held.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
            self._bytes += batch.nbytes
            self._rows += batch.num_rows
            if self._bytes >= ROW_GROUP_BYTES:
                self._flush()

    def close(self) -> int:
        """Flush the rows to the disk. Returns how many there are."""
        self._flush()
        self._writer.close()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._rows

    def abandon(self) -> None:
        """Write nothing more, not even the end of the file: the disk may be full."""
        self._writer.is_open = False
        self._file.close()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
        self._held, self._bytes = [], 0
