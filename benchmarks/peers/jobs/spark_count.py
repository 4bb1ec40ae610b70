"""Spark Structured Streaming, SQL: `rate-micro-batch`, which replays by offset, by key; each micro-batch commits.

A stream that goes on for ever is stopped when it has counted enough, and checked against what it had committed by then.
"""

import time
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.peers.measuring import Job, Steady, job_of_command_line, tell
from benchmarks.peers.records import BATCH, SQL_KEY, SQL_VALUE, check

ROWS = 64 * BATCH
"""A micro-batch: about one second's worth."""
POLL_S = 0.05


def main() -> None:
    """Run the job to its end."""
    job = job_of_command_line()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(job.folder))
        .config("spark.sql.warehouse.dir", str(job.folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 2)
        .option("startTimestamp", 1)
        .load()
        .selectExpr("value AS n")
    )
    counted = (
        numbers.selectExpr(f"{SQL_KEY.format(keys=job.keys).replace('/', 'DIV')} AS k", f"{SQL_VALUE} AS v")
        .groupBy("k")
        .agg({"*": "count", "v": "sum"})
    )
    checkpoint = job.folder / "checkpoint"
    before = _committed(job)
    query = (
        counted.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(checkpoint)).start()
    )
    steady = Steady(job, lambda: _committed(job))
    if job.restart:
        steady.resumed(before * ROWS)
    while (batches := _committed(job)) * ROWS < job.records and query.isActive:
        steady.see(batches * ROWS)
        time.sleep(POLL_S)
    steady.finish(batches * ROWS)
    query.stop()
    last = _committed(job) - 1
    state = spark.read.format("statestore").option("batchId", last).load(str(checkpoint)).collect()
    check({row.key[0]: _totals(row.value) for row in state}, (last + 1) * ROWS, job.keys)
    tell("exact")
    spark.stop()


def _committed(job: Job) -> int:
    """How many micro-batches have been committed."""
    commits = job.folder / "checkpoint" / "commits"
    return 1 + max((int(file.name) for file in commits.glob("*") if file.name.isdigit()), default=-1)


def _totals(value: Any) -> tuple[int, int]:
    """Count and sum out of the buffers of the aggregates."""
    found = value.asDict()
    count, total = (found[name] for name in sorted(found, key=lambda name: not name.startswith("count")))
    return count, total


if __name__ == "__main__":
    main()
