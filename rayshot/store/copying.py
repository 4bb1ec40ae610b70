"""A snapshot from one store to another, whole, so that it can be restored from there.

Theory of operation. The copy lies in a folder of its own under the destination's `copies/`: the sealed manifest
and every chunk, byte for byte as they are, so that the signature holds and nothing there shares anything with
it. What was copied is in that folder and stays true whoever wrote it, so a copy that died goes on where it
was. Each chunk is proved by its digest before it is written, or where it is found there;
the cut equation is checked before anything is.
A log that is empty gets a record first, as without any it would look like one that was lost.
The COPY record comes last: with it the copy is there, before it nothing of it is. Should garbage collection
give up a copy that stood still for too long, it says so in the log; then the next attempt has another folder
(see docs/design/0015-copies-keep-their-seal.md).
"""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
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
from rayshot.format.manifest import Chunk
from rayshot.format.signing import Prover, verify
from rayshot.protocol.identity import SnapshotId
from rayshot.store.catalog import Storage, make_system
from rayshot.store.history import History
from rayshot.store.layout import copy_folder, inside, manifest_name
from rayshot.store.leases import reading
from rayshot.store.locate import open_store
from rayshot.store.log import CommitLog
from rayshot.store.once import create_once
from rayshot.store.records import CommitRecord, CopyRecord, DeleteRecord
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store

WORKERS = 8
"""Chunks under way at once; each is held in memory whole, twice while it is proved."""

Progress = Callable[[str, int, int], None]
"""Told what is done (a word), how much of it, and out of how many."""


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

    The copy needs nothing of the source, keeps its id, label and signature, and is found at the destination like any
    other snapshot. Retention leaves it alone. Copying again what is there does nothing; a copy that was interrupted
    goes on.

    Args:
        source: the address of a storage.
        destination: that of another one, which may hold snapshots of the same system and of others.
        system: which, where the source holds several.
        snapshot: which; the latest by default.
        keys: where given, one of these must have signed it, or nothing is copied.
        progress: told how far it is.

    Returns the copy, opened for reading.

    Raises:
        NotFound: no such system or snapshot; SnapshotDeleted where it is deleted under way.
        Damaged: the source is, or what an interrupted copy left at the destination; nothing becomes visible
            there.
        Untrusted: with `keys`, it is not signed by one of these.
        AlreadyExists: the destination holds another snapshot with this id.
        ConfigError: an address that cannot be used, or both are the same.
        IntentExpired: garbage collection at the destination gave the copy up, as it stood still; start again.
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
    with reading(source, snapshot.system, snapshot.id):
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
    """One snapshot on its way into the folder of the attempt that the destination's log expects."""

    def __init__(
        self, source: Store, destination: Store, snapshot: Snapshot, log: CommitLog, progress: Progress
    ) -> None:
        self._source = source
        self._destination = destination
        self._snapshot = snapshot
        self._log = log
        self._progress = progress
        self._attempt = log.history.attempt(snapshot.id)
        self._name = f"{copy_folder(snapshot.id, self._attempt)}/{manifest_name(snapshot.id)}"
        self._folder = inside(snapshot.system, copy_folder(snapshot.id, self._attempt))

    def run(self) -> CommitRecord:
        """Write what is missing, then the COPY record."""
        envelope = self._envelope()
        self._copy_chunks(frozenset(entry.key for entry in self._destination.list(self._folder)))
        create_once(self._destination, inside(self._snapshot.system, self._name), envelope)
        written = self._log.append_next(self._record)
        if isinstance(written, CopyRecord):
            return written
        return self._log.history.retained[self._snapshot.id]  # another copy has come to its end before this one

    def _envelope(self) -> bytes:
        """The sealed manifest as it is stored; its seal has to fit it at the destination too."""
        record = self._snapshot.record
        data = self._source.read_range(inside(self._snapshot.system, record.manifest_key), 0, ENVELOPE_BYTES_MAX + 1)
        if digest(data) != record.manifest_digest:
            raise BadManifest(f"the manifest of {self._snapshot.id} changed during the copy; nothing was copied")
        return data

    def _copy_chunks(self, present: frozenset[str]) -> None:
        chunks = self._snapshot.manifest.chunks
        total = sum(chunk.stored_size for chunk in chunks)
        done = 0
        self._progress("copying", done, total)

        def work(chunk: Chunk) -> int:
            there = inside(self._folder, chunk.key) in present
            return self._prove_chunk(chunk) if there else self._copy_chunk(chunk)

        with ThreadPoolExecutor(WORKERS, thread_name_prefix="rayshot-copy") as pool:
            for size in _bounded(pool, work, chunks):
                done += size
                self._progress("copying", done, total)

    def _prove_chunk(self, chunk: Chunk) -> int:
        """Prove one that an interrupted copy has left; it is not replaced, as another copy may just have proved it."""
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
        """Copy one chunk, proved by its digest; returns its stored bytes."""
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
            origin_position=record.sealed_for,
            attempt=self._attempt,
        )


def _opening(snapshot: SnapshotId, position: int) -> DeleteRecord | None:
    """The first record of a log, which changes nothing: a log without any beside a copy is one that was lost."""
    return DeleteRecord(position, f"copy-{uuid.uuid4().hex[:12]}", snapshot) if position == 0 else None


def _find(history: History, snapshot: Snapshot) -> CommitRecord | None:
    """The snapshot at the destination, if it is there already; raises AlreadyExists where another one has its id."""
    record = history.retained.get(snapshot.id)
    if record is not None and record.manifest_digest != snapshot.record.manifest_digest:
        raise AlreadyExists(
            f"the destination holds another snapshot {snapshot.id} of {snapshot.system!r}: that system has lived on in "
            "both places; copy to another storage",
            snapshot=str(snapshot.id),
        )
    return record


def _bounded(pool: ThreadPoolExecutor, work: Callable[[Chunk], int], chunks: Sequence[Chunk]) -> Iterator[int]:
    """Yield what `work` makes of each chunk, in any order, with no more of them begun than there are workers."""
    running: set[Future[int]] = set()
    for chunk in chunks:
        running.add(pool.submit(work, chunk))
        if len(running) >= WORKERS:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    yield from (future.result() for future in running)
