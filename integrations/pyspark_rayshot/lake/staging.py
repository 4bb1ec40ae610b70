"""A batch on its way into the tables.

The whole batch is first written to a folder `.staging/tmp-ID`, with one Parquet file for each table, and more if
executors write the rows of large snapshots. When all files are on the disk the folder gets the name `N-ID`, where N is
the log index up to which they go. From then on the batch counts: each table takes its files, `snapshots` last, and then
the folder is removed. A killed process leaves a folder. If its name begins with `tmp-`, the next start throws it away,
as no table has seen it. Any other is completed from its files alone, even if its snapshots are deleted by
now.
"""

import json
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_rayshot.lake.destination import READ_ERRORS, Destination, tells_damage
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.parts import Done, Part, Task, Workers, write_part
from pyspark_rayshot.lake.places import STAGING, sync_folder, write_flushed
from pyspark_rayshot.lake.row_file import RowFile
from rayshot.errors import Damaged
from rayshot.keys.encryption import EncryptionKey

_ABOUT = "batch.json"
_TMP = "tmp-"


class Staging:
    """Writes one batch into `.staging`; with `close` it counts."""

    def __init__(self, folder: Path) -> None:
        self._id = uuid.uuid4().hex
        self._root = folder / STAGING
        self._folder = self._root / f"{_TMP}{self._id}"
        self._folder.mkdir(parents=True)
        self._writers: dict[str, RowFile] = {}
        self._parts: dict[str, dict[str, int]] = {table: {} for table in TABLES}
        try:
            for table in TABLES.values():
                self._writers[table.name] = RowFile(self._folder / f"{table.name}.parquet", table.schema)
        except OSError:
            self.give_up()
            raise

    def add(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Take in rows, as they are read."""
        self._writers[table].add(batches)

    def add_parts(self, parts: Sequence[Part], workers: Workers, keys: Sequence[EncryptionKey]) -> list[Done]:
        """Let workers write rows, one file for each part. Raises what stopped one of them.

        The keys travel with the function, which Spark keeps in memory; the parts go through files.
        """
        first = sum(map(len, self._parts.values())) + 1
        tasks = [
            Task(self._folder / f"{part.table}-{number}.parquet", part) for number, part in enumerate(parts, first)
        ]
        done: list[Done] = []
        for one in workers.run(partial(write_part, keys), tasks):
            if isinstance(one, Exception):
                raise one
            done.append(one)
        for (file, part), one in zip(tasks, done, strict=True):
            self._parts[part.table][file.name] = one.rows
        return done

    def close(self, last: int) -> Path:
        """End the batch, whose rows go up to the log index `last`. Returns its folder."""
        files = {
            name: {f"{name}.parquet": writer.close(), **self._parts[name]} for name, writer in self._writers.items()
        }
        write_flushed(self._folder / _ABOUT, json.dumps({"log_index": last, "files": files}).encode())
        sync_folder(self._folder)
        place = self._folder.rename(self._root / f"{last:020d}-{self._id}")
        sync_folder(self._root)
        return place

    def give_up(self) -> None:
        """Throw away what was written."""
        for writer in self._writers.values():
            writer.abandon()
        shutil.rmtree(self._folder, ignore_errors=True)


def carry_over(place: Path, into: Destination) -> Mapping[str, int]:
    """Give each table the files of a batch that it does not have yet, and remove the batch.

    Returns how many rows each table got in all.
    """
    about = json.loads((place / _ABOUT).read_bytes())
    last, files = about["log_index"], about["files"]
    for table in TABLES:
        if into.last(table) < last:
            into.commit(table, last, {place / name: rows for name, rows in files[table].items()})
    shutil.rmtree(place.rename(place.with_name(f"{_TMP}{place.name}")))
    return {table: sum(files[table].values()) for table in TABLES}


def carry_over_all(folder: Path, into: Destination) -> int:
    """Complete what a killed process had begun. Returns the number of batches. Raises as commits do, and Damaged."""
    found = sorted((folder / STAGING).glob("*"))
    whole = [place for place in found if place.is_dir() and not place.name.startswith(_TMP)]
    for place in found:
        if place not in whole and place.is_dir():
            # Renamed first: a task of a driver that was killed may still be about to write there.
            shutil.rmtree(place.rename(place.with_name(f"{_TMP}{uuid.uuid4().hex}")))
        elif place not in whole:
            place.unlink()
    for place in whole:
        _check_whole(place)
        carry_over(place, into)
    return len(whole)


def _check_whole(place: Path) -> None:
    """Raise Damaged if a file of a batch that counts is torn or missing, before a table takes any of them."""
    try:
        about = json.loads((place / _ABOUT).read_bytes())
        int(about["log_index"])
        for table in TABLES:
            for file, rows in about["files"][table].items():
                if pq.read_metadata(place / file).num_rows != rows:
                    raise ValueError(f"{file} has not the {rows:,} rows that were written")  # noqa: TRY301 - as torn
    except (ValueError, KeyError, TypeError, AttributeError, *READ_ERRORS) as error:
        if not tells_damage(error):
            raise
        raise Damaged(
            f"{place} is a batch on its way into the tables, and it is incomplete: {' '.join(str(error).split())}. No "
            "pipeline did this: put it back from a backup, or remove this folder; then its snapshots are read again, "
            "and those that were deleted meanwhile are gaps",
            folder=str(place),
        ) from error
