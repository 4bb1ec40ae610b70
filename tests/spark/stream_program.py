"""A driver of its own that streams one snapshot a batch into a file each, and dies as it is told.

Arguments: the storage, the checkpoint, the folder for files, and the batch that was planned and is never read.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark_rayshot import local_session


def main(storage: str, checkpoint: str, folder: str, last: int) -> None:
    spark = local_session("stream that is killed")
    jvm = spark.sparkContext._gateway.proc.pid

    def write(frame: Any, batch: int) -> None:
        if batch == last:
            assert frame.rdd.getNumPartitions()  # planned, and not read
            os.kill(jvm, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        write_rows(frame, batch, Path(folder))

    start(spark, storage, checkpoint, write).awaitTermination()


def write_rows(frame: Any, batch: int, folder: Path) -> None:
    lines = [f"{row.snapshot} {row.sender} {row.number}" for row in frame.collect()]
    (folder / str(batch)).write_text("\n".join(sorted(lines)))


def start(spark: Any, storage: str, checkpoint: str, write: Any, **options: str) -> Any:
    frame = spark.readStream.format("rayshot").options(view="messages", maxSnapshotsPerTrigger="1", **options)
    writer = frame.load(storage).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
