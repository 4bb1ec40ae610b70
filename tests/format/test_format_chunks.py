"""Chunks: round trips, and stored bytes that lie."""

import array
import dataclasses
import os
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import CorruptChunk, LimitExceeded
from rayshot.format.bounds import CHUNK_BYTES_MAX
from rayshot.format.chunks import CHUNK_SIZE, _seal, compress, digest, expand, split
from rayshot.format.entries import Chunk
from rayshot.format.entry_checks import chunk_key

TEXT = b"to and fro " * 1000
NOISE = os.urandom(1000)


def sealed(frame, size, name="0" * 64):
    data = frame + _seal(frame)
    return data, Chunk(chunk_key(name, "i"), name, size, len(data), "zstd")


def stored(data):
    codec, packed = compress(data)
    name = digest(data)
    return packed, Chunk(chunk_key(name, "i"), name, len(data), len(packed), codec)


@settings(derandomize=True)
@given(st.binary(min_size=1, max_size=5000))
def test_what_was_compressed_expands_to_itself(data):
    assert expand(*stored(data)) == data


def test_what_does_not_shrink_is_stored_raw():
    assert compress(NOISE) == ("raw", NOISE)
    assert compress(TEXT)[0] == "zstd"


def test_a_large_chunk_is_compressed_where_samples_of_it_shrink():
    noise = memoryview(os.urandom(CHUNK_SIZE))
    codec, packed = compress(noise)
    assert codec == "raw"
    assert packed is noise, "it was copied"
    for mixed in (bytes(CHUNK_SIZE), bytes(CHUNK_SIZE // 2) + noise[CHUNK_SIZE // 2 :].tobytes(), TEXT * 200):
        assert compress(mixed)[0] == "zstd"
        assert expand(*stored(mixed)) == mixed


def test_noise_is_not_compressed_only_to_find_that_it_does_not_shrink(monkeypatch):
    sizes, compressor = [], zstandard.ZstdCompressor

    class Counting:  # no subclass: those of zstandard's types corrupt memory when they are freed
        def __init__(self, **settings):
            self._compressor = compressor(**settings)

        def compress(self, data):
            sizes.append(len(data))
            return self._compressor.compress(data)

    monkeypatch.setattr(zstandard, "ZstdCompressor", Counting)
    compress(os.urandom(CHUNK_SIZE))
    assert sum(sizes) < CHUNK_SIZE / 50


def test_a_buffer_is_split_at_fixed_offsets_without_a_copy():
    data = bytearray(2 * CHUNK_SIZE + 7)
    views = split(data)
    data[0], data[-1] = 1, 2
    assert [view.nbytes for view in views] == [CHUNK_SIZE, CHUNK_SIZE, 7]
    assert (views[0][0], views[2][6]) == (1, 2)
    assert b"".join(views) == data


@pytest.mark.parametrize("buffer", [b"", bytearray(), memoryview(b""), memoryview(array.array("d"))])
def test_an_empty_buffer_has_no_chunks(buffer):
    assert split(buffer) == []


def test_a_buffer_of_wide_items_is_split_by_bytes():
    wide = array.array("d", [1.0, 2.0])
    assert b"".join(split(memoryview(wide))) == wide.tobytes()


@pytest.mark.acceptance("G7")
@pytest.mark.parametrize("data", [TEXT, NOISE])
def test_every_flipped_bit_is_seen(data):
    packed, chunk = stored(data)
    for index in range(len(packed)):
        flipped = bytearray(packed)
        flipped[index] ^= 1 << index % 8
        with pytest.raises(CorruptChunk):
            expand(bytes(flipped), chunk)


def test_zstd_alone_reads_a_stored_chunk():
    packed, _ = stored(TEXT)
    assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == TEXT


@pytest.mark.acceptance("G8")
@pytest.mark.parametrize("data", [TEXT, NOISE])
def test_cut_longer_and_swapped_chunks_are_seen(data):
    packed, chunk = stored(data)
    for length in range(len(packed)):
        cut = dataclasses.replace(chunk, stored_size=length)
        for announced in (chunk, cut):
            with pytest.raises(CorruptChunk):
                expand(packed[:length], announced)
    longer = dataclasses.replace(chunk, stored_size=len(packed) + 1)
    for announced in (chunk, longer):
        with pytest.raises(CorruptChunk):
            expand(packed + b"\0", announced)
    other, other_chunk = stored(data[::-1])
    with pytest.raises(CorruptChunk):
        expand(other, dataclasses.replace(chunk, stored_size=len(other), codec=other_chunk.codec))


@pytest.mark.acceptance("G8")
def test_a_second_frame_behind_the_first_is_seen():
    frame = zstandard.compress(TEXT)
    assert expand(*sealed(frame, len(TEXT), digest(TEXT))) == TEXT
    with pytest.raises(CorruptChunk):
        expand(*sealed(frame + frame, len(TEXT), digest(TEXT)))


@pytest.mark.acceptance("G11")
def test_a_compression_bomb_does_not_go_off():
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(CHUNK_BYTES_MAX + 1))
    data, chunk = sealed(bomb, 100)
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            expand(data, chunk)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.acceptance("G11")
def test_a_bomb_that_hides_its_size_does_not_go_off():
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    with pytest.raises(CorruptChunk):
        expand(*sealed(bomb, 100))


@pytest.mark.acceptance("G11")
@pytest.mark.parametrize("size", [1, len(TEXT) - 1, len(TEXT) + 1, 2**40, 2**63])
def test_a_header_that_lies_about_the_size_is_seen(size):
    honest = zstandard.compress(TEXT)
    assert honest[4] == 0x60
    # Descriptor 0xE0: one segment, eight bytes of content size; the honest frame spends two of them.
    lying = honest[:4] + b"\xe0" + size.to_bytes(8, "little") + honest[7:]
    for announced in (size, len(TEXT)):
        with pytest.raises((CorruptChunk, LimitExceeded)):
            expand(*sealed(lying, announced, digest(TEXT)))


@pytest.mark.acceptance("G11")
def test_a_chunk_announced_as_small_allocates_no_more_whatever_its_header_says(monkeypatch):
    def decompress(*_args, **_settings):
        pytest.fail("a decompressor allocates what the header announces")

    large = zstandard.compress(bytes(60 << 20))
    monkeypatch.setattr(zstandard, "ZstdDecompressor", decompress)
    with pytest.raises(CorruptChunk, match="header announces another size"):
        expand(*sealed(large, 10, digest(TEXT)))


@pytest.mark.acceptance("G11")
def test_a_window_that_would_need_gigabytes_is_refused():
    honest = zstandard.compress(TEXT)
    # Descriptor 0xC0: a window byte (here 2**41 bytes) and eight bytes of content size.
    wide = honest[:4] + b"\xc0\xf8" + len(TEXT).to_bytes(8, "little") + honest[7:]
    with pytest.raises(CorruptChunk, match="memory"):
        expand(*sealed(wide, len(TEXT), digest(TEXT)))


@pytest.mark.acceptance("G11")
def test_a_manifest_that_announces_too_much_is_refused_before_anything_else():
    with pytest.raises(LimitExceeded):
        expand(b"", Chunk("k", "0" * 64, CHUNK_BYTES_MAX + 1, 0, "raw"))


@pytest.mark.acceptance("G7")
@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300), st.sampled_from(["raw", "zstd"]))
def test_arbitrary_bytes_are_corrupt(data, size, codec):
    for prefix in (b"", b"\x28\xb5\x2f\xfd"):
        with pytest.raises((CorruptChunk, LimitExceeded)):
            expand(prefix + data, Chunk("k", "0" * 64, size, len(prefix + data), codec))
        with pytest.raises((CorruptChunk, LimitExceeded)):
            expand(*sealed(prefix + data, size))
