"""Tables as folders of Parquet files: a file's name is the log index up to which its batch goes.

A batch with a large snapshot has several files. Files with a number after the log index come first. The file
without a number, which each batch has, makes them count.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark_rayshot.lake.destination import Destination, named
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import link_once, sync_folder
from rayshot.errors import LakeInUse

_OURS = re.compile(r"[0-9]{20}(-[0-9]+)?\.parquet")


class ParquetLake(Destination):
    """A folder for each table. A file that was written and flushed elsewhere gets its name there in one step."""

    def create(self) -> None:
        """See Destination."""
        for table in TABLES:
            (self._folder / table).mkdir(exist_ok=True)
            last = self.last(table)
            for path in self._paths(table):
                if _log_index(path) > last:
                    path.unlink()
        sync_folder(self._folder)

    def last(self, table: str) -> int:
        """See Destination."""
        return max((_log_index(path) for path in self._paths(table) if path.stem.isdigit()), default=-1)

    def commit(self, table: str, log_index: int, files: Mapping[Path, int]) -> None:
        """See Destination."""
        first, *parts = files
        for file in (*parts, first):
            place = self._folder / table / named(f"{log_index:020d}", table, file)
            try:
                link_once(file, place)
            except FileExistsError as error:
                raise LakeInUse(
                    f"{place} is there, and was not a moment ago: another pipeline writes into {self._folder}; end one",
                    table=table,
                    log_index=log_index,
                ) from error

    def files(self, table: str) -> Sequence[str]:
        """See Destination."""
        last = self.last(table)
        return sorted(str(path) for path in self._paths(table) if _log_index(path) <= last)

    def _paths(self, table: str) -> list[Path]:
        return [path for path in (self._folder / table).iterdir() if _OURS.fullmatch(path.name)]


def _log_index(path: Path) -> int:
    return int(path.stem.partition("-")[0])
