"""The pipeline: a stream of snapshots' log indexes. It writes each micro-batch into a lake.

Only the lake says what has been written. Spark's checkpoint is a folder that is deleted at the end of the run:
a new run begins after the newest snapshot of the lake. So no checkpoint can be lost, or be ahead of the lake.
"""

import math
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark_rayshot.lake.places import check_place
from pyspark_rayshot.options import EARLIEST, ReadOptions, parse_options
from rayshot.analysis.query import option_texts
from rayshot.errors import ConfigError, NoAnswer

if TYPE_CHECKING:
    from pyspark_rayshot.lake.writing import LakeWriter, Written

INTERVAL_S = 5.0
INTERVAL_MAX_S = 1_000_000
SNAPSHOTS_MAX = 100
SNAPSHOTS_MOST = 2**31 - 1
"""Spark counts them in 32 bits."""
POLL_S = 0.2
_STREAMED = "snapshot string, log_index bigint"
"""The columns of the stream: they are in the log, so the stream reads no manifest."""


class Progress(NamedTuple):
    """The result of one micro-batch."""

    snapshots: int
    gaps: int
    rows: int
    newest: str | None


def pipeline(
    spark: Any,
    source: str,
    destination: str | Path,
    *,
    format: str = "parquet",  # noqa: A002 - Spark's own word
    once: bool = False,
    interval_s: float = INTERVAL_S,
    snapshots_max: int = SNAPSHOTS_MAX,
    progress: Callable[[Progress], None] = lambda _: None,
    stop: threading.Event | None = None,
    **options: Any,
) -> Progress:
    """Keep a lake up to date with the snapshots of a system: see `rayshot help pipeline`.

    Args:
        spark: a session of this process, as `local_session` gives.
        source: the storage.
        destination: the folder of a lake of this system and storage, or one that is new or empty.
        format: the format of its tables: parquet, delta or iceberg.
        once: write what the storage holds now, and end.
        interval_s: seconds from the start of one micro-batch to that of the next, from 0 to INTERVAL_MAX_S.
        snapshots_max: the most snapshots in a micro-batch, from 1.
        progress: called with each micro-batch that wrote something.
        stop: ends the pipeline, as soon as no batch is being written.
        options: `system` and `encryption_key_file`, as for `spark.read`.

    Returns the sum of all. Raises as `check`, ForeignLake, LakeInUse, StoreFull, StoreUnavailable, Damaged, and what
    reading snapshots raises; the lake then keeps what it has.
    """
    read = check(
        source, destination, format=format, interval_s=interval_s, snapshots_max=snapshots_max, options=options
    )
    from pyspark_rayshot.lake.writing import open_lake  # noqa: PLC0415 - needs pyarrow, which may be missing

    system = read.open_system().as_of(None)
    keys = read.encryption_keys()
    with (
        open_lake(system, Path(destination), format, keys, Executors(spark)) as writer,
        tempfile.TemporaryDirectory(prefix="rayshot-pipeline-") as checkpoint,
    ):
        sink = _Sink(writer, progress)
        given = {"path": str(source), "system": system.name, "maxSnapshotsPerTrigger": str(snapshots_max)}
        begin = {"startingSnapshot": writer.newest or EARLIEST, "failOnDataLoss": "false"}
        frame = spark.readStream.format("rayshot").schema(_STREAMED).options(**given, **begin).load()
        writing = frame.writeStream.foreachBatch(sink.write).option("checkpointLocation", checkpoint)
        trigger = {"availableNow": True} if once else {"processingTime": f"{round(interval_s * 1000)} milliseconds"}
        sink.run(writing.trigger(**trigger), stop or threading.Event())
        if once and not sink.stopped:
            sink.finish()
        return sink.total


