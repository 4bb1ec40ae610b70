"""A lake of snapshots: tables in a folder that a pipeline adds to, whole batches at a time.

    lake_tables  which tables there are, and their columns
    clocks       how much each actor had done, also if its peers are gone
    changes      which attributes changed, for any order in which snapshots come
    lives        how far the actors of a life are, from the lake's own tables
    origins      which copies are of another run
    staging      a batch in files of its own, one Parquet file for each table
    destination  the questions and orders to a lake: how far is each table, and take this file
    parquet, delta, iceberg  three kinds of destination
    places       the folder of a lake: its owner and its writer
    writing      from snapshots to committed batches
    history      from when to when an attribute had a value

Nothing in here needs Spark; `pyspark_rayshot.running` drives it.
"""
