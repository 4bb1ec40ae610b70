"""A client of Spark Connect and a server for it: reads, makes tables and streams, and prints what it found as JSON.

Arguments: the storage, and a folder for the checkpoint.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from pyspark_rayshot import tables


def main(storage: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    print(json.dumps({"kind": type(spark).__module__, **found(spark, storage, checkpoint)}))
    spark.stop()


def found(spark: Any, storage: str, checkpoint: str) -> dict[str, Any]:
    read = spark.read.format("rayshot").options(view="channels", snapshot="latest").load(storage)
    tables(spark, storage)
    function = spark.sql("select value::long from history('alice', 'balance')").collect()
    variant = spark.sql("select sum(args:[0]::long) from messages where method = 'deposit'").first()
    stream = spark.readStream.format("rayshot").load(storage).writeStream.format("memory").queryName("came")
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return {
        "read": read.filter("in_flight > 0").count(),
        "function": [row[0] for row in function],
        "variant": variant[0],
        "stream": [row.snapshot for row in spark.sql("select snapshot from came order by log_index").collect()],
    }


if __name__ == "__main__":
    main(*sys.argv[1:3])
