"""A lake of snapshots: tables in a folder that a pipeline adds to, whole batches at a time.

    lake_tables  which tables there are, and their columns
    clocks       how much each actor had done, also where its peers are gone
    changes      which attributes changed, whatever the order in which snapshots come
    lives        where the actors of a life are, out of the lake's own tables
    origins      which copies are of another run
    staging      a batch, written aside as one Parquet file for each table
    destination  what a lake is asked: how far is each table, and take this file
    parquet, delta, iceberg  three of them
    places       the folder of a lake: whose it is, who writes into it
    writing      from snapshots to committed batches
    history      from when to when an attribute had a value

Nothing in here needs Spark; `pyspark_rayshot.running` drives it.
"""
