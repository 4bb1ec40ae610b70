"""Writes blobs as chunks: it cuts large blobs, packs small ones, and does not write existing chunks again.

The name of a chunk is the digest of its bytes, so an unchanged chunk is recognised without reading it. The key of a new
chunk holds the writer's own intent. So garbage collection of another intent can never remove a chunk that this snapshot
wrote.
"""

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rayshot.errors import KeyNotFound
from rayshot.format.chunks import Buffer, compress, digest, split
from rayshot.format.encryption import encrypt_chunk
from rayshot.format.entries import Blob, Chunk, Span
from rayshot.format.entry_checks import chunk_key
from rayshot.keys.encryption import DataKey
from rayshot.log.layout import chunk_folder, inside
from rayshot.places.calls import create_once, several_at_once
from rayshot.places.store import Store

log = logging.getLogger("rayshot")
LOOKED_FOR = 3
LARGE_BYTES_MIN = 64 << 10
"""A blob of this size gets separate chunks, so that it is not written again when its neighbours change."""

PACK_BYTES_MAX = 1 << 20
"""Smaller blobs share a chunk of up to this size."""


class ChunkWriter:
    """Writes the chunks of one snapshot, or of one vault's part of it. One thread may use it; it starts others.

    Args:
        store: the storage of the system.
        system: the name of the system.
        intent: the result of `Repository.intend` for the snapshot.
        reuse: chunks by digest that are not written again: the chunks of the intent's base.
        data_key: encrypts the chunks, see `Repository.new_data_key`; then all chunks to reuse must be encrypted.
    """

    def __init__(
        self,
        store: Store,
        system: str,
        intent: str,
        reuse: Mapping[str, Chunk] | None = None,
        data_key: DataKey | None = None,
    ) -> None:
        self._store = store
        self._system = system
        self._intent = intent
        self._reuse = {} if reuse is None else reuse
        self._data_key = data_key
        self._chunks: dict[str, Chunk] = {}
        self._blobs: list[Blob | None] = []
        """Ticket -> Blob; None while the blob waits in the pack."""
        self._pack = bytearray()
        self._packed: list[tuple[int, int, int]] = []
        """(ticket, offset, length) of the blobs that wait in the pack."""
        self.written_bytes = 0
        """Stored bytes of the written chunks, without reused ones."""

    def add(self, data: Buffer) -> int:
        """Take a blob and return its ticket, the index of its Blob in the result of `finish`.

        A large blob is written before this returns, a small one is copied: `data` may change afterwards.
        Raises StoreError.
        """
        view = memoryview(data).cast("B")
        if 0 < view.nbytes < LARGE_BYTES_MIN:
            return self._gather(view)
        pieces = split(view)
        names = self._write(pieces)
        self._blobs.append(Blob(tuple(Span(name, 0, piece.nbytes) for name, piece in zip(names, pieces, strict=True))))
        return len(self._blobs) - 1

    def finish(self) -> tuple[list[Blob], list[Chunk]]:
        """Write the waiting blobs. Return the blobs by ticket, and all their chunks, each once."""
        self._write_pack()
        return [blob for blob in self._blobs if blob is not None], list(self._chunks.values())

    def _gather(self, view: memoryview) -> int:
        if len(self._pack) + view.nbytes > PACK_BYTES_MAX:
            self._write_pack()
        ticket = len(self._blobs)
        self._packed.append((ticket, len(self._pack), view.nbytes))
        self._pack += view
        self._blobs.append(None)
        return ticket

    def _write_pack(self) -> None:
        if not self._packed:
            return
        (name,) = self._write([memoryview(bytes(self._pack))])
        for ticket, offset, length in self._packed:
            self._blobs[ticket] = Blob((Span(name, offset, length),))
        self._pack.clear()
        self._packed.clear()

    def _write(self, pieces: Sequence[memoryview]) -> list[str]:
        """Make sure that the bytes of all `pieces` are stored; return their digests."""
        with several_at_once(len(pieces), "rayshot-write") as map_:
            return self._write_by(map_, pieces)

    def _write_by(self, map_: Callable[..., Iterable[Any]], pieces: Sequence[memoryview]) -> list[str]:
        """As `_write`. `map_` may call it in several threads, so it changes no attribute."""
        names = list(map_(digest, pieces))
        new = {}
        for name, piece in zip(names, pieces, strict=True):
            known = self._reuse.get(name)
            if known is not None and (known.data_key is None) is (self._data_key is None):
                self._chunks[name] = known
            elif name not in self._chunks:
                new[name] = piece
        for chunk in map_(self._create, new, new.values()):
            self._chunks[chunk.digest] = chunk
            self.written_bytes += chunk.stored_size
        return names

    def _create(self, name: str, piece: memoryview) -> Chunk:
        codec, stored = compress(piece)
        if self._data_key is None:
            key = chunk_key(name, self._intent)
        else:
            key = chunk_key(self._data_key.chunk_name(name), self._intent)
            stored = encrypt_chunk(stored, key, self._system, self._data_key)
        create_once(self._store, inside(self._system, key), stored)
        return Chunk(key, name, piece.nbytes, memoryview(stored).nbytes, codec, self._data_key)


def find_present(store: Store, system: str, chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
    """The chunks that exist in the store, by digest, so that a new snapshot names no chunk that was removed.

    Looking for each chunk would cost more than a snapshot that changes little. So this looks for LOOKED_FOR of
    them, different ones each time, and lists all if one is gone. It can miss a few among many: `Snapshot.verify`
    finds those.

    Raises StoreError.
    """
    names = random.sample(sorted(chunks), min(LOOKED_FOR, len(chunks)))

    def is_there(name: str) -> bool:
        try:
            store.read_range(inside(system, chunks[name].key), 0, 1)
        except KeyNotFound:
            return False
        return True

    with several_at_once(len(names), "rayshot-look") as map_:
        if all(map_(is_there, names)):
            return dict(chunks)
    listed = {entry.key for entry in store.list(chunk_folder(system))}
    present = {name: chunk for name, chunk in chunks.items() if inside(system, chunk.key) in listed}
    log.warning(
        "%d of %d chunks of the last snapshot of %r are gone from %s: what is needed of them is written anew, and "
        "snapshots that share them are damaged, see rayshot verify",
        len(chunks) - len(present), len(chunks), system, store.url,
    )  # fmt: skip
    return present
