"""Tables of Delta Lake, through the `deltalake` wheel: the log index is the version of an application's transaction."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from pyspark_rayshot.lake.destination import Destination, named
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import link_once


class DeltaLake(Destination):
    """A Delta table for each table.

    A batch's files get their places first, and then their lines in Delta's log, in one commit with the log index.
    """

    def create(self) -> None:
        """See Destination."""
        for table in TABLES.values():
            place = str(self._folder / table.name)
            if not DeltaTable.is_deltatable(place):
                DeltaTable.create(place, table.schema, name=table.name, description=table.about)

    def last(self, table: str) -> int:
        """See Destination."""
        version = self._open(table).transaction_version(self._application)
        return -1 if version is None else version

    def commit(self, table: str, log_index: int, files: Mapping[Path, int]) -> None:
        """See Destination."""
        found = self._open(table)
        adds: list[AddAction | RemoveAction] = []
        for file, rows in files.items():
            if rows:
                place = self._folder / table / named(file.parent.name, table, file)
                link_once(file, place)
                size, now = place.stat().st_size, int(time.time() * 1000)
                stats = json.dumps({"numRecords": rows})
                adds.append(AddAction(place.name, size, {}, now, data_change=True, stats=stats))
        mark = CommitProperties(app_transactions=[Transaction(self._application, log_index)])
        try:
            found.create_write_transaction(adds, "append", TABLES[table].schema, commit_properties=mark)
        except CommitFailedError as error:
            raise self._overtaken(table, log_index, error) from error
        except DeltaError as error:
            raise OSError(f"Delta did not commit {table}: {error}") from error

    def files(self, table: str) -> Sequence[str]:
        """See Destination."""
        return [unquote(uri.removeprefix("file://")) for uri in self._open(table).file_uris()]

    @property
    def _application(self) -> str:
        return f"rayshot:{self._system}"

    def _open(self, table: str) -> DeltaTable:
        return DeltaTable(str(self._folder / table))
