"""Large snapshots: Spark's executors read their rows and write them aside, a file for each task.

Such a file counts with the batch that it belongs to, which the driver closes and commits: what an executor wrote before
it died, or before another one failed, is thrown away with the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from pyspark_rayshot.lake.changes import Head, in_turn
from pyspark_rayshot.lake.lake_tables import TABLES, Change
from pyspark_rayshot.lake.lives import Turn, observe
from pyspark_rayshot.lake.row_file import RowFile
from rayshot.analysis.batches import read_batches, to_batches
from rayshot.analysis.planning import Share
from rayshot.analysis.query import parse_query
from rayshot.errors import RayshotError
from rayshot.format.encryption_key import EncryptionKey
from rayshot.store.snapshot import Snapshot


class Workers(Protocol):
    """Processes of this machine that work beside the driver."""

    count: int

    def run(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """What `task` makes of each item, in their order; a task may run twice where its process died."""


@dataclass(frozen=True)
class Part(ABC):
    """Rows for one table that one task reads and writes. Spark may write it to a disk on its way: it holds no key."""

    @property
    @abstractmethod
    def table(self) -> str:
        """The table that they are for."""

    @abstractmethod
    def batches(self, keys: Sequence[EncryptionKey]) -> Iterator[pa.RecordBatch]:
        """The rows. Raises what reading snapshots raises."""


@dataclass(frozen=True)
class ViewPart(Part):
    """Shares of a view."""

    view: str
    shares: Sequence[Share]

    @property
    def table(self) -> str:
        """See Part."""
        return self.view

    def batches(self, keys: Sequence[EncryptionKey]) -> Iterator[pa.RecordBatch]:
        """See Part."""
        query = parse_query({"view": self.view})
        for share in self.shares:
            yield from read_batches(query, share.open_system(), share.pieces, keys)


@dataclass(frozen=True)
class ChangesPart(Part):
    """What changed of some actors since they were seen before, and where they are then: `heads` by actor."""

    share: Share
    turns: Sequence[Turn]
    heads: dict[str, Head] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """See Part."""
        return "state_changes"

    def batches(self, keys: Sequence[EncryptionKey]) -> Iterator[pa.RecordBatch]:
        """See Part."""
        return to_batches(self._changes(keys), TABLES[self.table].columns, TABLES[self.table].schema)

    def _changes(self, keys: Sequence[EncryptionKey]) -> Iterator[tuple[Snapshot, Change]]:
        record = self.share.pieces[0].record
        assert record is not None, "a share of a snapshot"
        snapshot = self.share.open_system().open(record, keys)
        for entry, clock, head, restored in self.turns:
            self.heads[entry.name], changes = in_turn(head, observe(snapshot, entry, clock), restored)
            for change in changes:
                yield snapshot, change


class Task(NamedTuple):
    """A part and where its rows go."""

    file: Path
    part: Part


class Done(NamedTuple):
    """How many rows a task wrote, and the heads of a ChangesPart."""

    rows: int
    heads: Mapping[str, Head]


def write_part(keys: Sequence[EncryptionKey], task: Task) -> Done | RayshotError | OSError:
    """Write a part to its file, as a task of an executor; `keys` open encrypted snapshots.

    An error is returned: raised, Spark would try again, and then hand on nothing but its text.
    """
    part = task.part
    try:
        file = RowFile(task.file, TABLES[part.table].schema)
        try:
            file.add(part.batches(keys))
        except BaseException:
            file.abandon()
            raise
        return Done(file.close(), part.heads if isinstance(part, ChangesPart) else {})
    except (RayshotError, OSError) as error:
        return error
