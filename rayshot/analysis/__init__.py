"""Snapshots as tables: one implementation of each view, for Spark, Arrow, pandas, polars and DuckDB.

    view       what a table is: its columns, and the functions that give its rows
    *_views    the tables; `views` has all of them by name
    query      what the user asks of a table
    selection  which snapshots the query reads
    pairs      two snapshots, for tables of changes
    planning   which snapshots, actors and channels are read, in pieces of about equal work
    values     a value of a state or a message, in cells
    frames     the rows of messages, one frame at a time, with `plain_json` for their arguments
    batches    rows into Arrow record batches
    table      a table for programs without Spark
    verdicts   the answers of a property for each snapshot, as such a table

Only `batches`, `table` and `verdicts` need pyarrow, and only `plain_json` needs msgspec.
"""
