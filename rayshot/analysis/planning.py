"""Which task reads what: selected snapshots, cut and packed into shares of about equal work.

Planning reads the commit log, and for all views but `snapshots` the manifests; no chunk. A share names what it reads by
address and COMMIT record, so that a task opens only that and never lists the log again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from rayshot.analysis.query import LATEST, Query
from rayshot.errors import ActorNotFound, NotFound
from rayshot.format.encryption_key import EncryptionKey
from rayshot.store.catalog import SystemView
from rayshot.store.locate import open_store
from rayshot.store.records import CommitRecord
from rayshot.store.snapshot import Snapshot

SHARE_BYTES = 16 << 20
"""What one task reads, roughly: a share is closed when it has as much."""

SNAPSHOT_COST_BYTES = 1 << 20
"""What opening a snapshot costs, in bytes read: at most SHARE_BYTES / SNAPSHOT_COST_BYTES go into one share."""

ENTRY_COST_BYTES = 64
NAMES_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """The entries `first` .. `stop - 1` of a snapshot's manifest; `stop` is None where the view has no entries."""

    record: CommitRecord
    first: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What one task reads."""

    url: str
    system: str
    pieces: tuple[Piece, ...]
    end: int | None = None
    """How many records of the log it is about, as for `SystemView.as_of`."""

    def open_system(self) -> SystemView:
        """The system, in whatever process this is."""
        return SystemView(open_store(self.url), self.system).as_of(self.end)


@dataclass(frozen=True, slots=True)
class _Weighed:
    piece: Piece
    bytes: int


def plan(query: Query, system: SystemView, keys: Sequence[EncryptionKey] | None = None) -> list[Share]:
    """Divide what `query` selects into at least one share; empty only where the system has no snapshot.

    `system` may be as of a moment, and so are all shares then. `keys` open encrypted snapshots; None means those of the
    environment.

    Raises NotFound for a snapshot, actor or channel that is nowhere in what was selected; the message lists what is.
    """
    if query.snapshot is None:
        snapshots = system.snapshots()
    else:
        snapshots = [system.snapshot(None if query.snapshot == LATEST else query.snapshot)]
    records = [snapshot.record for snapshot in snapshots]
    wanted = [record for record in records if query.selects_record(record)]
    shares = list(_pack(_cut(system, wanted, query, keys)))
    if not shares and query.entry and query.conditions:
        # Raises where an option names what is nowhere; conditions that nothing fits give an empty table.
        next(_cut(system, records, replace(query, conditions=()), keys), None)
    return [Share(system.url, system.name, pieces, system.end) for pieces in shares or [()]]


def read_items(
    query: Query, system: SystemView, pieces: Iterable[Piece], keys: Sequence[EncryptionKey] | None = None
) -> Iterator[tuple[Snapshot, Any]]:
    """The rows of pieces, each with its snapshot; `keys` as for `plan`. Raises what reading snapshots raises."""
    for piece in pieces:
        snapshot = system.open(piece.record, keys)
        for entry in _entries(snapshot, piece, query):
            for row in query.view.rows(snapshot, entry):
                yield snapshot, row


def _entries(snapshot: Snapshot, piece: Piece, query: Query) -> Iterator[Any]:
    if query.view.entries is None:
        return iter((None,))
    return filter(query.selects, islice(query.view.entries(snapshot), piece.first, piece.stop))


def _cut(
    system: SystemView,
    records: Sequence[CommitRecord],
    query: Query,
    keys: Sequence[EncryptionKey] | None,
) -> Iterator[_Weighed]:
    """Cut the selected entries of all snapshots into pieces of about SHARE_BYTES."""
    if query.view.entries is None:
        yield from (_Weighed(Piece(record), SNAPSHOT_COST_BYTES) for record in records)
        return
    found = False
    seen: dict[str, None] = {}
    for record in records:
        entries = query.view.entries(system.open(record, keys))  # opened anew: it keeps its manifest
        for weighed in _cut_one(record, entries, query):
            found = True
            yield weighed
        seen.update(dict.fromkeys(_name(entry) for entry in islice(entries, NAMES_SHOWN_MAX)))
    if query.entry and not found and not query.conditions:
        raise _not_found(system.name, records, query, list(seen))


def _cut_one(record: CommitRecord, entries: Sequence[Any], query: Query) -> Iterator[_Weighed]:
    first, size, any_selected = 0, SNAPSHOT_COST_BYTES, False
    for index, entry in enumerate(entries):
        if not query.selects(entry):
            continue
        any_selected = True
        size += ENTRY_COST_BYTES + query.view.weigh(entry)
        if size >= SHARE_BYTES:
            yield _Weighed(Piece(record, first, index + 1), size)
            first, size, any_selected = index + 1, SNAPSHOT_COST_BYTES, False
    if any_selected:
        yield _Weighed(Piece(record, first, len(entries)), size)


def _pack(pieces: Iterator[_Weighed]) -> Iterator[tuple[Piece, ...]]:
    """Put small pieces together, so that a thousand small snapshots are not a thousand tasks."""
    packed: list[Piece] = []
    size = 0
    for weighed in pieces:
        if packed and size + weighed.bytes > SHARE_BYTES:
            yield tuple(packed)
            packed, size = [], 0
        packed.append(weighed.piece)
        size += weighed.bytes
    if packed:
        yield tuple(packed)


def _name(entry: Any) -> str:
    """An actor by its name, a channel as sender -> receiver."""
    return entry.name if hasattr(entry, "name") else f"{entry.sender} -> {entry.receiver}"


def _not_found(system: str, records: Sequence[CommitRecord], query: Query, seen: list[str]) -> NotFound:
    wanted = ", ".join(f"{option} {name!r}" for option, name in query.entry)
    where = f"the snapshot {records[0].snapshot}" if len(records) == 1 else f"{len(records)} snapshots"
    shown = ", ".join(seen[:NAMES_SHOWN_MAX]) or "none"
    more = " ..." if len(seen) >= NAMES_SHOWN_MAX else ""
    kind = ActorNotFound if query.view.options == ("actor",) else NotFound
    return kind(
        f"the options ask for {wanted}, which is not in {where} of {system!r}; there is {shown}{more}",
        **dict(query.entry),
        exists=seen,
    )
