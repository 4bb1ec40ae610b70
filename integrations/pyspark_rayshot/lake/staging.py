"""A batch on its way into the tables.

It is written aside first, whole: a folder `.staging/tmp-ID` with one Parquet file for each table. When all of them are
on the disk the folder gets the name `N-ID`, N being the log index up to which they go. From then on the batch counts:
each table takes its file, `snapshots` last, and then the folder goes. A process that is killed leaves a folder: what is
named `tmp-` is thrown away at the next start, as nobody has seen it, and any other is carried to its end from these
files alone, though its snapshots may be deleted by now.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_rayshot.lake.destination import READ_ERRORS, Destination, tells_damage
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import STAGING, sync_folder, write_flushed
from rayshot.errors import Damaged

ROW_GROUP_BYTES = 32 << 20
"""Of rows that are held in memory for each table, until they are written."""
_ABOUT = "batch.json"
_TMP = "tmp-"


class Staging:
    """Writes one batch aside; with `close` it counts."""

    def __init__(self, folder: Path) -> None:
        self._id = uuid.uuid4().hex
        self._root = folder / STAGING
        self._folder = self._root / f"{_TMP}{self._id}"
        self._folder.mkdir(parents=True)
        self._writers: dict[str, _Rows] = {}
        try:
            for table in TABLES.values():
                self._writers[table.name] = _Rows(self._folder / f"{table.name}.parquet", table.schema)
        except OSError:
            self.give_up()
            raise

    def add(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Take in rows, as they are read."""
        for batch in batches:
            self._writers[table].add(batch)

    def close(self, last: int) -> Path:
        """End the batch, whose rows go up to the log index `last`; where it lies."""
        rows = {name: writer.close() for name, writer in self._writers.items()}
        write_flushed(self._folder / _ABOUT, json.dumps({"log_index": last, "rows": rows}).encode())
        sync_folder(self._folder)
        place = self._folder.rename(self._root / f"{last:020d}-{self._id}")
        sync_folder(self._root)
        return place

    def give_up(self) -> None:
        """Throw away what was written."""
        for writer in self._writers.values():
            writer.abandon()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Rows:
    """One file, in groups of rows of about ROW_GROUP_BYTES."""

    def __init__(self, place: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._file = place.open("wb", buffering=0)
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        """Have them on the disk; how many there are."""
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


def carry_over(place: Path, into: Destination) -> Mapping[str, int]:
    """Give each table the file of a batch, as far as it does not have it, and remove the batch.

    Returns how many rows each table got in all.
    """
    about = json.loads((place / _ABOUT).read_bytes())
    last, rows = about["log_index"], about["rows"]
    for table in TABLES:
        if into.last(table) < last:
            into.commit(table, last, place / f"{table}.parquet", rows[table])
    shutil.rmtree(place.rename(place.with_name(f"{_TMP}{place.name}")))
    return dict(rows)


def carry_over_all(folder: Path, into: Destination) -> int:
    """End what a killed process had begun: how many batches were carried over. Raises as commits do, and Damaged."""
    found = sorted((folder / STAGING).glob("*"))
    whole = [place for place in found if place.is_dir() and not place.name.startswith(_TMP)]
    for place in found:
        if place not in whole:
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    for place in whole:
        _check_whole(place)
        carry_over(place, into)
    return len(whole)


def _check_whole(place: Path) -> None:
    """Raise Damaged where something of a batch that counts is torn or missing, before a table takes any of it."""
    try:
        about = json.loads((place / _ABOUT).read_bytes())
        int(about["log_index"]), dict(about["rows"])
        for table in TABLES:
            pq.read_metadata(place / f"{table}.parquet")
    except (ValueError, KeyError, TypeError, *READ_ERRORS) as error:
        if not tells_damage(error):
            raise
        raise Damaged(
            f"{place} is a batch on its way into the tables, and it is not whole: {' '.join(str(error).split())}. No "
            "pipeline did this: put it back from a backup, or remove this folder; then its snapshots are read again, "
            "and those that were deleted meanwhile are gaps",
            folder=str(place),
        ) from error
