"""The questions and orders to a lake, for every format of its tables."""

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pyspark_rayshot.lake.lake_tables import TABLES
from rayshot.errors import Damaged, LakeInUse

READ_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError)
"""The errors of Arrow for bytes that differ from what was written, and for files that it cannot read."""


def named(batch: str, table: str, file: Path) -> str:
    """The name of a file of a batch in its table."""
    return f"{batch}{file.name.removeprefix(table)}"


class Destination(ABC):
    """Tables in a folder, each of which knows up to which log index it has its rows.

    One commit is atomic: a table has the rows of a file and says so, or neither.
    """

    def __init__(self, folder: Path, system: str) -> None:
        self._folder = folder
        self._system = system

    @abstractmethod
    def create(self) -> None:
        """Make the tables that are missing."""

    @abstractmethod
    def last(self, table: str) -> int:
        """The log index of the last commit, -1 before the first."""

    @abstractmethod
    def commit(self, table: str, log_index: int, files: Mapping[Path, int]) -> None:
        """Add the rows of Parquet files as those up to `log_index`, which is above `last`.

        `files` has the number of rows of each file; they are in one folder of the batch, and stay there. The first one
        has the table's name, others also a number. Raises OSError, and LakeInUse if another pipeline was faster.
        """

    @abstractmethod
    def files(self, table: str) -> Sequence[str]:
        """The Parquet files that make up a table."""

    def _overtaken(self, table: str, log_index: int, error: Exception) -> LakeInUse:
        """The error for a commit that was lost to another writer."""
        return LakeInUse(
            f"another pipeline writes into {self._folder}: it was faster at {table} ({error}); end one",
            table=table,
            log_index=log_index,
        )

    def read(self, table: str, columns: Sequence[str], where: ds.Expression | None = None) -> pa.Table:
        """The given columns of the rows that match. Raises Damaged for a file that is torn or missing, and OSError."""
        files = list(self.files(table))
        try:
            return ds.dataset(files, schema=TABLES[table].schema, format="parquet").to_table(
                list(columns), filter=where
            )
        except READ_ERRORS:
            self._look_for_damage(table, files, pq.read_table)
            raise

    def check(self, table: str) -> None:
        """Raise Damaged for a file that was cut short or is missing, for callers that read `files` by other means."""
        self._look_for_damage(table, self.files(table), pq.read_metadata)

    def _look_for_damage(self, table: str, files: Sequence[str], read: Callable[[str], Any]) -> None:
        for file in files:
            try:
                read(file)
            except READ_ERRORS as error:
                if not tells_damage(error):
                    raise
                raise Damaged(
                    f"{file}, of the table {table} of a lake, cannot be read: {' '.join(str(error).split())}. No "
                    "pipeline did this: put the file back from a backup, or begin a lake in a new folder",
                    file=file,
                    table=table,
                ) from error


def tells_damage(error: BaseException) -> bool:
    """Whether one of READ_ERRORS says that a file differs from what was written, not that the disk did not answer."""
    return not isinstance(error, OSError) or error.errno in {None, errno.ENOENT}
