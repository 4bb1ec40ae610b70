"""Which task reads what: selected snapshots, cut and packed into shares of about equal work.

Planning reads the commit log, and for all views but `snapshots` the manifests; no chunk. A share names what it reads by
address and COMMIT record, so that a task opens only that and never lists the log again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any

from rayshot.analysis.query import LATEST, Query
from rayshot.errors import ActorNotFound, NotFound
from rayshot.format.encryption_key import EncryptionKey
from rayshot.store.catalog import SystemView
from rayshot.store.locate import open_store
from rayshot.store.records import CommitRecord
from rayshot.store.several import AT_ONCE, several_at_once
from rayshot.store.snapshot import Snapshot

SHARE_BYTES = 16 << 20
"""What one task reads, roughly: a share is closed when it has as much."""

SNAPSHOT_COST_BYTES = 1 << 20
"""What opening a snapshot costs, in bytes read: at most SHARE_BYTES / SNAPSHOT_COST_BYTES go into one share."""

MANIFEST_COST_BYTES = SNAPSHOT_COST_BYTES // 4
"""What it costs where nothing but the manifest is read, and that for one row."""

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

    def open_system(self) -> SystemView:
        """The system, in whatever process this is."""
        return SystemView(open_store(self.url), self.system)


@dataclass(frozen=True, slots=True)
class _Weighed:
    piece: Piece
    bytes: int


def plan(query: Query, system: SystemView, keys: Sequence[EncryptionKey] | None = None) -> list[Share]:
    """Divide what `query` selects into at least one share; empty only where the system has no snapshot.

    `keys` open encrypted snapshots; None means those of the environment.

    Raises NotFound for a snapshot, actor or channel that is nowhere in what was selected; the message lists what is.
    """
    if query.snapshot is None:
        snapshots = system.snapshots()
    else:
        snapshots = [system.snapshot(None if query.snapshot == LATEST else query.snapshot)]
    records = [snapshot.record for snapshot in snapshots]
    pieces = _cut(system, records, query, keys)
    return [Share(system.url, system.name, packed) for packed in _pack(pieces)] or [Share(system.url, system.name, ())]


def read_entries(
    query: Query,
    system: SystemView,
    pieces: Iterable[Piece],
    keys: Sequence[EncryptionKey] | None = None,
    *,
    manifests: bool = True,
) -> Iterator[tuple[Snapshot, Any]]:
    """The selected entries of pieces, each with its snapshot; `keys` as for `plan`. Raises what reading them raises.

    Without `manifests` those of a view without entries are read only when somebody looks into them.
    """
    pieces = list(pieces)
    ahead = manifests or query.view.entries is not None
    opened = _opened(system, [piece.record for piece in pieces], keys, manifests=ahead)
    for piece, snapshot in zip(pieces, opened, strict=True):
        for entry in _entries(snapshot, piece, query):
            yield snapshot, entry


def _opened(
    system: SystemView, records: Sequence[CommitRecord], keys: Sequence[EncryptionKey] | None, *, manifests: bool
) -> Iterator[Snapshot]:
    """The snapshots of records, AT_ONCE of them opened and perhaps their manifests read; the last so many are kept."""
    for start in range(0, len(records), AT_ONCE):
        some = records[start : start + AT_ONCE]
        snapshots = {record: system.open(record, keys) for record in some}
        if manifests:
            with several_at_once(len(snapshots), "rayshot-manifest") as map_:
                list(map_(attrgetter("manifest"), snapshots.values()))
        yield from (snapshots[record] for record in some)


def read_items(
    query: Query,
    system: SystemView,
    pieces: Iterable[Piece],
    keys: Sequence[EncryptionKey] | None = None,
    *,
    manifests: bool = True,
) -> Iterator[tuple[Snapshot, Any]]:
    """The rows of pieces, each with its snapshot; as `read_entries`."""
    for snapshot, entry in read_entries(query, system, pieces, keys, manifests=manifests):
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
        yield from (_Weighed(Piece(record), MANIFEST_COST_BYTES) for record in records)
        return
    found = False
    seen: dict[str, None] = {}
    for record, snapshot in zip(records, _opened(system, records, keys, manifests=True), strict=True):
        entries = query.view.entries(snapshot)
        for weighed in _cut_one(record, entries, query):
            found = True
            yield weighed
        seen.update(dict.fromkeys(_name(entry) for entry in islice(entries, NAMES_SHOWN_MAX)))
    if query.entry and not found:
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
