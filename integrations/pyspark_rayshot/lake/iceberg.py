"""Tables of Iceberg, through `pyiceberg` and a catalog in a file of SQLite: the log index is a snapshot's property.

It is the table's property as well, in the same commit: Iceberg's own snapshots may be expired.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from sqlalchemy.exc import SQLAlchemyError

from pyspark_rayshot.lake.destination import Destination, named
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.places import link_once

CATALOG = "catalog.db"
NAMESPACE = "rayshot"
MARK = "rayshot.log"
_PROPERTIES = {
    "commit.retry.num-retries": "0",  # trying again after another writer's commit would add the same rows twice
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergLake(Destination):
    """An Iceberg table for each table, `rayshot.messages` and so on, of the catalog `catalog.db` in the folder."""

    def create(self) -> None:
        """See Destination."""
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        for table in TABLES.values():
            if not self._catalog.table_exists(f"{NAMESPACE}.{table.name}"):
                pairs = zip(table.schema, table.columns, strict=True)
                fields = [field.with_metadata({"doc": column.about}) for field, column in pairs]
                self._catalog.create_table(
                    f"{NAMESPACE}.{table.name}",
                    pa.schema(fields),
                    location=f"file://{self._folder}/{table.name}",
                    properties=_PROPERTIES,
                )
            (self._folder / table.name / "data").mkdir(parents=True, exist_ok=True)

    def last(self, table: str) -> int:
        """See Destination."""
        return _mark(self._open(table))

    def commit(self, table: str, log_index: int, files: Mapping[Path, int]) -> None:
        """See Destination."""
        found = self._open(table)
        places = []
        for file, rows in files.items():
            if rows:
                place = self._folder / table / "data" / named(file.parent.name, table, file)
                link_once(file, place)
                places.append(f"file://{place}")
        mark = {MARK: str(log_index)}
        try:
            with found.transaction() as transaction:
                transaction.add_files(places, mark, check_duplicate_files=False)
                transaction.set_properties(mark)
        except CommitFailedException as error:
            raise self._overtaken(table, log_index, error) from error
        except SQLAlchemyError as error:
            raise OSError(f"Iceberg's catalog did not commit {table}: {error}") from error

    def files(self, table: str) -> Sequence[str]:
        """See Destination."""
        return [task.file.file_path.removeprefix("file://") for task in self._open(table).scan().plan_files()]

    @cached_property
    def _catalog(self) -> SqlCatalog:
        address = f"sqlite:///{self._folder / CATALOG}"
        return SqlCatalog("rayshot", uri=address, warehouse=f"file://{self._folder}")

    def _open(self, table: str) -> Table:
        return self._catalog.load_table(f"{NAMESPACE}.{table}")


def _mark(table: Table) -> int:
    return int(table.properties.get(MARK, "-1"))
