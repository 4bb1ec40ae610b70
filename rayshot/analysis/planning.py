"""Which task reads what: selected snapshots, cut and packed into shares of about equal work.

Planning reads the commit log and, except for the view `snapshots`, the manifests, but no chunk. A share names what it
reads by address and COMMIT record, so a task opens only this and never lists the log again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any

from rayshot.analysis.pairs import Pair, pair_up, require_step
from rayshot.analysis.query import Query
from rayshot.errors import ActorNotFound, NotFound
from rayshot.keys.encryption import EncryptionKey
from rayshot.log.records import CommitRecord
from rayshot.places.calls import AT_ONCE, several_at_once
from rayshot.places.kinds import open_store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot

SHARE_BYTES = 16 << 20
"""About how many bytes one task reads: a share is full when it has this many."""

SNAPSHOT_COST_BYTES = 1 << 20
"""The cost of opening a snapshot, in bytes read: at most SHARE_BYTES / SNAPSHOT_COST_BYTES go into one share."""

MANIFEST_COST_BYTES = SNAPSHOT_COST_BYTES // 4
"""The cost if only the manifest is read, for one row."""

ENTRY_COST_BYTES = 64
NAMES_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """The entries `first` .. `stop - 1` of a snapshot's manifest; `stop` is None if the view has no entries.

    `before` is the snapshot that it is compared with, for a view of pairs; `restored_from` is the snapshot that its
    life began with. A piece without a `record` is the log up to `stop`, of another `system` if it names one.
    """

    record: CommitRecord | None
    first: int = 0
    stop: int | None = None
    before: CommitRecord | None = None
    restored_from: SnapshotId | None = None
    system: str | None = None


@dataclass(frozen=True, slots=True)
class TableShare:
    """The part of a table that one task reads."""

    url: str
    system: str
    pieces: tuple[Piece, ...]
    end: int | None = None
    """How many records of the log this share sees, as for `SystemView.as_of`."""

    def open_system(self) -> SystemView:
        """The system, opened in the process of the caller."""
        return SystemView(open_store(self.url), self.system).as_of(self.end)


@dataclass(frozen=True, slots=True)
class _Weighed:
    piece: Piece
    bytes: int


def plan(
    query: Query,
    system: SystemView,
    keys: Sequence[EncryptionKey] | None = None,
    ends: Mapping[str, int] | None = None,
) -> list[TableShare]:
    """Divide what `query` selects into at least one share; it is empty only if the system has no snapshot.

    `system` may be as of a moment; then all shares are too. `keys` open encrypted snapshots; None means those of the
    environment. `ends` gives the lengths of the logs, by system, for a table of a whole storage; None: their lengths
    now.

    Raises NotFound for a snapshot, actor or channel that is nowhere in the selection; the message lists what exists.
    """
    whole = _whole(query, system, keys, ends)
    wanted = [piece for piece in whole if piece.record is None or query.selects_record(piece.record)]
    shares = divide(query, system, wanted, keys)
    if not shares and query.entry and query.conditions:
        # This raises if an option names something that is nowhere; conditions that nothing fits give an empty table.
        next(_cut(system, whole, replace(query, conditions=()), keys), None)
    return shares or [TableShare(system.url, system.name, (), system.end)]


def divide(
    query: Query, system: SystemView, pieces: Sequence[Piece], keys: Sequence[EncryptionKey] | None = None
) -> list[TableShare]:
    """Cut what `query` selects of whole pieces into shares of about SHARE_BYTES; none if it selects nothing.

    Raises as `plan`.
    """
    return [TableShare(system.url, system.name, some, system.end) for some in _pack(_cut(system, pieces, query, keys))]


def read_entries(
    query: Query,
    system: SystemView,
    pieces: Iterable[Piece],
    keys: Sequence[EncryptionKey] | None = None,
    *,
    manifests: bool = True,
) -> Iterator[tuple[Any, Any]]:
    """The selected entries of pieces, each with its subject; `keys` as for `plan`. Raises what reading them raises.

    Without `manifests`, a view without entries reads a manifest only when it is needed.
    """
    pieces = list(pieces)
    ahead = manifests or query.view.entries is not None
    for piece, subject in zip(pieces, _opened(system, pieces, keys, manifests=ahead), strict=True):
        for entry in _entries(subject, piece, query):
            yield subject, entry


def _opened(
    system: SystemView, pieces: Sequence[Piece], keys: Sequence[EncryptionKey] | None, *, manifests: bool
) -> Iterator[Any]:
    """The subjects of pieces. AT_ONCE of them are opened, perhaps with their manifests, and kept at a time."""
    for start in range(0, len(pieces), AT_ONCE):
        some = pieces[start : start + AT_ONCE]
        records = dict.fromkeys(one for piece in some for one in (piece.record, piece.before) if one is not None)
        snapshots = {record: system.open(record, keys) for record in records}
        if manifests:
            with several_at_once(len(snapshots), "rayshot-manifest") as map_:
                list(map_(attrgetter("manifest"), snapshots.values()))
        for piece in some:
            yield _subject(system, piece, snapshots)


def read_items(
    query: Query,
    system: SystemView,
    pieces: Iterable[Piece],
    keys: Sequence[EncryptionKey] | None = None,
    *,
    manifests: bool = True,
) -> Iterator[tuple[Snapshot, Any]]:
    """The rows of pieces, each with its snapshot; arguments and errors as for `read_entries`."""
    for subject, entry in read_entries(query, system, pieces, keys, manifests=manifests):
        snapshot = subject.new if isinstance(subject, Pair) else subject
        for row in query.rows(subject, entry):
            yield snapshot, row


def _whole(
    query: Query, system: SystemView, keys: Sequence[EncryptionKey] | None, ends: Mapping[str, int] | None
) -> list[Piece]:
    """The selection before it is cut: one piece for each snapshot; for a storage, one for each system."""
    if query.view.subject == "log":
        return [Piece(None, stop=len(system.records()))]
    if query.view.subject == "storage":
        known = system.ends_in_its_storage() if ends is None else ends
        return [Piece(None, stop=end, system=name) for name, end in known.items()]
    if not query.view.of_pairs:
        origins = system.restored_from()
        records = (snapshot.record for snapshot in query.selection.of(system))
        return [Piece(one, restored_from=None if one.folder else origins.get(one.incarnation)) for one in records]
    pairs = pair_up(query.selection, query.compared_with, system)
    if query.view.subject == "step" and query.selection.is_one:
        for new, old in pairs:
            require_step(system.open(old, keys).manifest, system.open(new, keys).manifest)
    return [Piece(new, before=old) for new, old in pairs]


def _subject(system: SystemView, piece: Piece, snapshots: Mapping[CommitRecord, Snapshot]) -> Any:
    """What the rows of a view are made from, see `View.subject`."""
    if piece.record is None:
        return system if piece.system is None else system.beside(piece.system).as_of(piece.stop)
    snapshot = snapshots[piece.record]
    return snapshot if piece.before is None else Pair(snapshots[piece.before], snapshot)


def _entries(subject: Any, piece: Piece, query: Query) -> Iterator[Any]:
    if query.view.entries is None:
        return iter((piece,))
    return filter(query.selects, islice(query.view.entries(subject), piece.first, piece.stop))


def _cut(
    system: SystemView,
    whole: Sequence[Piece],
    query: Query,
    keys: Sequence[EncryptionKey] | None,
) -> Iterator[_Weighed]:
    """Cut the selected entries of all snapshots into pieces of about SHARE_BYTES."""
    if query.view.entries is None:
        yield from (_Weighed(piece, MANIFEST_COST_BYTES) for piece in whole)
        return
    found = False
    seen: dict[str, None] = {}
    for piece, subject in zip(whole, _opened(system, whole, keys, manifests=True), strict=True):
        entries = query.view.entries(subject)
        for weighed in _cut_one(piece, entries, query):
            found = True
            yield weighed
        seen.update(dict.fromkeys(_name(entry) for entry in islice(entries, NAMES_SHOWN_MAX)))
    if query.entry and not found and not query.conditions:
        raise _not_found(system.name, whole, query, list(seen))


def _cut_one(whole: Piece, entries: Sequence[Any], query: Query) -> Iterator[_Weighed]:
    first, size, any_selected = 0, SNAPSHOT_COST_BYTES, False
    for index, entry in enumerate(entries):
        if not query.selects(entry):
            continue
        any_selected = True
        size += ENTRY_COST_BYTES + query.view.weigh(entry)
        if size >= SHARE_BYTES:
            yield _Weighed(replace(whole, first=first, stop=index + 1), size)
            first, size, any_selected = index + 1, SNAPSHOT_COST_BYTES, False
    if any_selected:
        yield _Weighed(replace(whole, first=first, stop=len(entries)), size)


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
    """The name of an actor; for a channel, sender -> receiver."""
    return entry.name if hasattr(entry, "name") else f"{entry.sender} -> {entry.receiver}"


def _not_found(system: str, whole: Sequence[Piece], query: Query, seen: list[str]) -> NotFound:
    wanted = ", ".join(f"{option} {name!r}" for option, name in query.entry)
    records = [piece.record for piece in whole if piece.record is not None]
    where = f"the snapshot {records[0].snapshot}" if len(records) == 1 else f"{len(records)} snapshots"
    shown = ", ".join(seen[:NAMES_SHOWN_MAX]) or "none"
    more = " ..." if len(seen) >= NAMES_SHOWN_MAX else ""
    kind = ActorNotFound if query.view.options == ("actor",) else NotFound
    return kind(
        f"the options ask for {wanted}, which is not in {where} of {system!r}; there is {shown}{more}",
        **dict(query.entry),
        exists=seen,
    )
