"""From when to when an attribute had a value: a view over `state_changes`, in SQL that Spark and DuckDB read alike.

The actor's own clock orders the rows of a life. A life ends where a later one begins. `actors` says how far an actor
had come by then, even if nothing of its state changed any more.
"""

from pathlib import Path
from typing import Any

from pyspark_rayshot.lake.lake_tables import TABLES, VALUE_COLUMNS
from rayshot.errors import ConfigError

_VALUES = ", ".join(column.name for column in VALUE_COLUMNS)

_HISTORY = """
with seen as (
    select system, life, actor, max(clock + gone) as last_clock from {actors} group by system, life, actor
),
lives as (
    select system, max(life) as newest_life from {actors} group by system
),
told as (
    select *, case when change in ('removed', 'ended') then '(gone)' else coalesce(digest, '(hidden)') end as holds
    from {changes} join seen using (system, life, actor) join lives using (system)
),
steps as (
    select *, lag(holds) over {order} as held
    from told
),
kept as (
    select * from steps where held is null or held <> holds
),
spans as (
    select *, lead(clock) over {order} as next_clock, lead(seen_in) over {order} as next_seen_in,
        lead(change) over {order} as next_change
    from kept
)
select system, life, actor, attribute, clock as valid_from,
    case when next_change = 'ended' then last_clock when next_clock is not null then next_clock
        when life < newest_life then last_clock end as valid_to,
    case when next_change = 'ended' then 'end' when next_clock is not null then 'change'
        when life < newest_life then 'restore' end as ended_by,
    seen_in as from_snapshot, next_seen_in as to_snapshot, {values}
from spans where change not in ('removed', 'ended')
"""
_ORDER = (
    "(partition by system, life, actor, attribute "
    "order by case when change = 'ended' then 1 else 0 end, clock, log_index)"
)


def history_sql(changes: str, actors: str) -> str:
    """A query over the tables `state_changes` and `actors` of a lake, by whatever names the engine has them.

    Each row is one value of an attribute in one life: it was valid from the actor's clock `valid_from` on and until
    before `valid_to`, which is null if it is still valid; `ended_by` says whether a change, the actor's end or a
    restore ended it. If no change ended it, `valid_to` is the highest clock at which the actor was seen in this life.
    """
    return _HISTORY.format(changes=changes, actors=actors, order=_ORDER, values=_VALUES)


def history(spark: Any, lake: Path | str, name: str = "history") -> str:
    """Make `history_sql` of a lake a temp view of a Spark session, whatever the lake's format; its name is returned.

    The view shows the lake as it is now: make it again to see later rows. Raises the same errors as `lake_table`.
    """
    names = {table: f"{name}_of_{table}" for table in ("state_changes", "actors")}
    for table, view in names.items():
        lake_table(spark, lake, table).createOrReplaceTempView(view)
    spark.sql(history_sql(names["state_changes"], names["actors"])).createOrReplaceTempView(name)
    return name


def lake_table(spark: Any, lake: Path | str, table: str) -> Any:
    """One table of a lake as a DataFrame of Spark: its Parquet files as they are now, so Spark needs no jar.

    Raises ConfigError for an unknown table, ForeignLake if the folder is not a lake, and Damaged for a file
    that was cut short or is missing.
    """
    from pyspark_rayshot.lake.writing import find_lake  # noqa: PLC0415 - needs the package of the lake's format

    if table not in TABLES:
        raise ConfigError(f"a lake has no table {table!r}; it has {', '.join(TABLES)}", option="table", value=table)
    schema = ", ".join(column.ddl for column in TABLES[table].columns)
    found = find_lake(Path(lake))
    found.check(table)
    return spark.read.schema(schema).parquet(*found.files(table))
