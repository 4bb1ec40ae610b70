"""Snapshots as tables: one implementation of each view, for Spark, Arrow, pandas, polars and DuckDB.

    view       what a table is: its columns, and what gives it its rows
    *_views    the tables; `views` has all of them by name
    query      what a table was asked for
    selection  which snapshots that is
    pairs      two snapshots, for tables of changes
    planning   which snapshots, actors and channels are read for it, in pieces of about equal work
    values     a value of a state or a message, in cells
    frames     the rows of messages a frame at a time, with `plain_json` for their arguments
    batches    rows into Arrow record batches
    table      a table for programs without Spark
    verdicts   what a property says of each snapshot, as such a table

Only `batches`, `table` and `verdicts` need pyarrow, and only `plain_json` needs msgspec.
"""
