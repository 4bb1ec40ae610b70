"""The manifest: one document that names every byte of a snapshot and the cut that makes it consistent.

It is canonical msgpack (see `canonical`): a map whose keys stand in the order of `_HEADER` and then `actors`, `ended`
(the names of actors that ended before the cut), `channels`, `chunks`, `stats`, `traces`. The first key, `format`, is a
number; a reader that meets a higher one than its own stops there. What is numerous is written as arrays:

    snapshot       [incarnation, initiator, counter]
    chunk          [key, digest as 32 bytes, size, stored size, codec], and the index of its data key if it is encrypted
    span           [index into chunks, offset, length]
    blob           [span, ...], or nil where there is none
    state          [codec, stream as a blob, [buffer as a blob, ...]], or nil where there is none
    actor          [name, class module, class name, class pickle as a blob, options, status,
                    [method, ...], state, version], and node, hold_s, after_s where it is known how it recorded,
                    and {key of `about`: value} where more is known of its state
    proof          [word, reason], under "proof" in `about`
    outside        [payload, root or nil, [[path, size, digest as 32 bytes], ...]], under "outside" in `about`
    shapes         see `shape_tables`, under "shapes" in `about`
    slots          [number of a message, [[kind, *state], ...]]
    channel        [sender, receiver, sent, arrived, received, mailbox as a blob, outbox as a blob, aligned], and
                    [slots, ...] where any of its messages has them, or any is a call without an answer, and
                    [number of such a message, ...] where there is any
    trace          [actor, segment as a blob]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayshot.errors import BadManifest, FormatTooNew, LimitExceeded
from rayshot.format import canonical
from rayshot.format.bounds import (
    LABEL_LENGTH_MAX,
    MANIFEST_BYTES_MAX,
    STATS_MAX,
    check_count,
    check_initiator,
    check_length,
    check_real,
    check_system,
    check_text,
    check_time,
    is_intent,
)
from rayshot.format.entries import (
    PROOF_WORDS,
    ActorEntry,
    Blob,
    CapturedState,
    ChannelEntry,
    Chunk,
    Outside,
    OutsideFile,
    Proof,
    RecordedSlot,
    RecordedSlots,
    RecordingTimes,
    Span,
    TraceEntry,
)
from rayshot.format.entry_checks import (
    check_actors,
    check_channels,
    check_chunks,
    check_ended,
    check_traces,
)
from rayshot.format.shape_tables import ShapeTables
from rayshot.keys.encryption import DataKey
from rayshot.protocol.identity import SnapshotId

FORMAT_VERSION = 1
"""It rises when a reader of the version before would misread the bytes."""
OUTSIDE_VERSION = 2
"""The format of exactly those manifests in which an actor has something outside."""

_HEADER = (
    "format",
    "rayshot_version",
    "python_version",
    "system",
    "snapshot",
    "position",
    "mode",
    "taken_at",
    "intent",
    "label",
)
_WITHOUT_RECORDING, _WITH_RECORDING = 9, 12
"""The widths of an actor; with `about` it has a column more."""
_ABOUT = ("outside", "proof", "shapes")
"""The keys of `about`, sorted."""
_CHANNEL = 8
"""The width of a channel; with slots, and with calls without an answer, it has one or two columns more."""
_KEYS = (*_HEADER, "actors", "ended", "channels", "chunks", "stats", "traces")

# Names of `stats` by which readers and writers decide something; all others are only shown.
FINAL = "final"
"""It is there where the system stopped with the snapshot."""
BEHIND = "behind"
"""It is there if some process is before its place in an earlier stored snapshot: the system never goes back to it."""
FOLLOWS = "follows"
"""Up to which position of the log all snapshots were committed when this one began."""
HASH_SEED = "hash_seed"
"""The seed of `hash()` in all processes of its actors; it is not there if each had its own."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole snapshot. It checks itself when it is built, so every Manifest is consistent.

    `position` is the position of its COMMIT record in the log. `taken_at` counts Unix seconds. `intent` names the
    write that made it; the keys of the chunks that it wrote end with it. `label` is a person's name for a savepoint.
    `stats` are finite numbers by name. A traced system has `traces`. An encrypted snapshot has a `data_key`, and all
    its chunks are encrypted too; the key is not part of the document. Building a Manifest raises BadManifest,
    InconsistentCut, LimitExceeded or UnsafePath.
    """

    system: str
    snapshot: SnapshotId
    position: int
    mode: str
    taken_at: float
    rayshot_version: str
    python_version: str
    intent: str
    label: str | None
    actors: tuple[ActorEntry, ...]
    ended: tuple[str, ...]
    channels: tuple[ChannelEntry, ...]
    chunks: tuple[Chunk, ...]
    stats: dict[str, int | float]
    traces: tuple[TraceEntry, ...] = ()
    data_key: DataKey | None = None

    @property
    def data_keys(self) -> tuple[DataKey, ...]:
        """Its own data key, then the keys of chunks that it reuses; empty if nothing is encrypted."""
        found = dict.fromkeys([self.data_key, *(chunk.data_key for chunk in self.chunks)])
        return tuple(key for key in found if key is not None)

    @property
    def format(self) -> int:
        """The number with which its bytes begin."""
        return FORMAT_VERSION if all(actor.outside is None for actor in self.actors) else OUTSIDE_VERSION

    @property
    def proofs(self) -> dict[str, int]:
        """How many actors have each word of a `Proof`, in this order: proved, alike, plain, unproved."""
        words = [actor.proof.word for actor in self.actors if actor.proof is not None]
        return {word: words.count(word) for word in PROOF_WORDS if word in words}

    @property
    def unproved(self) -> str:
        """The first actor whose state is not proved, and why, as `alice: prove=False`; empty if there is none."""
        unproved = (actor for actor in self.actors if actor.proof is not None and actor.proof.word == "unproved")
        return next((f"{actor.name}: {actor.proof.reason}" for actor in unproved if actor.proof is not None), "")

    def __post_init__(self) -> None:
        self._check_header()
        _check_stats(self.stats)
        sizes = check_chunks(self.chunks)
        if any((chunk.data_key is None) is not (self.data_key is None) for chunk in self.chunks):
            raise BadManifest("either the manifest or one of its chunks is encrypted, but not both")
        names = check_actors(self.actors, sizes)
        check_ended(self.ended, names)
        check_channels(self.channels, names, names | set(self.ended), sizes)
        check_traces(self.traces, names | set(self.ended), sizes)

    def _check_header(self) -> None:
        check_system(self.system)
        check_count(self.snapshot.incarnation, "incarnation of the snapshot", smallest=1)
        check_initiator(self.snapshot.initiator)
        check_count(self.snapshot.counter, "counter of the snapshot", smallest=1)
        check_count(self.position, "position in the log")
        check_time(self.taken_at, "taken_at")
        for name in ("mode", "rayshot_version", "python_version"):
            check_text(getattr(self, name), name)
        if not is_intent(self.intent):
            raise BadManifest("the intent cannot be the end of a chunk's key")
        if self.label is not None:
            check_text(self.label, "label", LABEL_LENGTH_MAX)


def _check_stats(stats: Mapping[str, int | float]) -> None:
    if type(stats) is not dict:
        raise BadManifest(f"stats are of the type {type(stats).__name__}, not dict")
    check_length(stats, "stats", STATS_MAX)
    for name, value in stats.items():
        check_text(name, "name of a statistic")
        if type(value) is float:
            check_real(value, f"statistic {name}")
        else:
            check_count(value, f"statistic {name}", smallest=-(2**63))


def encode(manifest: Manifest) -> bytes:
    """The canonical bytes of `manifest`; raises LimitExceeded above MANIFEST_BYTES_MAX."""
    index = {chunk.digest: position for position, chunk in enumerate(manifest.chunks)}
    tree = {key: getattr(manifest, key) for key in _HEADER}
    tree["snapshot"] = list(manifest.snapshot)
    tables = ShapeTables()
    tree["actors"] = [_actor_tree(row, actor, index, tables) for row, actor in enumerate(manifest.actors)]
    tree["ended"] = list(manifest.ended)
    tree["channels"] = [_channel_tree(channel, index) for channel in manifest.channels]
    keys = {key: position for position, key in enumerate(manifest.data_keys)}
    tree["chunks"] = [_chunk_tree(chunk, keys) for chunk in manifest.chunks]
    tree["stats"] = manifest.stats
    tree["traces"] = [[trace.actor, _blob_tree(trace.segment, index)] for trace in manifest.traces]
    packed = canonical.pack(tree)
    if len(packed) > MANIFEST_BYTES_MAX:
        raise LimitExceeded(f"the manifest has {len(packed)} bytes, above the limit of {MANIFEST_BYTES_MAX}")
    return packed


def _actor_tree(number: int, actor: ActorEntry, index: Mapping[str, int], tables: ShapeTables) -> list[Any]:
    row: list[Any] = [
        actor.name,
        actor.class_module,
        actor.class_name,
        _blob_tree(actor.class_pickle, index),
        actor.options,
        actor.status,
        list(actor.methods),
        _state_tree(actor.state, index),
        actor.version,
    ]
    if (recording := actor.recording) is not None:
        row += [recording.node, recording.hold_s, recording.after_s]
    about = _about_tree(number, actor, tables)
    return [*row, about] if about else row


def _about_tree(number: int, actor: ActorEntry, tables: ShapeTables) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if (outside := actor.outside) is not None:
        files = [[file.path, file.size, bytes.fromhex(file.digest)] for file in outside.files]
        about["outside"] = [outside.payload, outside.root, files]
    if actor.proof is not None:
        about["proof"] = [actor.proof.word, actor.proof.reason]
    if actor.shapes:
        about["shapes"] = tables.tree(number, actor.shapes)
    return about


def _state_tree(state: CapturedState | None, index: Mapping[str, int]) -> list[Any] | None:
    return None if state is None else _captured_tree(state, index)


def _captured_tree(state: CapturedState, index: Mapping[str, int]) -> list[Any]:
    return [state.codec, _blob_tree(state.stream, index), [_blob_tree(blob, index) for blob in state.buffers]]


def _channel_tree(channel: ChannelEntry, index: Mapping[str, int]) -> list[Any]:
    counters = [channel.sent, channel.arrived, channel.received]
    blobs = [_blob_tree(channel.mailbox, index), _blob_tree(channel.outbox, index)]
    row = [channel.sender, channel.receiver, *counters, *blobs, channel.aligned]
    if channel.slots or channel.owed:
        row.append([_slots_tree(message, index) for message in channel.slots])
    if channel.owed:
        row.append([*channel.owed])
    return row


def _slots_tree(message: RecordedSlots, index: Mapping[str, int]) -> list[Any]:
    return [message.number, [[slot.kind, *_captured_tree(slot.content, index)] for slot in message.slots]]


def _chunk_tree(chunk: Chunk, keys: Mapping[DataKey, int]) -> list[Any]:
    row = [chunk.key, bytes.fromhex(chunk.digest), chunk.size, chunk.stored_size, chunk.codec]
    return row if chunk.data_key is None else [*row, keys[chunk.data_key]]


def _blob_tree(blob: Blob | None, index: Mapping[str, int]) -> list[Any] | None:
    return None if blob is None else [[index[span.chunk], span.offset, span.length] for span in blob.spans]


def decode(data: bytes, data_keys: Sequence[DataKey] = ()) -> Manifest:
    """Read what `encode` wrote, and nothing else: `encode(decode(data)) == data`.

    `data_keys` came with an encrypted manifest, see `encryption`.

    Raises FormatTooNew for a newer format, else BadManifest, InconsistentCut, LimitExceeded or UnsafePath.
    """
    tree = canonical.unpack(data, what="the manifest", bytes_max=MANIFEST_BYTES_MAX)
    _check_format(tree)
    if tuple(tree) != _KEYS:
        raise BadManifest("the manifest does not have the keys of its format, in their order")
    chunks = tuple(_read_chunk(item, data_keys) for item in _rows(tree["chunks"], "chunks"))
    header = {key: tree[key] for key in _HEADER[1:]}
    tables = ShapeTables()
    header["snapshot"] = SnapshotId(*_row(tree["snapshot"], 3, "the snapshot id"))
    manifest = Manifest(
        **header,
        actors=tuple(
            _read_actor(number, item, chunks, tables) for number, item in enumerate(_rows(tree["actors"], "actors"))
        ),
        ended=tuple(_rows(tree["ended"], "ended")),
        channels=tuple(_read_channel(item, chunks) for item in _rows(tree["channels"], "channels")),
        chunks=chunks,
        stats=tree["stats"],
        traces=tuple(_read_trace(item, chunks) for item in _rows(tree["traces"], "traces")),
        data_key=data_keys[0] if data_keys else None,
    )
    if manifest.format != tree["format"]:
        raise BadManifest(f"the manifest says format {tree['format']}, and its actors are of format {manifest.format}")
    return manifest


def _check_format(tree: Any) -> None:
    if type(tree) is not dict or type(tree.get("format")) is not int:
        raise BadManifest("these bytes are not a manifest: they do not start with a format")
    version, writer = tree["format"], tree.get("rayshot_version")
    if version > OUTSIDE_VERSION:
        wanted = f"rayshot {writer}" if isinstance(writer, str) and writer.isprintable() else "a newer rayshot"
        raise FormatTooNew(
            f"the manifest has format {version} and this rayshot reads up to {OUTSIDE_VERSION}: "
            f"install {wanted} or later (pip install --upgrade rayshot)",
            format=version,
            supported=OUTSIDE_VERSION,
        )
    if version < FORMAT_VERSION:
        raise BadManifest(f"the manifest has format {version}, which does not exist")


def _rows(tree: Any, what: str) -> list[Any]:
    if type(tree) is not list:
        raise BadManifest(f"{what} are of the type {type(tree).__name__}, not list")
    return tree


def _row(tree: Any, width: int, what: str) -> list[Any]:
    if type(tree) is not list or len(tree) != width:
        raise BadManifest(f"{what} is not a list of {width}")
    return tree


def _read_chunk(tree: Any, data_keys: Sequence[DataKey]) -> Chunk:
    key, digest, size, stored_size, codec, *index = _row(tree, 6 if data_keys else 5, "a chunk")
    if type(digest) is not bytes:
        raise BadManifest("the digest of a chunk is not bytes")
    data_key = data_keys[check_count(index[0], "data key of a chunk", len(data_keys) - 1)] if index else None
    return Chunk(key, digest.hex(), size, stored_size, _text(codec, "codec of a chunk"), data_key)


def _read_actor(number: int, tree: Any, chunks: tuple[Chunk, ...], tables: ShapeTables) -> ActorEntry:
    width = len(tree) if type(tree) is list else 0
    recorded = width in {_WITH_RECORDING, _WITH_RECORDING + 1}
    bare = _WITH_RECORDING if recorded else _WITHOUT_RECORDING
    row = _row(tree, bare + (width == bare + 1), "an actor")
    about = _read_about(row.pop()) if width == bare + 1 else {}
    name, module, class_name, class_pickle, options, status, methods, state, version, *recording = row
    return ActorEntry(
        name,
        module,
        class_name,
        _read_blob(class_pickle, chunks),
        options,
        _text(status, "status of an actor"),
        tuple(_rows(methods, "methods of an actor")),
        _read_state(state, chunks),
        version,
        RecordingTimes(*recording) if recorded else None,
        _read_proof(about["proof"]) if "proof" in about else None,
        tables.read(number, about["shapes"]) if "shapes" in about else {},
        _read_outside(about["outside"]) if "outside" in about else None,
    )


def _read_about(tree: Any) -> dict[str, Any]:
    if type(tree) is not dict or not tree or [*tree] != [key for key in _ABOUT if key in tree]:
        raise BadManifest(f"what is told about an actor is not a map with some of the keys {', '.join(_ABOUT)}, sorted")
    return tree


def _read_proof(tree: Any) -> Proof:
    word, reason = _row(tree, 2, "the proof of an actor")
    return Proof(_text(word, "proof of an actor"), reason)


def _read_outside(tree: Any) -> Outside:
    payload, root, files = _row(tree, 3, "what an actor has outside")
    return Outside(payload, tuple(_read_file(item) for item in _rows(files, "outside files of an actor")), root)


def _read_file(tree: Any) -> OutsideFile:
    path, size, digest = _row(tree, 3, "an outside file")
    if type(digest) is not bytes:
        raise BadManifest("the digest of an outside file is not bytes")
    return OutsideFile(path, size, digest.hex())


def _read_state(tree: Any, chunks: tuple[Chunk, ...]) -> CapturedState | None:
    return None if tree is None else _read_captured(_row(tree, 3, "a state"), chunks)


def _read_captured(fields: Sequence[Any], chunks: tuple[Chunk, ...]) -> CapturedState:
    codec, stream, buffers = fields
    blobs = tuple(_blob(item, chunks) for item in _rows(buffers, "buffers of a state"))
    return CapturedState(_text(codec, "codec of a state"), _blob(stream, chunks), blobs)


def _read_channel(tree: Any, chunks: tuple[Chunk, ...]) -> ChannelEntry:
    longer = min(max(len(tree) - _CHANNEL, 0), 2) if type(tree) is list else 0
    row = _row(tree, _CHANNEL + longer, "a channel")
    sender, receiver, sent, arrived, received, mailbox, outbox, aligned = row[:_CHANNEL]
    blobs = _read_blob(mailbox, chunks), _read_blob(outbox, chunks)
    slots, owed = (row[_CHANNEL] if longer > 0 else []), (row[_CHANNEL + 1] if longer > 1 else [])
    if longer and not row[-1]:
        raise BadManifest("a channel ends with an empty list")
    read_slots = tuple(_read_slots(item, chunks) for item in _rows(slots, "slots of a channel"))
    unanswered = tuple(_rows(owed, "calls without an answer"))
    return ChannelEntry(sender, receiver, sent, arrived, received, *blobs, aligned, read_slots, unanswered)


def _read_slots(tree: Any, chunks: tuple[Chunk, ...]) -> RecordedSlots:
    number, slots = _row(tree, 2, "the slots of a message")
    return RecordedSlots(number, tuple(_read_slot(item, chunks) for item in _rows(slots, "slots of a message")))


def _read_slot(tree: Any, chunks: tuple[Chunk, ...]) -> RecordedSlot:
    kind, *content = _row(tree, 4, "a slot")
    return RecordedSlot(_text(kind, "kind of a slot"), _read_captured(content, chunks))


def _read_trace(tree: Any, chunks: tuple[Chunk, ...]) -> TraceEntry:
    actor, segment = _row(tree, 2, "a trace")
    return TraceEntry(actor, _blob(segment, chunks))


def _read_blob(tree: Any, chunks: tuple[Chunk, ...]) -> Blob | None:
    return None if tree is None else _blob(tree, chunks)


def _blob(tree: Any, chunks: tuple[Chunk, ...]) -> Blob:
    return Blob(tuple(_read_span(item, chunks) for item in _rows(tree, "a blob")))


def _read_span(tree: Any, chunks: tuple[Chunk, ...]) -> Span:
    index, offset, length = _row(tree, 3, "a span")
    if type(index) is not int or not 0 <= index < len(chunks):
        raise BadManifest("a span names a chunk that the manifest does not list")
    return Span(chunks[index].digest, offset, length)


def _text(value: Any, what: str) -> Any:
    """A word of a closed set. The Manifest checks that it is in the set."""
    if type(value) is not str:
        raise BadManifest(f"the {what} is not a string")
    return value
