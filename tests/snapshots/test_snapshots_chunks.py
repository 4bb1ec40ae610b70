import os
import random
import threading
from dataclasses import replace

import pytest

from rayshot.errors import CorruptChunk, LimitExceeded, MissingChunk, StoreFull, UnsafePath
from rayshot.format.bounds import BLOB_BYTES_MAX
from rayshot.format.chunks import CHUNK_SIZE
from rayshot.format.entries import Blob, Chunk, Span
from rayshot.places.store import Data
from rayshot.snapshots.chunk_reader import ChunkReader
from rayshot.snapshots.chunk_writer import LARGE_BYTES_MIN, PACK_BYTES_MAX, ChunkWriter
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore

NOISE = random.Random(7).randbytes(CHUNK_SIZE * 2 + 5)


def written(*data: bytes) -> tuple[FaultyStore, list[Blob], dict[str, Chunk]]:
    store = FaultyStore()
    writer = ChunkWriter(store, "bank", "1-coordinator-1")
    tickets = [writer.add(one) for one in data]
    blobs, chunks = writer.finish()
    assert tickets == list(range(len(data)))
    assert writer.written_bytes == sum(entry.size for entry in store.list())
    return store, blobs, {chunk.digest: chunk for chunk in chunks}


def test_blobs_of_all_sizes_are_read_back() -> None:
    sizes = [0, 1, LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, 3, CHUNK_SIZE, CHUNK_SIZE + 1, CHUNK_SIZE * 2 + 5, 0, 7]
    data = [NOISE[size : size + size] or NOISE[:size] for size in sizes]
    store, blobs, chunks = written(*data)
    assert [ChunkReader(store, "bank", chunks).read(blob) for blob in blobs] == data
    assert [ChunkReader(store, "bank", chunks).read_writable(blob) for blob in blobs] == data
    assert [blob.size for blob in blobs] == [len(one) for one in data]


def test_a_forked_process_keeps_large_blobs_as_they_were_when_the_reader_changes_them() -> None:
    store, blobs, chunks = written(NOISE)
    memory = ChunkReader(store, "bank", chunks).read_writable(blobs[0])
    changed, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(changed, 1)
        os._exit(0 if memory == NOISE else 1)
    memory[0] ^= 255
    os.write(go, b".")
    assert os.waitpid(child, 0) == (child, 0)
    assert memory[1:] == NOISE[1:]
    os.close(changed)
    os.close(go)


def test_small_blobs_share_chunks_and_are_read_with_one_call_each_pack() -> None:
    data = [NOISE[n * 1000 : n * 1000 + 1000] for n in range(3000)]
    store, blobs, chunks = written(*data)
    assert len(chunks) == 3
    assert all(chunk.size <= PACK_BYTES_MAX for chunk in chunks.values())
    reader, before = ChunkReader(store, "bank", chunks), store.calls
    assert [reader.read(blob) for blob in blobs] == data
    assert store.calls - before == 3


def test_the_same_bytes_are_written_once() -> None:
    store, blobs, chunks = written(NOISE[:CHUNK_SIZE] * 3, NOISE[:CHUNK_SIZE])
    assert len(chunks) == len(list(store.list())) == 1
    assert blobs[0].size == 3 * CHUNK_SIZE


def test_chunks_to_reuse_are_named_and_not_written() -> None:
    store, _, chunks = written(NOISE[: CHUNK_SIZE + 1])
    writer = ChunkWriter(store, "bank", "1-coordinator-2", reuse=chunks)
    before = store.calls
    writer.add(NOISE[: CHUNK_SIZE + 1])
    _, again = writer.finish()
    assert store.calls == before
    assert {chunk.key for chunk in again} == {chunk.key for chunk in chunks.values()}
    assert writer.written_bytes == 0


def test_without_reuse_every_intent_writes_under_keys_of_its_own() -> None:
    store, _, first = written(NOISE[:CHUNK_SIZE])
    writer = ChunkWriter(store, "bank", "1-coordinator-2")
    writer.add(NOISE[:CHUNK_SIZE])
    _, second = writer.finish()
    assert [chunk.key for chunk in second] != [chunk.key for chunk in first.values()]
    assert len(list(store.list())) == 2
    assert [chunk.digest for chunk in second] == [*first]


class MeetingStore(FaultyStore):
    """Two that write, or two that read, must be under way at once, or neither comes through."""

    def __init__(self) -> None:
        super().__init__()
        self._both = threading.Barrier(2, timeout=20)

    def create(self, key: str, data: Data) -> None:
        self._both.wait()
        super().create(key, data)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._both.wait()
        return super().read_range(key, start, length)


def test_chunks_of_a_large_blob_are_written_and_read_at_once() -> None:
    store = MeetingStore()
    writer = ChunkWriter(store, "bank", "i")
    writer.add(NOISE[: CHUNK_SIZE * 2])
    blobs, chunks = writer.finish()
    reader = ChunkReader(store, "bank", {chunk.digest: chunk for chunk in chunks})
    assert reader.read_writable(blobs[0]) == NOISE[: CHUNK_SIZE * 2]
    assert [span.chunk for span in blobs[0].spans] == [chunk.digest for chunk in chunks]