class Executors:
    """The workers of a session, see `pyspark_rayshot.lake.parts.Workers`."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext
        self.count: int = self._context.defaultParallelism

    def run(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """See Workers."""
        done: list[Any] = self._context.parallelize(items, len(items)).map(task).collect()
        return done


class _Sink:
    """The function that the stream calls with each micro-batch, and the end of the stream."""

    def __init__(self, writer: "LakeWriter", progress: Callable[[Progress], None]) -> None:
        self._writer = writer
        self._progress = progress
        self._busy = threading.Lock()
        self._error: BaseException | None = None
        self.stopped = False
        self.total = Progress(0, 0, 0, writer.newest)

    def write(self, frame: Any, _: int) -> None:
        """Write one micro-batch, unless the pipeline has been stopped."""
        with self._busy:
            if self.stopped:
                return
            try:
                indexes = [row.log_index for row in frame.collect()]
                self._note(self._writer.write(max(indexes, default=-1)))
            except BaseException as error:  # Spark would turn it into a text
                self._error = error
                raise

    def finish(self) -> None:
        """Write the gaps after the last snapshot, which may be in no micro-batch."""
        self._note(self._writer.write(-1))

    def run(self, writing: Any, stop: threading.Event) -> None:
        """Run the stream to its end, or until `stop`; raises what stopped it."""
        query = writing.start()
        try:
            while not query.awaitTermination(POLL_S):
                if stop.is_set():
                    break
        except Exception as error:
            if self._error is not None and not _is_of_spark(self._error):
                raise self._error from error
            with self._busy, suppress(*_of_spark()):
                self.finish()  # raises the error that Spark, if it could not read the storage, turned into a text
            said = str(error).strip().partition("\n")[0]
            raise NoAnswer(f"Spark failed, or is gone: {said}; the lake is undamaged: start again") from error
        finally:
            with self._busy, suppress(*_of_spark()):  # between two batches
                self.stopped = stop.is_set()
                query.stop()

    def _note(self, written: "Written") -> None:
        if not any(written):
            return
        one = Progress(*written, self._writer.newest)
        total = self.total
        self.total = Progress(total.snapshots + one.snapshots, total.gaps + one.gaps, total.rows + one.rows, one.newest)
        self._progress(one)


def _of_spark() -> tuple[type[Exception], ...]:
    """The errors of Spark, and of a Spark that is gone."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - options are checked without Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    return PySparkException, Py4JError, ConnectionError


def _is_of_spark(error: BaseException) -> bool:
    return isinstance(error, _of_spark())


def _checked(options: Mapping[str, Any]) -> dict[str, str]:
    texts = option_texts(options)
    for name in texts.keys() - {"system", "encryptionkeyfile"}:
        raise ConfigError(f"a pipeline has no option {name!r}; it has system and encryption_key_file", option=name)
    return texts


def check(
    source: str,
    destination: str | Path,
    *,
    format: str,  # noqa: A002 - Spark's own word
    interval_s: float,
    snapshots_max: int,
    options: Mapping[str, Any],
) -> ReadOptions:
    """Check the arguments of `pipeline`, without Spark. Returns how to read the snapshots.

    Raises ConfigError, which shows option, expectation and value, and what `rayshot.open` and
    `system` raise for a storage that cannot be read.
    """
    if not _is_number(interval_s) or not 0 <= interval_s <= INTERVAL_MAX_S:
        raise ConfigError(
            f"interval_s must be a number of seconds from 0 to {INTERVAL_MAX_S:,}; it is {interval_s!r}",
            option="interval_s",
        )
    if type(snapshots_max) is not int or not 1 <= snapshots_max <= SNAPSHOTS_MOST:
        raise ConfigError(
            f"snapshots_max must be a whole number from 1 to {SNAPSHOTS_MOST:,}; it is {snapshots_max!r}",
            option="snapshots_max",
        )
    if "://" in str(destination):
        raise ConfigError(
            f"the destination must be a folder of this machine, which may be a mounted one; it is {str(destination)!r}",
            option="destination",
            value=str(destination),
        )
    read = parse_options({"path": str(source), **_checked(options)})
    check_place(Path(destination), format, read.storage)
    read.encryption_keys()
    return read.pinned()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
