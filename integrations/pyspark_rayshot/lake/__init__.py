"""A lake of snapshots: tables in a folder that a pipeline adds to, whole batches at a time.

    lake_tables  which tables there are, and their columns
    clocks       how much each actor had done, also where its peers are gone
    changes      which attributes changed, whatever the order in which snapshots come
    reading      the rows of one snapshot for each table
    staging      a batch, written aside as one Parquet file for each table
    destination  what a lake is asked: how far is each table, and take this file
    parquet, delta, iceberg  three of them
    writing      from snapshots to committed batches
    history      from when to when an attribute had a value

Nothing in here needs Spark; `pyspark_rayshot.running` drives it.
"""
