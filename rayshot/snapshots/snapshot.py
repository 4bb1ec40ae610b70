"""A committed snapshot, opened for reading. Reading needs no Ray and no keys, and executes nothing of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

from rayshot.errors import ActorNotFound, ConfigError, Damaged, KeyNotFound, MissingChunk, NotFound, SnapshotDeleted
from rayshot.format.encryption import decrypt_chunk, open_manifest
from rayshot.format.entries import ActorEntry, Blob, Chunk
from rayshot.format.envelope import Envelope, verify
from rayshot.format.manifest import Manifest
from rayshot.format.suggestion import did_you_mean
from rayshot.keys.encryption import EncryptionKey
from rayshot.keys.finder import find_trusted_keys
from rayshot.keys.signing import Prover
from rayshot.log.layout import inside
from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.chunk_reader import ChunkReader
from rayshot.snapshots.diff import SnapshotDiff, compare
from rayshot.snapshots.manifests import read_sealed
from rayshot.snapshots.outside import ActorFolder, OutsideInfo, outside_folders, outside_infos
from rayshot.snapshots.relation import Relation, relate, some_of
from rayshot.snapshots.state import ActorInfo, RecordedState, captured_bytes, read_captured
from rayshot.snapshots.verification import (
    Check,
    Portion,
    Progress,
    Trust,
    Verification,
    examine,
    examine_trust,
    run_check,
    survey,
)


class Snapshot:
    """One committed snapshot. It reads its manifest once, on demand; states and messages at each call.

    `keys` decrypt it; None means the environment's keys of the reading process. They are not pickled with it. All
    methods that read may raise Damaged (BadManifest, CorruptChunk, MissingChunk, ...), SnapshotMismatch, FormatTooNew,
    StoreError, EncryptionKeyNeeded, or SnapshotDeleted if it was deleted meanwhile.
    """

    def __init__(
        self,
        store: Store,
        system: str,
        record: CommitRecord,
        keys: Sequence[EncryptionKey] | None = None,
        left_out: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._store = store
        self._keys = keys
        self._kept: tuple[Envelope, Manifest] | None = None
        self.system = system
        self.record = record
        """The COMMIT record in the log."""
        self.left_out = left_out
        """For a snapshot that this program has just taken: how many messages that it had told before are not inside,
        by receiver. The receiver had not yet taken them; a later snapshot holds them."""

    def __repr__(self) -> str:
        return f"<Snapshot {self.id} of {self.system!r} at position {self.position}>"

    def _repr_html_(self) -> str:
        """The page of `rayshot report` in a frame, for notebooks. It shows errors of unreadable parts."""
        import rayshot  # noqa: PLC0415 - the code that makes pages is above this package

        return str(rayshot._frame(self))  # noqa: SLF001

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return (self._store.url, self.system, self.record) == (other._store.url, other.system, other.record)

    def __hash__(self) -> int:
        return hash((self._store.url, self.system, self.record))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._store.url, self.system, self.record)

    @property
    def id(self) -> SnapshotId:
        """Its id, unique for ever within the system. Ids have no order."""
        return self.record.snapshot

    @property
    def position(self) -> int:
        """The position of its commit in the log: later commits have higher positions.

        A copy keeps the position of its first commit. The signature covers it, and `min_position` is compared with it.
        """
        return self.record.sealed_for

    @property
    def folder(self) -> str:
        """Internal: the folder of its chunks, relative to the root of the store: the system's folder, or the copy's."""
        return inside(self.system, self.record.folder) if self.record.folder else self.system

    @property
    def label(self) -> str | None:
        """A person's name for a savepoint, or None."""
        return self.record.label

    @property
    def taken_at(self) -> datetime:
        """When it was taken, in UTC, by the clock of the coordinator."""
        return datetime.fromtimestamp(self.record.taken_at, UTC)

    @property
    def mode(self) -> str:
        """The protocol that took it."""
        return self.manifest.mode

    @property
    def stats(self) -> Mapping[str, int | float]:
        """Durations, sizes and counts, measured when it was taken."""
        return MappingProxyType(self.manifest.stats)

    @property
    def size_bytes(self) -> int:
        """Bytes in the store of all its chunks, shared ones included."""
        return sum(chunk.stored_size for chunk in self.manifest.chunks)

    @property
    def in_flight(self) -> int:
        """Messages in flight on all channels together."""
        return sum(channel.sent - channel.received for channel in self.manifest.channels)

    @property
    def manifest(self) -> Manifest:
        """Internal: the manifest: it names everything in the snapshot."""
        return self._sealed[1]

    @property
    def envelope(self) -> Envelope:
        """Internal: the signed bytes of the manifest, to check its signature."""
        return self._sealed[0]

    @property
    def document(self) -> bytes:
        """Internal: the decrypted bytes of the manifest, for other readers."""
        return open_manifest(self.envelope.payload, self._keys)[0]

    @cached_property
    def actors(self) -> Mapping[str, ActorInfo]:
        """The actors by name, without their states."""
        return MappingProxyType({actor.name: _info(actor) for actor in self.manifest.actors})

    @cached_property
    def channels(self) -> Mapping[Channel, ChannelState]:
        """The channels by (sender, receiver)."""
        states = (ChannelState(entry, self._reader) for entry in self.manifest.channels)
        return MappingProxyType({state.channel: state for state in states})

    @cached_property
    def outside(self) -> Mapping[str, OutsideInfo]:
        """By actor, what its class fixed outside for this snapshot: payload, files, and where they are. Reads none."""
        return MappingProxyType(outside_infos(self._store, self.system, self.record, self.manifest))

    @property
    def outside_folders(self) -> list[ActorFolder]:
        """Internal: the folders of `outside`, to read and compare their files."""
        return outside_folders(self._store, self.system, self.record, self.manifest)

    def states(self) -> dict[str, Any]:
        """Read the state of every actor that has one, by name. Objects of unknown classes come as inert records."""
        return {name: self.state(name) for name, actor in self._entries.items() if actor.state is not None}

    def state(self, actor: str) -> Any:
        """Read the state of one actor: its `__dict__`, or what its `__getstate__` returned. Raises ActorNotFound."""
        return self.recorded(actor).state

    def recorded(self, actor: str) -> RecordedState:
        """Read all recorded parts of one actor: state, pending calls, timers. Raises ActorNotFound."""
        entry = self._entries.get(actor)
        if entry is None:
            known = f"{some_of(self._entries)}{did_you_mean(actor, self._entries)}"
            raise ActorNotFound(f"{self.id} has no actor {actor!r}; it has {known}", actor=actor)
        if entry.state is None:
            raise ActorNotFound(f"the actor {actor!r} has no state in {self.id}: it is {entry.status}", actor=actor)
        try:
            return read_captured(entry.state, self._reader)
        except Damaged as error:
            raise error.inside(f"the state of {actor!r} in {self.id}", actor=actor) from error

    def channel(self, sender: str, receiver: str) -> ChannelState:
        """Return the channel from `sender` to `receiver`. Raises NotFound if no message was ever sent on it."""
        state = self.channels.get(Channel(sender, receiver))
        if state is None:
            raise NotFound(
                f"{self.id} has no channel {sender} -> {receiver}; it has {some_of(map(str, self.channels))}",
                sender=sender,
                receiver=receiver,
            )
        return state

    @contextmanager
    def or_deleted(self) -> Iterator[None]:
        """Internal: raise SnapshotDeleted if a chunk is missing inside because the snapshot was deleted meanwhile."""
        try:
            yield
        except MissingChunk as error:
            if CommitLog(self._store, self.system).refresh().retained.get(self.id) == self.record:
                raise
            raise SnapshotDeleted(
                f"the snapshot {self.id} of {self.system!r} was deleted while it was read", snapshot=str(self.id)
            ) from error

    def read(self, blob: Blob) -> bytes:
        """Internal: read bytes that the manifest names. Their digests prove them."""
        return self._reader.read(blob)

    def read_stored(self, key: str, size: int) -> bytes:
        """Internal: read up to `size` bytes of an object in the folder, decrypted if needed. Nothing proves them."""
        encrypted = self._encrypted.get(key)
        wanted = size if encrypted is None else max(size, encrypted.stored_size + 1)
        try:
            stored = self._store.read_range(inside(self.folder, key), 0, wanted)
            return stored if encrypted is None else decrypt_chunk(stored, encrypted, self.system)[:size]
        except KeyNotFound as error:
            raise MissingChunk(f"{key} of the system {self.system!r} is not in the store", key=key) from error

    def verify(self, keys: Iterable[Prover] | None = None) -> Verification:
        """Prove from the bytes that the snapshot is whole, its cut consistent, and whether a trusted key signed it.

        Args:
            keys: the keys to trust; None means those that this user's environment has.

        Returns the checks. It reports an untrusted snapshot in `.trust` and does not raise, because reading is safe
        without trust. Raises the Damaged error of the first failed check, and StoreError.
        """
        verification = self.examine(keys)
        verification.require_sound()
        return verification

    def examine(self, keys: Iterable[Prover] | None = None, progress: Progress = lambda _size: None) -> Verification:
        """Internal: as `verify`, but report damage instead of raising it. `progress` is called for each chunk."""
        return self._judge(
            keys, lambda: examine(self.manifest, self.channels.values(), self._reader, self.outside_folders, progress)
        )

    def survey(
        self,
        keys: Iterable[Prover] | None = None,
        part: Portion | None = None,
        progress: Progress = lambda _size: None,
        *,
        reads_files: bool = True,
    ) -> Verification:
        """Internal: as `examine`, without reading the data: a listing shows that all chunks exist with their sizes.

        Args:
            keys: as for `verify`.
            part: these chunks are read and compared with their digests, and these files of `outside`.
            progress: called for what was read.
            reads_files: without it, of files only the sizes are compared.
        """

        def look() -> Iterable[Check]:
            where = self._store, self.folder, self._reader, self.outside_folders
            return survey(self.manifest, *where, part, progress, reads_files=reads_files)

        return self._judge(keys, look)

    def _judge(self, keys: Iterable[Prover] | None, look: Callable[[], Iterable[Check]]) -> Verification:
        reading = run_check("manifest", self._describe)
        if not reading.ok:
            return Verification((reading,), Trust.UNREADABLE, "the manifest cannot be read")
        trust, detail = examine_trust(self.envelope, _provers(keys))
        return Verification((reading, *look()), trust, detail)

    def diff(self, other: "Snapshot") -> SnapshotDiff:
        """The changes from this snapshot to `other`.

        Raises Incomparable if neither comes before the other, or if they belong to different lives; see `relation`.
        """
        return compare(self, other)

    def relation(self, other: "Snapshot") -> Relation:
        """Which cut comes first. It reads only manifests. Raises ConfigError for snapshots of two systems."""
        return relate(self.manifest, other.manifest)

    def siblings(self) -> list["Snapshot"]:
        """Internal: all snapshots that its system has now, itself included, in the order of `SystemView.snapshots`."""
        records = CommitLog(self._store, self.system).refresh().retained.values()
        return [Snapshot(self._store, self.system, record, self._keys) for record in records]

    @property
    def _sealed(self) -> tuple[Envelope, Manifest]:
        if self._kept is None:  # no cached_property: until Python 3.12 all snapshots share its lock while one reads
            self._kept = read_sealed(self._store, self.system, self.record, self._keys)
        return self._kept

    @cached_property
    def _reader(self) -> ChunkReader:
        chunks = {chunk.digest: chunk for chunk in self.manifest.chunks}
        return ChunkReader(self._store, self.system, chunks, self.folder)

    @cached_property
    def _encrypted(self) -> Mapping[str, Chunk]:
        return {chunk.key: chunk for chunk in self.manifest.chunks if chunk.data_key is not None}

    @cached_property
    def _entries(self) -> Mapping[str, ActorEntry]:
        return {actor.name: actor for actor in self.manifest.actors}

    def _describe(self) -> str:
        manifest = self.manifest
        return (
            f"what was committed at position {self.position}: {len(manifest.actors):,} actors, "
            f"{len(manifest.channels):,} channels{_proved(manifest)}"
        )


