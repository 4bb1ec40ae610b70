"""The answers of a property for every snapshot, as a table. Needs pyarrow.

The columns are those that every view begins with, and then those of VERDICT_COLUMNS. Each snapshot is judged alone, so
tasks may share the work. A row holds the verdict of its snapshot. A yes is valid for every snapshot of the same life
whose cut can be reached from this one, see `rayshot.properties.Verdict`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

try:
    import pyarrow as pa
except ModuleNotFoundError as error:
    from rayshot.errors import ConfigError

    raise ConfigError("tables need pyarrow: pip install 'rayshot[tables]'") from error

from rayshot.analysis.batches import arrow_schema, to_batches
from rayshot.analysis.query import option_texts, parse_query
from rayshot.analysis.view import EVERY, Column
from rayshot.inert.redaction import show_secrets
from rayshot.keys.encryption import EncryptionKey
from rayshot.properties import Property, judge
from rayshot.properties.property import require_stable
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView

VERDICT_COLUMNS = (
    Column("property", "string", "what was asked", lambda _, one: one.name),
    Column("kind", "string", "stable or invariant", lambda _, one: one.kind),
    Column("holds", "boolean", "null where the snapshot does not tell", lambda _, one: one.holds),
    Column("why", "string", "in a sentence", lambda _, one: one.why),
    Column("meaning", "string", "what follows, and as long as what", lambda _, one: one.meaning),
    Column("evidence", "string", "values, as JSON", lambda _, one: json.dumps(dict(one.evidence)), json=True),
    Column("told", "string", "by driver, how much it had told, as JSON", lambda _, one: json.dumps(dict(one.told))),
)
COLUMNS = (*EVERY, *VERDICT_COLUMNS)


def verdict_table(system: SystemView, asked: Property, **options: Any) -> pa.Table:
    """Ask a stable property of snapshots, one row for each.

    Args:
        system: the system.
        asked: a property declared with `rayshot.properties.stable` or `invariant`, or a ready-made one.
        options: those of the view `snapshots` that select snapshots, and `show_secrets`.

    Raises NotStable, PredicateFailed, ConfigError for options that cannot work, and what reading snapshots raises.
    """
    query = parse_query({"view": "snapshots"} | option_texts(options))
    view = system.now()
    ids = [snapshot.id for snapshot in query.selection.of(view)]
    return pa.Table.from_batches(verdict_batches(view, asked, ids, query.show_secrets), schema())


def verdict_batches(
    system: SystemView,
    asked: Property,
    ids: Iterable[SnapshotId],
    shown: frozenset[str] | None = frozenset(),
    keys: Sequence[EncryptionKey] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of these snapshots; `shown` names secrets that may be counted, None all. Raises as `verdict_table`."""
    asked = require_stable(asked)
    known = system.history().retained
    with show_secrets(shown):
        snapshots = (system.open(known[one], keys) if one in known else system.snapshot(one) for one in ids)
        yield from to_batches(((one, judge(asked, one)) for one in snapshots), COLUMNS, schema())


def schema() -> pa.Schema:
    """The schema of the table."""
    nullable: Mapping[str, bool] = dict.fromkeys((column.name for column in COLUMNS), True)
    return arrow_schema(COLUMNS, nullable)
