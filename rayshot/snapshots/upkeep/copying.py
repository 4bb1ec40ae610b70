"""Copies a whole snapshot from one store to another, so that it can be restored from there.

Theory of operation. The copy has a folder of its own under the destination's `copies/`: the sealed manifest, every
chunk and every file that hooks wrote for the snapshot, byte for byte. So the signature stays valid, and the copy shares
no bytes with other snapshots. An interrupted copy goes on with the files in its folder, no matter who wrote them,
because each chunk and file is proved by its digest before it is written or when it is found there. The cut equation is
checked before the first write. An empty log gets a record first, because a log without records beside a copy would look
lost. The COPY record comes last: it makes the copy visible as a whole. If a copy pauses for long, garbage collection
gives it up and says so in the log; then the next attempt has another folder (see
docs/design/0015-copies-keep-their-seal.md).
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from rayshot.errors import (
    AlreadyExists,
    BadManifest,
    ConfigError,
    CorruptChunk,
    Damaged,
    IntentExpired,
    KeyNotFound,
    MissingChunk,
)
from rayshot.format.bounds import ENVELOPE_BYTES_MAX
from rayshot.format.chunks import digest, expand
from rayshot.format.encryption import decrypt_chunk
from rayshot.format.entries import Chunk, OutsideFile
from rayshot.format.envelope import verify
from rayshot.keys.signing import Prover
from rayshot.log.history import History
from rayshot.log.layout import copy_folder, inside, manifest_name
from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord, CopyRecord, DeleteRecord
from rayshot.log.system import make_system
from rayshot.places.calls import create_once
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.leases import reading
from rayshot.snapshots.outside import ActorFolder
from rayshot.snapshots.snapshot import Snapshot

WORKERS = 8
"""This many chunks are copied at once. Each is in memory as a whole, and twice while it is proved."""

Progress = Callable[[str, int, int], None]
"""Called with what is done (a word), how much of it is done, and out of how many."""


def copy(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    system: str | None = None,
    snapshot: SnapshotId | str | None = None,
    keys: Sequence[Prover] | None = None,
    progress: Progress = lambda *_: None,
) -> Snapshot:
    """Copy a snapshot to another storage, proving it on the way: `rayshot.copy("./shots", "s3://bucket/backup")`.

    The copy does not need the source, and has all files that hooks wrote for the snapshot. It keeps the id, label and
    signature, and readers find it at the destination like any other snapshot. Retention never deletes it. A second copy
    of the same snapshot does nothing; an interrupted copy goes on.

    Args:
        source: the address of a storage.
        destination: the address of another storage, which may hold snapshots of the same system and of others.
        system: the system's name, if the source holds several.
        snapshot: the snapshot's id; the latest by default.
        keys: if given, one of these keys must have signed the snapshot, or nothing is copied.
        progress: called with the progress.

    Returns the copy, opened for reading.

    Raises:
        NotFound: the system or snapshot does not exist. SnapshotDeleted: it was deleted during the copy.
        Damaged: the source is damaged, or the files of an interrupted copy at the destination are; nothing becomes
            visible there.
        Untrusted: none of the `keys` signed it.
        AlreadyExists: the destination holds another snapshot with this id.
        ConfigError: an address that cannot be used, or both are the same.
        IntentExpired: garbage collection at the destination gave up the copy, because it paused; copy again.
        StoreError: call again to go on.
    """
    from_store, to_store = open_store(source), open_store(destination)
    if from_store.url == to_store.url:
        raise ConfigError(
            f"{from_store.url} is both source and destination: give another destination", url=from_store.url
        )
    chosen = Storage(from_store).system(system).snapshot(snapshot)
    return copy_snapshot(from_store, to_store, chosen, keys=keys, progress=progress)


def copy_snapshot(
    source: Store,
    destination: Store,
    snapshot: Snapshot,
    *,
    keys: Sequence[Prover] | None = None,
    progress: Progress = lambda *_: None,
) -> Snapshot:
    """As `copy`, between stores that are open already."""
    with reading(CommitLog(source, snapshot.system), snapshot.id):
        if keys is not None:
            verify(snapshot.envelope, keys)
        for channel in snapshot.channels.values():
            channel.check()
        make_system(destination, snapshot.system)
        log = CommitLog(destination, snapshot.system)
        log.append_next(lambda _, position: _opening(snapshot.id, position))
        there = _find(log.history, snapshot) or _Copy(source, destination, snapshot, log, progress).run()
    return Snapshot(destination, snapshot.system, there)


class _Copy:
    """Copies one snapshot into the folder of the attempt that the destination's log expects."""

    def __init__(
        self, source: Store, destination: Store, snapshot: Snapshot, log: CommitLog, progress: Progress
    ) -> None:
        self._source = source
        self._destination = destination
        self._snapshot = snapshot
        self._log = log
        self._progress = progress
        self._done = 0
        self._total = snapshot.size_bytes + sum(folder.size_bytes for folder in snapshot.outside_folders)
        self._attempt = log.history.attempt(snapshot.id)
        self._name = f"{copy_folder(snapshot.id, self._attempt)}/{manifest_name(snapshot.id)}"
        self._folder = inside(snapshot.system, copy_folder(snapshot.id, self._attempt))

    def run(self) -> CommitRecord:
        """Write the missing objects, then the COPY record."""
        envelope = self._envelope()
        present = {entry.key: entry.size for entry in self._destination.list(self._folder)}
        self._copy_chunks(present)
        self._copy_files(present)
        create_once(self._destination, inside(self._snapshot.system, self._name), envelope)
        written = self._log.append_next(self._record)
        if isinstance(written, CopyRecord):
            return written
        return self._log.history.retained[self._snapshot.id]  # another copy has come to its end before this one

    def _envelope(self) -> bytes:
        """The sealed manifest as it is stored, so that its seal stays valid at the destination."""
        record = self._snapshot.record
        data = self._source.read_range(inside(self._snapshot.system, record.manifest_key), 0, ENVELOPE_BYTES_MAX + 1)
        if digest(data) != record.manifest_digest:
            raise BadManifest(f"the manifest of {self._snapshot.id} changed during the copy; nothing was copied")
        return data

    def _copy_chunks(self, present: Mapping[str, int]) -> None:
        chunks = self._snapshot.manifest.chunks
        self._add(0)

        def work(chunk: Chunk) -> int:
            there = inside(self._folder, chunk.key) in present
            return self._prove_chunk(chunk) if there else self._copy_chunk(chunk)

        with ThreadPoolExecutor(WORKERS, thread_name_prefix="rayshot-copy") as pool:
            for size in _bounded(pool, work, chunks):
                self._add(size)

    def _copy_files(self, present: Mapping[str, int]) -> None:
        """Copy what hooks wrote, one file after the other, as each may be larger than all chunks."""
        for folder in self._snapshot.outside_folders:
            folder.check()
            there = ActorFolder(self._destination, self._folder, self._snapshot.id, folder.actor, folder.files)
            for file in folder.files:
                key = f"{there.key}/{file.path}"
                if present.get(key) != file.size or not self._is_proved(there, file):
                    self._destination.write(key, map(self._counted, folder.proved(file)), file.size)

    def _is_proved(self, there: ActorFolder, file: OutsideFile) -> bool:
        """Whether an interrupted copy has left this file whole. Otherwise it is written again: no other bytes fit."""
        read = 0
        try:
            for part in there.proved(file):
                read += len(part)
                self._add(len(part))
        except Damaged:
            self._add(-read)
            return False
        return True

    def _counted(self, part: bytes) -> bytes:
        self._add(len(part))
        return part

    def _add(self, size: int) -> None:
        self._done += size
        self._progress("copying", self._done, self._total)

    def _prove_chunk(self, chunk: Chunk) -> int:
        """Prove a chunk of an interrupted copy. It is not replaced, because another copy may just have proved it."""
        key = inside(self._folder, chunk.key)
        try:
            stored = self._destination.read_range(key, 0, chunk.stored_size + 1)
        except KeyNotFound:
            return self._copy_chunk(chunk)  # garbage collection has given the copy up; `_record` will tell
        try:
            expand(decrypt_chunk(stored, chunk, self._snapshot.system), chunk)
        except Damaged as error:
            raise CorruptChunk(
                f"{key}, left at the destination by an interrupted copy, is damaged: let rayshot gc remove that "
                f"copy, which takes two passes, or remove {self._folder}/ by hand; then copy again",
                key=key,
            ) from error
        return len(stored)

    def _copy_chunk(self, chunk: Chunk) -> int:
        """Copy one chunk, proved by its digest. Return its stored bytes."""
        key = inside(self._snapshot.folder, chunk.key)
        try:
            stored = self._source.read_range(key, 0, chunk.stored_size + 1)
        except KeyNotFound as error:
            raise MissingChunk(f"{key} is not in the store; nothing was copied", key=key) from error
        expand(decrypt_chunk(stored, chunk, self._snapshot.system), chunk)
        create_once(self._destination, inside(self._folder, chunk.key), stored)
        return len(stored)

    def _record(self, history: History, position: int) -> CopyRecord | None:
        snapshot = self._snapshot
        if _find(history, snapshot) is not None:
            return None
        if history.attempt(snapshot.id) != self._attempt:
            raise IntentExpired(
                f"the copy of {snapshot.id} paused for so long that garbage collection at the destination removed it; "
                "copy again",
                snapshot=str(snapshot.id),
            )
        record = snapshot.record
        return CopyRecord(
            position=position,
            writer=f"copy-{uuid.uuid4().hex[:12]}",
            incarnation=record.incarnation,
            snapshot=record.snapshot,
            manifest_key=self._name,
            manifest_digest=record.manifest_digest,
            taken_at=record.taken_at,
            label=record.label,
            advances=record.advances,
            origin_position=record.sealed_for,
            attempt=self._attempt,
        )


def _opening(snapshot: SnapshotId, position: int) -> DeleteRecord | None:
    """The first record of an empty log. It changes nothing, but a log without records beside a copy looks lost."""
    return DeleteRecord(position, f"copy-{uuid.uuid4().hex[:12]}", snapshot) if position == 0 else None


def _find(history: History, snapshot: Snapshot) -> CommitRecord | None:
    """The snapshot at the destination, or None. Raises AlreadyExists if another snapshot there has its id."""
    record = history.retained.get(snapshot.id)
    if record is not None and record.manifest_digest != snapshot.record.manifest_digest:
        raise AlreadyExists(
            f"the destination holds another snapshot {snapshot.id} of {snapshot.system!r}: that system has lived on in "
            "both places; copy to another storage",
            snapshot=str(snapshot.id),
        )
    return record


def _bounded(pool: ThreadPoolExecutor, work: Callable[[Chunk], int], chunks: Sequence[Chunk]) -> Iterator[int]:
    """Yield the result of `work` for each chunk, in any order. At most WORKERS chunks are in work at once."""
    running: set[Future[int]] = set()
    for chunk in chunks:
        running.add(pool.submit(work, chunk))
        if len(running) >= WORKERS:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    yield from (future.result() for future in running)
