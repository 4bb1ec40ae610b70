"""Rows into a table of Iceberg, through `pyiceberg` and any of its catalogs.

What the table keeps of a sink is a property of the table, `rayshot/<system>/<sink>`, set in the commit that has the
rows. Properties do not conflict, but snapshots do: a commit is refused if the table has another snapshot than the one
that was looked at. So each step makes a snapshot, without files where it has no rows: whoever looked before a later
life took the sink fails, looks again, and is kept out. Expiry of snapshots and rewriting of files leave it alone.
"""

import json
from typing import TYPE_CHECKING

from rayshot.errors import ConfigError
from rayshot.sinks.backend import Claim
from rayshot.sinks.optimistic import Optimistic

try:
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
    from pyiceberg.table import TableProperties

    from rayshot.sinks.fitting import fitted
except ImportError as error:
    raise ConfigError("a sink into a table of Iceberg needs pyiceberg: pip install 'rayshot[lakes]'") from error

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from rayshot.sinks.backend import Rows

_NO_RETRIES = {TableProperties.COMMIT_NUM_RETRIES: "0"}
"""pyiceberg would try again by itself behind the commit of a later life, whose claim it has not seen."""


class Iceberg(Optimistic):
    """A table of Iceberg, which may have other sinks and other writers too. Rows must fit its schema.

    A rollback of the table takes rows away, as a DELETE does, and does not move the sink back.

    Args:
        catalog: what `pyiceberg.catalog.load_catalog` returns. Read passwords from the environment.
        table: the name of the table, as `shop.visits`, which must exist: a sink does not create it.
    """

    def __init__(self, catalog: "Catalog", table: str) -> None:
        self._catalog, self._identifier = catalog, table
        self._table: Table | None = None
        """As the last `_look` found it: its snapshot is what a commit is compared with."""

    def _look(self) -> Claim | None:
        try:
            self._table = self._catalog.load_table(self._identifier)
        except NoSuchTableError as error:
            where = f"catalog {self._catalog.name!r}"
            raise ConfigError(
                f"{where} has no table {self._identifier!r}: create it", table=self._identifier
            ) from error
        about = self._table.properties.get(self._property)
        return None if about is None else Claim(**json.loads(about))

    def _write(self, claim: Claim, rows: "Rows | None") -> bool:
        table = self._table
        assert table is not None, "a write follows a look"
        here_only = {**table.properties, **_NO_RETRIES}
        table.metadata = table.metadata.model_copy(update={"properties": here_only})
        try:
            with table.transaction() as change:
                if rows is None:
                    with change.update_snapshot().fast_append():
                        pass
                else:
                    change.append(fitted(self.name, claim.sequence, rows, table.schema().as_arrow()))
                change.set_properties({self._property: json.dumps(claim.document)})
        except CommitFailedException:
            return False
        return True

    @property
    def _property(self) -> str:
        return f"rayshot/{self.system}/{self.sink}"
