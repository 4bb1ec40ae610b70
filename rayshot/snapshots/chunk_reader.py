"""Joins chunks to blobs, and proves every byte by its digest."""

import mmap
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from itertools import accumulate

from rayshot.errors import KeyNotFound, LimitExceeded, MissingChunk
from rayshot.format.bounds import BLOB_BYTES_MAX
from rayshot.format.chunks import expand
from rayshot.format.encryption import decrypt_chunk
from rayshot.format.entries import Blob, CapturedState, Chunk, Span
from rayshot.log.layout import inside
from rayshot.places.calls import several_at_once
from rayshot.places.store import Store

HUGE_BYTES_MIN = 4 << 20
"""Memory of this size or larger is asked for in huge pages."""


class ChunkReader:
    """Reads blobs of one snapshot of `system`. Its chunks are in `folder`, by default the system's folder.

    It keeps the last chunk, so that small blobs in one pack cost one read. Many threads can use it, because the kept
    chunk is replaced as a whole.
    """

    def __init__(self, store: Store, system: str, chunks: Mapping[str, Chunk], folder: str | None = None) -> None:
        self._store = store
        self._system = system
        self._folder = folder or system
        self._chunks = chunks
        self._last: tuple[str, bytes] = ("", b"")
        """The digest and the bytes of the last chunk."""

    def read(self, blob: Blob) -> bytes:
        """Return the bytes of `blob`; raises MissingChunk, CorruptChunk, LimitExceeded, StoreError."""
        _check_size(blob)
        joined = BytesIO()  # holds one chunk besides the result, where joining a list would hold all of them
        for span in blob.spans:
            joined.write(memoryview(self.chunk(span.chunk))[span.offset : span.offset + span.length])
        return joined.getvalue()

    def read_writable(self, blob: Blob) -> memoryview:
        """As `read`, several chunks at once, without a second copy of the whole, into memory that may be changed.

        It allocates all that the manifest announces first: use it only for signed manifests.
        """
        _check_size(blob)
        whole = _memory(blob.size)

        def fill(span: Span, end: int) -> None:
            start = end - span.length
            whole[start:end] = memoryview(self.chunk(span.chunk))[span.offset : span.offset + span.length]

        ends = accumulate(span.length for span in blob.spans)
        with several_at_once(len(blob.spans), "rayshot-read") as map_:
            list(map_(fill, blob.spans, ends))
        return whole

    def read_parts(self, captured: CapturedState) -> tuple[bytes, list[bytes]]:
        """The stream and the buffers of a pickle; raises as `read`."""
        return self.read(captured.stream), [self.read(blob) for blob in captured.buffers]

    def chunk(self, digest: str) -> bytes:
        """Return the uncompressed bytes of a chunk that the snapshot lists; raises as `read`."""
        name, content = self._last
        if name == digest:
            return content
        content = self._load(digest)
        self._last = (digest, content)
        return content

    def _load(self, digest: str) -> bytes:
        chunk = self._chunks.get(digest)
        if chunk is None:
            raise MissingChunk(f"the manifest does not list the chunk {digest}", digest=digest)
        try:  # one byte more than there should be shows a chunk that has grown
            stored = self._store.read_range(inside(self._folder, chunk.key), 0, chunk.stored_size + 1)
        except KeyNotFound as error:
            raise MissingChunk(
                f"the chunk {chunk.key} of the system {self._system!r} is not in the store; "
                "`rayshot verify` shows whether another snapshot is whole",
                key=chunk.key,
            ) from error
        return expand(decrypt_chunk(stored, chunk, self._system), chunk)


class _Memory(bytearray):
    """Not a bytearray of a user: see `format.shared_arrays`, which looks for those in a state."""

    __slots__ = ()


def _memory(size: int) -> memoryview:
    """New memory of this process. Huge pages take a fifth of the processor time that ordinary ones take to fill."""
    if size < HUGE_BYTES_MIN:
        return memoryview(_Memory(size))
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a forked capture sees no later change
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def _check_size(blob: Blob) -> None:
    if blob.size > BLOB_BYTES_MAX:
        raise LimitExceeded(f"a blob of {blob.size} bytes is above the limit of {BLOB_BYTES_MAX}")
