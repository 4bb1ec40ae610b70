"""Large snapshots: Spark's executors read their rows and write them to files in `.staging`, one for each task.

Such a file counts with its batch, which the driver closes and commits. If an executor dies or fails, its file is
thrown away with the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from pyspark_rayshot.lake.changes import Head, in_turn
from pyspark_rayshot.lake.lake_tables import TABLES, Change
from pyspark_rayshot.lake.lives import Turn, observe
from pyspark_rayshot.lake.row_file import RowFile
from rayshot.analysis.batches import read_batches, to_batches
from rayshot.analysis.planning import TableShare
from rayshot.analysis.query import parse_query
from rayshot.errors import RayshotError
from rayshot.keys.encryption import EncryptionKey
from rayshot.snapshots.snapshot import Snapshot


class Workers(Protocol):
    """Processes of this machine that work for the driver."""

    count: int

    def run(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """The results of `task` for the items, in their order. If its process died, a task may run twice."""


@dataclass(frozen=True)
class Part(ABC):
    """Rows for one table that one task reads and writes. Spark may write this object to a disk, so it holds no key."""

    @property
    @abstractmethod
    def table(self) -> str:
        """The table of the rows."""

    @abstractmethod
    def batches(self, keys: Sequence[EncryptionKey]) -> Iterator[pa.RecordBatch]:
        """The rows. Raises what reading snapshots raises."""


@dataclass(frozen=True)
class ViewPart(Part):
    """Shares of a view."""

    view: str
    shares: Sequence[TableShare]

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
    """The changes of some actors since they were last seen, and how far they are then: `heads` by actor."""

    share: TableShare
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

    It returns an error, and does not raise it: Spark would try again, and then pass on only the text.
    """
    part = task.part
    try:
        file = RowFile(task.file, TABLES[part.table].schema)
        with ExitStack() as failed:
            failed.callback(file.abandon)
            file.add(part.batches(keys))
            failed.pop_all()
        return Done(file.close(), part.heads if isinstance(part, ChangesPart) else {})
    except (RayshotError, OSError) as error:
        return error
