"""Blobs into chunks: what is large is cut, what is small is gathered, what is there already is not written again.

A chunk is named by the digest of its bytes, so an unchanged one is recognised without being read. Chunks that
this writer writes carry its own intent in their key: what is collected as garbage under another intent can
never be something that this snapshot found "already there".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rayshot.format.chunks import Buffer, compress, digest, split
from rayshot.format.encryption import encrypt_chunk
from rayshot.format.encryption_key import DataKey
from rayshot.format.manifest import Blob, Chunk, Span, chunk_key
from rayshot.store.layout import inside
from rayshot.store.once import create_once
from rayshot.store.several import several_at_once
from rayshot.store.store import Store

LARGE_BYTES_MIN = 64 << 10
"""A blob of this size gets chunks of its own, so that it is not written again when its neighbours change."""

PACK_BYTES_MAX = 1 << 20
"""Smaller blobs share a chunk of up to this size."""


class ChunkWriter:
    """Writes the chunks of one snapshot, or of one vault's part of it. For one thread; it starts some for large blobs.

    Args:
        store: where to.
        system: whose folder.
        intent: what `Repository.intend` returned for the snapshot.
        reuse: chunks by digest that are not written again: those of the snapshot that the intent leans on.
        data_key: encrypts what is written, see `Repository.new_data_key`; chunks to reuse are then encrypted ones only.
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
        """By ticket; None while the blob waits in the pack."""
        self._pack = bytearray()
        self._packed: list[tuple[int, int, int]] = []
        """(ticket, offset, length) of what waits in the pack."""
        self.written_bytes = 0
        """Stored bytes of the chunks that were really written."""

    def add(self, data: Buffer) -> int:
        """Take a blob and return its ticket, the index of its Blob in what `finish` returns.

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
        """Write what still waits; return the blobs by ticket, and every chunk that they lie in, once."""
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
        """As `_write`; what `map_` calls may run in several threads, so it changes nothing here."""
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


def merge_chunks(parts: Sequence[Sequence[Chunk]]) -> tuple[Chunk, ...]:
    """The chunks of several writers as a manifest lists them: each digest once."""
    return tuple({chunk.digest: chunk for part in parts for chunk in part}.values())
