"""Bombs: few bytes that announce many. Each is refused before anything is allocated for what it announces."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import msgpack
import pytest

from rayshot.audit.document import Document
from rayshot.audit.findings import Unproved
from rayshot.audit.segment import read_segment
from rayshot.errors import BadManifest, Damaged, LimitExceeded
from rayshot.format import canonical
from rayshot.format.bounds import CHUNK_BYTES_MAX, ENVELOPE_BYTES_MAX
from rayshot.format.codec import Frame, pack_frames, read_frames, read_messages
from rayshot.log.marks import MARK_BYTES_MAX
from rayshot.log.records import RECORD_BYTES_MAX
from rayshot.log.system import FORMAT_BYTES_MAX
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.intents import leased_bases
from tests.places.faulty_store import FaultyStore
from tests.snapshots.snapshot_builder import Bank, large, make_snapshot, open_bank

pytestmark = pytest.mark.acceptance("G11", "G12")

TWO_BILLION = b"\xdd\x7f\xff\xff\xff"
NESTED = b"\xdd\x00\x10\x00\x00" * 500 + bytes(1 << 20)
"""500 lists inside one another, each of a million elements, of which there is one million in all."""

MANY_KEYS = b"\xdf\x7f\xff\xff\xff"
DEEP = b"\x91" * 100_000 + b"\x00"


@contextmanager
def little_memory(bytes_max: int = 32 << 20, seconds_max: float = 5.0) -> Iterator[None]:
    tracemalloc.start()
    started = time.process_time()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < bytes_max
        assert time.process_time() - started < seconds_max
    finally:
        tracemalloc.stop()


def messages(body: bytes) -> None:
    list(read_messages(Frame(1, 1, body)))


def messages_of_a_call(body: bytes) -> None:
    messages(msgpack.packb([1, 7, body]))


def channel_of_an_audit(body: bytes) -> None:
    tree = {"format": 1, "snapshot": [1, "c", 1], "position": 1, "actors": [], "ended": [], "traces": []}
    blob = [[0, 0, len(body)]]
    tree |= {
        "channels": [["a", "b", 1, 1, 0, blob, None, False]],
        "chunks": [["k", _digest(body), len(body), len(body), "raw"]],
    }
    document = Document(msgpack.packb(tree), lambda _key, size: body[:size])
    list(document.messages(document.channels[0]))


def _digest(body: bytes) -> bytes:
    from blake3 import blake3

    return blake3(body).digest()


READERS: dict[str, Callable[[bytes], object]] = {
    "canonical": lambda data: canonical.unpack(data, what="it", bytes_max=1 << 30),
    "frames": lambda data: list(read_frames(data)),
    "frames of an audit": channel_of_an_audit,
    "messages": messages,
    "messages of a call": messages_of_a_call,
    "messages of an audit": lambda data: channel_of_an_audit(pack_frames([Frame(1, 1, data)])),
    "trace": lambda data: read_segment("alice", data),
    "events of a trace": lambda data: read_segment("alice", msgpack.packb([1, True, "", 1, {}, {}, [], data])),
}


@pytest.mark.parametrize("bomb", [TWO_BILLION, NESTED, MANY_KEYS, DEEP], ids=["count", "nested", "map", "deep"])
@pytest.mark.parametrize("reader", READERS)
def test_a_header_that_announces_what_is_not_there_takes_no_room_for_it(reader: str, bomb: bytes) -> None:
    with little_memory(), pytest.raises((BadManifest, Unproved, LimitExceeded)):
        READERS[reader](bomb)


@pytest.mark.parametrize("reader", ["canonical", "messages", "messages of a call", "trace"])
def test_documents_behind_the_last_one_are_not_even_counted(reader: str) -> None:
    with little_memory(256 << 20, seconds_max=1.0), pytest.raises((BadManifest, Unproved)):
        READERS[reader](bytes(20_000_000))


def test_what_is_no_event_and_nested_deep_is_described_in_short() -> None:
    deep = b"\x91" * 1000 + b"\x00"
    with pytest.raises(Unproved, match="more than 2 lists and maps; rayshot writes fewer") as refused:
        READERS["events of a trace"](deep)
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("data", [b"[" * FORMAT_BYTES_MAX, b'{"rayshot": 1}'.decode().encode("utf-16"), b"9" * 4000])
def test_a_format_that_is_none_is_refused(data: bytes) -> None:
    store = FaultyStore()
    store.put_raw("bank/FORMAT", data)
    with pytest.raises((BadManifest, Damaged)):
        Storage(store).system("bank").snapshots()


class CountingStore(FaultyStore):
    """Notes how much each reading asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}

    def read(self, key: str) -> bytes:
        assert key.startswith("check-"), f"{key} is read whole, whatever its size"
        return super().read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self.asked[key] = length
        return super().read_range(key, start, length)


def test_no_reading_asks_the_store_for_more_than_its_bound() -> None:
    store = CountingStore()
    repository = open_bank(store)
    snapshot = make_snapshot(repository, Bank(states={"alice": {"n": large("a")}, "bob": {}}))
    repository.intend(snapshot.id._replace(counter=9), snapshot.id)
    store.asked.clear()
    found = Storage(store).system("bank").latest()
    found.verify()
    leased_bases(store, "bank", repository.log.refresh())
    bounds = {"FORMAT": FORMAT_BYTES_MAX, "log": RECORD_BYTES_MAX + 1, "intents": MARK_BYTES_MAX + 1}
    bounds |= {"manifests": ENVELOPE_BYTES_MAX + 1}
    stored = {f"bank/{chunk.key}": chunk.stored_size + 1 for chunk in found.manifest.chunks}
    folders = set()
    for key, length in store.asked.items():
        folder = key.split("/")[1]
        folders.add(folder)
        assert length == (stored[key] if folder == "chunks" else bounds[folder])
    assert folders == {*bounds, "chunks"}


@pytest.mark.parametrize("kind", ["log", "manifests", "intents", "chunks"])
def test_an_object_that_has_grown_without_bounds_is_refused_by_the_first_byte_too_many(kind: str) -> None:
    store = FaultyStore()
    repository = open_bank(store)
    snapshot = make_snapshot(repository)
    repository.intend(snapshot.id._replace(counter=9), snapshot.id)
    key = [entry.key for entry in store.list(f"bank/{kind}")][-1]
    store.put_raw(key, store.read(key) + bytes(1 << 20))
    with pytest.raises(Damaged):
        Storage(store).system("bank").latest().verify()
        leased_bases(store, "bank", repository.log.refresh())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"codec": "zstd", "size": 10, "stored_size": CHUNK_BYTES_MAX}, BadManifest),
        ({"codec": "zstd", "size": 10, "stored_size": 10}, BadManifest),
        ({"codec": "raw", "size": 10, "stored_size": 11}, BadManifest),
        ({"codec": "raw", "size": CHUNK_BYTES_MAX + 1, "stored_size": CHUNK_BYTES_MAX + 1}, LimitExceeded),
        ({"codec": "zstd", "size": CHUNK_BYTES_MAX, "stored_size": 2**62}, LimitExceeded),
        ({"codec": "zstd", "size": 0, "stored_size": 1}, BadManifest),
    ],
)
def test_a_manifest_whose_compressed_sizes_cannot_be_is_refused_before_a_chunk_is_read(
    change: dict[str, object], error: type[Damaged]
) -> None:
    manifest = make_snapshot(open_bank(FaultyStore())).manifest
    first, *others = manifest.chunks
    with pytest.raises(error):
        replace(manifest, chunks=(replace(first, **change), *others))
