"""All views of a system as temp views of a session, for questions in SQL alone."""

from typing import TYPE_CHECKING, Any

from pyspark_rayshot.options import parse_options
from rayshot.analysis.query import option_texts
from rayshot.analysis.selection import SELECTION_OPTIONS
from rayshot.analysis.view import Column
from rayshot.analysis.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_SELECTING = frozenset(map(str.lower, SELECTION_OPTIONS))
_FUNCTIONS = """
create or replace temporary function history(actor string comment 'its name', attribute string comment 'its name')
returns table (snapshot string, log_index bigint, life bigint, taken_at timestamp, value variant)
comment 'the value of an attribute in each snapshot, in the order of the log'
return select snapshot, log_index, life, taken_at, value from state
where state.actor = history.actor and state.attribute = history.attribute order by log_index
"""


def tables(spark: Any, path: str, **options: Any) -> list[str]:
    """Make a temp view of each view in `rayshot help spark`, all of one moment, and SQL functions over them.

    JSON columns become VARIANT, so that `state:orders[0].amount::long` reads into them. The views replace others with
    the same names in the session.

    Args:
        spark: a session, also one of Spark Connect.
        path: the storage.
        options: those that all views have, also with names of Python: `show_secrets=True`. `systems` and `log` are
            not about snapshots: options that choose snapshots do not affect them.

    Returns the names of the views. Raises ConfigError for options that cannot work. If the storage cannot be read,
    raises the error that Spark makes of ours.
    """
    given = {"path": str(path), **option_texts(options)}
    parse_options(given)
    moment = {"logend": _log_end(spark, given), **given}
    for view in VIEWS.values():
        chosen = moment if view.of_snapshots else {k: v for k, v in moment.items() if k not in _SELECTING}
        frame = spark.read.format("rayshot").options(**{**chosen, "view": view.name}).load()
        frame.select(*map(_shown, view.columns)).createOrReplaceTempView(view.name)
    spark.sql(_FUNCTIONS)
    return list(VIEWS)


def _shown(column: Column) -> Any:
    from pyspark.sql import functions as f  # noqa: PLC0415 - workers import this module, and make no columns

    if not column.json:
        return f.col(column.name)
    return f.parse_json(f.col(column.name)).alias(column.name, metadata={"comment": column.about})


def _log_end(spark: Any, given: dict[str, str]) -> str:
    """The present length of the log, looked up where Spark reads it: this process may not reach the storage."""

    def look(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa  # noqa: PLC0415 - it may be missing where this module is only imported

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"log_end": [parse_options(given).pinned().log_end]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(look, "log_end bigint").collect()
    return str(row.log_end)
