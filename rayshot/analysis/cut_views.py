"""Tables of what manifests say: snapshots, their actors, and the counters of their channels. No chunk is read."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rayshot.analysis import values
from rayshot.analysis.pairs import Pair
from rayshot.analysis.view import EVERY, Column, View, channel_bytes, channels, itself
from rayshot.format.entries import ActorEntry, OutsideFile
from rayshot.format.payloads import read_payload
from rayshot.inert.redaction import shown
from rayshot.log.layout import writer_of
from rayshot.snapshots.relation import actor_clock, clocks
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import captured_bytes, state_digest


class ActorRow(NamedTuple):
    """One actor, and how much it has done."""

    name: str
    entry: ActorEntry
    clock: int


class OutsideRow(NamedTuple):
    """One file that an actor wrote for the snapshot; without one if it gave only a payload."""

    actor: str
    payload: Any
    root: str | None
    file: OutsideFile | None


class SnapshotFigure(NamedTuple):
    """One figure of a snapshot."""

    name: str
    value: float

    @property
    def unit(self) -> str | None:
        """The unit at the end of the name; None if the name ends with no unit."""
        end = self.name.rpartition("_")[2]
        return end if end in {"s", "ms", "bytes"} else None


def _committed(_: Snapshot, piece: Any) -> Iterable[Any]:
    return (piece,)


def _actors(snapshot: Snapshot) -> Sequence[ActorRow]:
    known = clocks(snapshot.manifest)
    return [ActorRow(entry.name, entry, actor_clock(known.get(entry.name, {}))) for entry in snapshot.manifest.actors]


def _metrics(snapshot: Snapshot, _: Any) -> Iterable[SnapshotFigure]:
    return (SnapshotFigure(name, float(number)) for name, number in snapshot.stats.items())


def _with_outside(snapshot: Snapshot) -> Sequence[ActorEntry]:
    return [entry for entry in snapshot.manifest.actors if entry.outside is not None]


def _outside_rows(_: Snapshot, entry: ActorEntry) -> Iterator[OutsideRow]:
    assert entry.outside is not None, "an entry of `_with_outside`"
    payload = shown("payload", read_payload(entry.outside.payload))
    for file in entry.outside.files or [None]:
        yield OutsideRow(entry.name, payload, entry.outside.root, file)


def _neighbours(pair: Pair, _: Any) -> Iterable[Pair]:
    return (pair,)


def _new_bytes(snapshot: Snapshot) -> int:
    own = snapshot.manifest.intent
    return sum(chunk.stored_size for chunk in snapshot.manifest.chunks if writer_of(chunk.key) == own)


_SNAPSHOT_COLUMNS = (
    Column("label", "string", "a person's word for a savepoint", lambda snapshot, _: snapshot.label, from_log=True),
    Column("mode", "string", "the protocol that took it", lambda snapshot, _: snapshot.mode),
    Column("actors", "bigint", "how many actors", lambda snapshot, _: len(snapshot.manifest.actors)),
    Column("channels", "bigint", "how many channels", lambda snapshot, _: len(snapshot.manifest.channels)),
    Column("in_flight", "bigint", "messages in flight on all channels", lambda snapshot, _: snapshot.in_flight),
    Column("bytes", "bigint", "size in the store, shared chunks included", lambda snapshot, _: snapshot.size_bytes),
    Column(
        "new_bytes",
        "bigint",
        "the part of these bytes that was written for it; it took over the rest from earlier snapshots",
        lambda snapshot, _: _new_bytes(snapshot),
    ),
    Column("chunks", "bigint", "how many chunks", lambda snapshot, _: len(snapshot.manifest.chunks)),
    Column(
        "rayshot_version",
        "string",
        "the version of rayshot that took it",
        lambda snapshot, _: snapshot.manifest.rayshot_version,
    ),
    Column(
        "python_version",
        "string",
        "the version of Python that it ran on",
        lambda snapshot, _: snapshot.manifest.python_version,
    ),
    Column(
        "restored_from",
        "string",
        "the snapshot that its life was restored from; null if the life began anew, and for a copy",
        lambda _, piece: None if piece.restored_from is None else str(piece.restored_from),
        from_log=True,
    ),
)

_METRIC_COLUMNS = (
    Column("name", "string", "the name of the figure, measured when the snapshot was taken", lambda _, row: row.name),
    Column("value", "double", "the figure, in its unit", lambda _, row: row.value),
    Column("unit", "string", "s, ms or bytes; null for a count", lambda _, row: row.unit),
)

_ACTOR_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.name),
    Column("class_name", "string", "module.Class", lambda _, row: f"{row.entry.class_module}.{row.entry.class_name}"),
    Column("status", "string", "born or unborn; only a born actor has a state", lambda _, row: row.entry.status),
    Column("state_bytes", "bigint", "the size of its pickled state", lambda _, row: captured_bytes(row.entry.state)),
    Column(
        "state_digest",
        "string",
        "equal for equal stored states; the digest of a small state may change with the states stored beside it",
        lambda _, row: None if row.entry.state is None else state_digest(row.entry.state),
    ),
    Column(
        "clock",
        "bigint",
        "messages that it had processed and sent on the channels of the snapshot; it rises as long as no peer ends",
        lambda _, row: row.clock,
    ),
    Column("methods", "array<string>", "the methods that it can be sent", lambda _, row: list(row.entry.methods)),
    Column(
        "proof",
        "string",
        "whether its state was loaded for trial before the commit: proved, alike, plain or unproved; null if unknown",
        lambda _, row: None if row.entry.proof is None else row.entry.proof.word,
    ),
)

_OUTSIDE_COLUMNS = (
    Column("actor", "string", "the name of the actor", lambda _, row: row.actor),
    Column(
        "payload",
        "string",
        "what its on_snapshot gave, as JSON",
        lambda _, row: values.in_json(row.payload)[0],
        json=True,
    ),
    Column(
        "file",
        "string",
        "the path of a file in the actor's folder for this snapshot; null if it wrote none",
        lambda _, row: None if row.file is None else row.file.path,
    ),
    Column("bytes", "bigint", "the size of the file", lambda _, row: None if row.file is None else row.file.size),
    Column(
        "digest",
        "string",
        "BLAKE3 of the file, 64 hexadecimal digits",
        lambda _, row: None if row.file is None else row.file.digest,
    ),
    Column(
        "folder",
        "string",
        "where the actor's folder is: a path on a disk, else an address",
        lambda snapshot, row: snapshot.outside[row.actor].folder,
    ),
)

_LINEAGE_COLUMNS = (
    Column(
        "other_snapshot",
        "string",
        "the snapshot before it, by life and then by position",
        lambda _, row: str(row.old.id),
    ),
    Column(
        "relation",
        "string",
        "the relation of the other one to it: before, after, equal, incomparable, or other life",
        lambda _, row: row.relation.name,
    ),
    Column(
        "actors_forward",
        "array<string>",
        "actors that did something from the other one to this one",
        lambda _, row: list(row.relation.forward),
    ),
    Column(
        "actors_back",
        "array<string>",
        "actors that had done more in the other one",
        lambda _, row: list(row.relation.back),
    ),
)

_CHANNEL_COLUMNS = (
    Column("sender", "string", "an actor, or a driver as driver:ID", lambda _, row: row.sender),
    Column("receiver", "string", "an actor", lambda _, row: row.receiver),
    Column("sent", "bigint", "number of the last message sent before the cut", lambda _, row: row.sent),
    Column("arrived", "bigint", "number of the last message that had come to the mailbox", lambda _, row: row.arrived),
    Column("received", "bigint", "number of the last message processed before the cut", lambda _, row: row.received),
    Column("in_flight", "bigint", "sent - received", lambda _, row: row.sent - row.received),
    Column("bytes", "bigint", "bytes of the messages in flight", lambda _, row: channel_bytes(row)),
)

CUT_VIEWS = (
    View("snapshots", "one row for each snapshot", (*EVERY, *_SNAPSHOT_COLUMNS), _committed),
    View("metrics", "one row for each figure of each snapshot", (*EVERY, *_METRIC_COLUMNS), _metrics),
    View(
        "lineage",
        "one row for each snapshot but the first: its relation to the one before it",
        (*EVERY, *_LINEAGE_COLUMNS),
        _neighbours,
        subject="neighbours",
    ),
    View(
        "actors",
        "one row for each actor of each snapshot",
        (*EVERY, *_ACTOR_COLUMNS),
        itself,
        _actors,
        options=("actor",),
    ),
    View(
        "channels",
        "one row for each channel that was ever used",
        (*EVERY, *_CHANNEL_COLUMNS),
        itself,
        channels,
        options=("sender", "receiver"),
    ),
    View(
        "outside",
        "one row for each file that an actor wrote for a snapshot, or for its payload if it wrote none",
        (*EVERY, *_OUTSIDE_COLUMNS),
        _outside_rows,
        _with_outside,
        options=("actor",),
    ),
)