def _proved(manifest: Manifest) -> str:
    """How many states were loaded for trial before the commit; empty if the manifest does not say."""
    proofs = manifest.proofs
    loads = sum(count for word, count in proofs.items() if word != "unproved")
    return f"; {loads:,} of {sum(proofs.values()):,} states were proved to load" if proofs else ""


def _reopen(url: str, system: str, record: CommitRecord) -> Snapshot:
    return Snapshot(open_store(url), system, record)


def _provers(keys: Iterable[Prover] | None) -> list[Prover]:
    return list(find_trusted_keys() if keys is None else keys)


def _info(actor: ActorEntry) -> ActorInfo:
    class_name = f"{actor.class_module}.{actor.class_name}"
    return ActorInfo(actor.name, class_name, actor.status, captured_bytes(actor.state), actor.proof)


def check_allow_unsigned(allow_unsigned: object) -> None:
    """Raise ConfigError for anything but True and False."""
    if not isinstance(allow_unsigned, bool):
        raise ConfigError(f"allow_unsigned={allow_unsigned!r}: leave it out, or say True")


def check_trust(snapshot: Snapshot, keys: Iterable[Prover], *, allow_unsigned: bool) -> None:
    """Raise Untrusted unless one of `keys` proves the signature, or `allow_unsigned` is True. Also ConfigError."""
    check_allow_unsigned(allow_unsigned)
    if not allow_unsigned:
        verify(snapshot.envelope, keys)
