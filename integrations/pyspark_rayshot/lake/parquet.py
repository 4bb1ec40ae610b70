"""Tables as folders of Parquet files, one for each batch: a file's name is the log index up to which it goes."""

from collections.abc import Sequence
from pathlib import Path

from pyspark_rayshot.lake.destination import Destination
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import link_once, sync_folder
from rayshot.errors import LakeInUse


class ParquetLake(Destination):
    """A folder for each table. What was written and flushed aside gets its name there in one step."""

    def create(self) -> None:
        """See Destination."""
        for table in TABLES:
            (self._folder / table).mkdir(exist_ok=True)
        sync_folder(self._folder)

    def last(self, table: str) -> int:
        """See Destination."""
        return max((int(path.stem) for path in self._paths(table)), default=-1)

    def commit(self, table: str, log_index: int, file: Path, rows: int) -> None:  # noqa: ARG002 - a file may be empty
        """See Destination."""
        place = self._folder / table / f"{log_index:020d}.parquet"
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
        return sorted(map(str, self._paths(table)))

    def _paths(self, table: str) -> list[Path]:
        return [path for path in (self._folder / table).glob("*.parquet") if path.stem.isdigit()]
