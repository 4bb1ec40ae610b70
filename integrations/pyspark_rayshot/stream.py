"""A stream over the commit log: each micro-batch is the snapshots of a range of it.

Theory of operation. An offset is {"log": n, "began": b, ...}: all records below n are done, and the log had b records
when the stream began; the rest identifies log and view, see `checkpoint`. Spark asks for the first offset again when
it replays batch 0, so the options alone determine it: {"log": 0}, {"snapshot": id}, or {"log": -1} for later
snapshots, whose beginning the end of batch 0 fixes.

A batch is what its range holds when it is planned. A snapshot of the range that was deleted since the stream began is
lost: the batch fails, or the loss is logged if `failOnDataLoss` is false. If a snapshot is deleted while its batch is
read, the batch always fails, as other tasks may have some of its rows; Spark then plans the batch anew.
"""

import logging
import operator
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from pyspark_rayshot import checkpoint
from pyspark_rayshot.loss import lost
from pyspark_rayshot.options import EARLIEST, ReadOptions
from pyspark_rayshot.reading import RowReader, SnapshotPartition
from rayshot.analysis.planning import plan
from rayshot.analysis.query import Condition, Query
from rayshot.analysis.selection import LATEST
from rayshot.errors import SnapshotDeleted
from rayshot.log.records import CommitRecord, Record
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.leases import hold

Offset = Mapping[str, Any]
_FROM_NOW_ON = -1
_IDS_SHOWN_MAX = 10
_log = logging.getLogger(__name__)


class SnapshotStream(RowReader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Says which snapshots a micro-batch has, and reads them."""

    def __init__(self, options: ReadOptions, nullable: Mapping[str, bool]) -> None:
        super().__init__(replace(options, log_end=None, query=_unnamed(options.query)), nullable)
        self._system: SystemView | None = None
        """Opened when offsets are asked for, so that its log reads only what is new; never travels to executors."""
        self._began: int | None = None
        self._target: int | None = None
        """The end of the log that `Trigger.AvailableNow` reads up to."""
        self._leases = ExitStack()
        """The leases of the snapshots in the micro-batch that was planned last."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where batch 0 begins; the same at every call."""
        match self._options.stream.start:
            case text if text == EARLIEST:
                return {"log": 0}
            case text if text == LATEST:
                return {"log": _FROM_NOW_ON}
            case snapshot:
                return {"snapshot": str(snapshot)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How many snapshots a micro-batch may have."""
        most = self._options.stream.snapshots_max
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on behave as if no snapshot came any more."""
        self._target = self._now().end

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """What can be read, for the query's progress."""
        return {"log": self._now().end}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Where the micro-batch after `start` ends; `start` itself if nothing has come."""
        now = self._now()
        records = self._checked(now, start)
        end = _end(now) if self._target is None else min(_end(now), self._target)
        first = _first(start, end, now)
        self._began = self._began or _end(now)
        began = start.get("began", self._began)
        waiting = sorted(at for record in now.history().retained.values() if first <= (at := record.position) < end)
        if isinstance(limit, ReadMaxFiles) and len(waiting) > limit.max_files:
            end = waiting[limit.max_files]
        if "began" in start and not waiting and not lost(now, first, end, began):
            return start
        end = max(first, end)
        return {"log": end, "began": began, **checkpoint.stamp(now.name, self._options.query.view_name, records, end)}

    def partitions(self, start: Offset, end: Offset) -> list[SnapshotPartition]:
        """Which task reads what of the snapshots from `start` to below `end`.

        Raises SnapshotDeleted if one of them was deleted since the stream began, unless `failOnDataLoss` is false.
        """
        now = self._now()
        self._checked(now, start, end)
        first, stop = _first(start, end["log"], now), end["log"]
        missing = lost(now, first, stop, end["began"])
        if missing:
            self._tell(missing)
        self._hold(now, first, stop)
        query = self._options.query.narrowed(
            (Condition("log_index", operator.ge, first), Condition("log_index", operator.lt, stop))
        )
        return [SnapshotPartition(share) for share in plan(query, now, self._keys)]

    def commit(self, end: Offset) -> None:  # noqa: ARG002 - there is one batch at a time
        """Spark has done a micro-batch."""
        self._leases.close()

    def _hold(self, now: SystemView, first: int, stop: int) -> None:
        """Take leases of the snapshots of that range, if the options say so. Raises SnapshotDeleted, StoreError."""
        self._leases.close()
        if self._options.stream.lease:
            for record in now.history().retained.values():
                if first <= record.position < stop:
                    self._leases.enter_context(hold(now.log, record.snapshot))

    def _now(self) -> SystemView:
        """The system as it is now, for several questions about one moment."""
        if self._system is None:
            self._system = self._options.open_system()
        return self._system.now()

    def _checked(self, now: SystemView, *offsets: Offset) -> tuple[Record, ...]:
        """The records of the log, after a check that the offsets belong to this log."""
        records = now.records()
        for offset in offsets:
            checkpoint.check(offset, now.name, self._options.query.view_name, records)
        return records

    def _tell(self, missing: list[CommitRecord]) -> None:
        ids = [str(record.snapshot) for record in missing]
        shown = ", ".join(ids[:_IDS_SHOWN_MAX]) + (" ..." if len(ids) > _IDS_SHOWN_MAX else "")
        if self._options.stream.fail_on_data_loss:
            raise SnapshotDeleted(
                f"the stream has not read {shown} of {self._options.system!r}, and it was deleted: keep snapshots "
                "longer than the stream may stand still, or read on without it (failOnDataLoss=false)",
                snapshots=ids,
            )
        _log.warning("the stream goes on without %s of %r, which was deleted", shown, self._options.system)


def _unnamed(query: Query) -> Query:
    """The query; an actor or a channel that it names may come later."""
    named = (Condition(option, operator.eq, name) for option, name in query.entry)
    return replace(query, entry=()).narrowed(named)


def _end(system: SystemView) -> int:
    assert system.end is not None, "a system as of a moment"
    return system.end


def _first(start: Offset, end: int, system: SystemView) -> int:
    """The log index at which a batch from `start` to `end` begins. Raises SnapshotNotFound for an unknown id."""
    if "snapshot" in start:
        return system.committed_at(SnapshotId.parse(start["snapshot"]))
    first: int = start["log"]
    return end if first == _FROM_NOW_ON else first
