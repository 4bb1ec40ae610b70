"""Chunks: bytes cut to pieces, named by their digest, compressed, and expanded within their announced size.

A chunk of the codec "raw" is stored as it is. A chunk of the codec "zstd" is stored as a zstd frame and a seal. The
seal is a skippable frame, which zstd's own tools skip, and holds a digest of the first frame. Without the seal some
flipped bits would go unseen, because a zstd frame has bits that do not change the expanded bytes.
"""

import zstandard
from blake3 import blake3

from rayshot.errors import CorruptChunk, LimitExceeded
from rayshot.format.bounds import CHUNK_BYTES_MAX
from rayshot.format.entries import Chunk, ChunkCodec

CHUNK_SIZE = 4 << 20
"""Bytes of one chunk before compression. The last chunk of a buffer has the rest."""

ZSTD_LEVEL = 1

SAMPLED_BYTES_MIN = 1 << 20
"""A chunk of this size or larger is compressed only if samples of it shrink."""

SAMPLES, SAMPLE_BYTES = 16, 4 << 10
SHRUNK_SHARE_MAX = 0.98

_SEAL_HEAD = b"\x50\x2a\x4d\x18\x10\x00\x00\x00"
"""The number of a skippable frame, and the 16 bytes that follow."""

_SEAL_LENGTH = len(_SEAL_HEAD) + 16

Buffer = bytes | bytearray | memoryview


def split(buffer: Buffer) -> list[memoryview]:
    """Views of CHUNK_SIZE bytes each, the last of 1 to CHUNK_SIZE. An empty buffer has none. It copies nothing.

    `buffer` is contiguous in C's order, of any item size.
    """
    view = memoryview(buffer)
    if view.nbytes == 0:
        return []
    flat = view.cast("B")
    return [flat[start : start + CHUNK_SIZE] for start in range(0, flat.nbytes, CHUNK_SIZE)]


def new_hasher() -> blake3:
    """A hasher of bytes that come in parts; its `hexdigest` is what `digest` gives for all of them."""
    return blake3()


def digest(view: Buffer) -> str:
    """BLAKE3 as 64 hexadecimal digits."""
    return blake3(view).hexdigest()


def compress(view: Buffer) -> tuple[ChunkCodec, Buffer]:
    """The codec and the bytes to store: zstd with the size in its header, or raw if zstd is not shorter.

    A large chunk is sampled first. If the samples hardly shrink, the rest mostly would not either, and the chunk is
    stored raw. Raw bytes are `view` itself, not a copy.
    """
    size = memoryview(view).nbytes
    if size >= SAMPLED_BYTES_MIN and not _shrinks(view):
        return "raw", view
    frame = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_content_size=True).compress(view)
    if len(frame) + _SEAL_LENGTH < size:
        return "zstd", frame + _seal(frame)
    return "raw", view


def _shrinks(view: Buffer) -> bool:
    """Whether samples from all over a large chunk shrink by more than their headers cost."""
    flat = memoryview(view).cast("B")
    starts = range(0, flat.nbytes - SAMPLE_BYTES, flat.nbytes // SAMPLES)
    samples = b"".join(flat[start : start + SAMPLE_BYTES] for start in starts)
    return len(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(samples)) < SHRUNK_SHARE_MAX * len(samples)


def expand(stored: bytes, chunk: Chunk) -> bytes:
    """The uncompressed bytes of `chunk`, proved by its digest. `stored` holds the store's bytes, decrypted.

    Never allocates more than the size that the manifest announces. Raises LimitExceeded for a size above
    CHUNK_BYTES_MAX that the manifest or the bytes announce, and CorruptChunk for everything else that is wrong.
    """
    if chunk.size > CHUNK_BYTES_MAX:
        raise _too_large(chunk, chunk.size)
    if len(stored) != chunk.packed_size:
        raise _corrupt(chunk, f"{len(stored)} bytes are stored instead of {chunk.packed_size}")
    data = stored if chunk.codec == "raw" else _decompress(_unseal(stored, chunk), chunk)
    if len(data) != chunk.size:
        raise _corrupt(chunk, f"it holds {len(data)} bytes instead of {chunk.size}")
    if digest(data) != chunk.digest:
        raise _corrupt(chunk, "its bytes have another digest")
    return data


def _seal(frame: Buffer) -> bytes:
    return _SEAL_HEAD + blake3(frame).digest(16)


def _unseal(stored: bytes, chunk: Chunk) -> memoryview:
    frame, seal = memoryview(stored)[:-_SEAL_LENGTH], stored[-_SEAL_LENGTH:]
    if seal != _seal(frame):
        raise _corrupt(chunk, "its seal is broken")
    return frame


def _decompress(frame: memoryview, chunk: Chunk) -> bytes:
    """Check the header first: a decompressor allocates the announced size, whatever limit it gets."""
    try:
        header = zstandard.get_frame_parameters(frame)
        unknown = header.content_size == zstandard.CONTENTSIZE_UNKNOWN
        if not unknown and header.content_size > CHUNK_BYTES_MAX:
            raise _too_large(chunk, header.content_size)
        if unknown or header.content_size != chunk.size:
            raise _corrupt(chunk, "its header announces another size")
        decompressor = zstandard.ZstdDecompressor(max_window_size=CHUNK_BYTES_MAX)
        return decompressor.decompress(frame, max_output_size=chunk.size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _corrupt(chunk, str(error)) from error


def _too_large(chunk: Chunk, size: int) -> LimitExceeded:
    return LimitExceeded(
        f"the chunk {chunk.key} announces {size} bytes, above the limit of {CHUNK_BYTES_MAX}",
        key=chunk.key,
        size_bytes=size,
        limit=CHUNK_BYTES_MAX,
    )


def _corrupt(chunk: Chunk, why: str) -> CorruptChunk:
    return CorruptChunk(
        f"the chunk {chunk.key} is damaged: {why}; `rayshot verify` shows whether another snapshot is whole",
        key=chunk.key,
    )