def test_nothing_is_written_any_more_when_a_failure_is_told() -> None:
    store = FaultyStore()
    store.fault = Fault(1, count=1000, error=lambda: StoreFull("no room"))
    writer = ChunkWriter(store, "bank", "i")
    with pytest.raises(StoreFull):
        writer.add(NOISE)
    calls = store.calls
    assert calls <= 3
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("rayshot-write")] == []


def test_a_small_blob_may_change_after_it_was_added() -> None:
    store = FaultyStore()
    writer = ChunkWriter(store, "bank", "i")
    data = bytearray(b"before")
    writer.add(data)
    data[:] = b"after!"
    blobs, chunks = writer.finish()
    assert ChunkReader(store, "bank", {chunk.digest: chunk for chunk in chunks}).read(blobs[0]) == b"before"


def test_a_lost_answer_while_writing_is_no_loss() -> None:
    store = FaultyStore()
    store.fault = Fault(1, FaultEffect.AFTER)
    writer = ChunkWriter(store, "bank", "i")
    writer.add(b"x")
    blobs, chunks = writer.finish()
    assert ChunkReader(store, "bank", {chunk.digest: chunk for chunk in chunks}).read(blobs[0]) == b"x"


@pytest.mark.acceptance("G7")
def test_a_chunk_flipped_at_any_byte_is_corrupt() -> None:
    for data in (b"a" * 2000, NOISE[:300]):
        store, blobs, chunks = written(data)
        (chunk,) = chunks.values()
        stored = store.read(f"bank/{chunk.key}")
        for place in range(len(stored)):
            flipped = bytearray(stored)
            flipped[place] ^= 1
            store.put_raw(f"bank/{chunk.key}", bytes(flipped))
            with pytest.raises((CorruptChunk, LimitExceeded)):
                ChunkReader(store, "bank", chunks).read(blobs[0])


@pytest.mark.acceptance("G8")
def test_a_chunk_that_is_cut_or_longer_is_corrupt() -> None:
    store, blobs, chunks = written(b"abc" * 1000)
    (chunk,) = chunks.values()
    stored = store.read(f"bank/{chunk.key}")
    for wrong in (b"", stored[:-1], stored[:5], stored + b"x", stored + stored):
        store.put_raw(f"bank/{chunk.key}", wrong)
        with pytest.raises(CorruptChunk):
            ChunkReader(store, "bank", chunks).read(blobs[0])


@pytest.mark.acceptance("G9")
def test_chunks_that_were_swapped_are_corrupt() -> None:
    store, blobs, chunks = written(NOISE[:CHUNK_SIZE], NOISE[CHUNK_SIZE : 2 * CHUNK_SIZE])
    first, second = (f"bank/{chunk.key}" for chunk in chunks.values())
    one, other = store.read(first), store.read(second)
    store.put_raw(first, other)
    store.put_raw(second, one)
    for blob in blobs:
        with pytest.raises(CorruptChunk, match="digest"):
            ChunkReader(store, "bank", chunks).read(blob)
        with pytest.raises(CorruptChunk, match="digest"):
            ChunkReader(store, "bank", chunks).read_writable(blob)


@pytest.mark.acceptance("G9")
def test_a_chunk_that_is_gone_is_missing() -> None:
    store, blobs, chunks = written(b"x")
    (chunk,) = chunks.values()
    store.delete(f"bank/{chunk.key}")
    with pytest.raises(MissingChunk, match="is not in the store"):
        ChunkReader(store, "bank", chunks).read(blobs[0])


@pytest.mark.acceptance("G9")
def test_a_span_in_a_chunk_that_is_not_listed_is_missing() -> None:
    store, blobs, _ = written(b"x")
    with pytest.raises(MissingChunk, match="does not list"):
        ChunkReader(store, "bank", {}).read(blobs[0])


@pytest.mark.acceptance("G10")
def test_a_chunk_key_that_leaves_the_folder_is_refused() -> None:
    store, blobs, chunks = written(b"x")
    (chunk,) = chunks.values()
    with pytest.raises(UnsafePath):
        ChunkReader(store, "bank", {chunk.digest: replace(chunk, key="../../etc/passwd")}).read(blobs[0])


@pytest.mark.acceptance("G11")
def test_a_blob_that_repeats_a_chunk_beyond_all_bounds_is_refused_before_it_is_built() -> None:
    store, _, chunks = written(NOISE[:CHUNK_SIZE])
    (chunk,) = chunks.values()
    bomb = Blob((Span(chunk.digest, 0, chunk.size),) * (BLOB_BYTES_MAX // chunk.size + 1))
    with pytest.raises(LimitExceeded):
        ChunkReader(store, "bank", chunks).read(bomb)
