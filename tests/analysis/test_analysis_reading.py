"""What is read for a table: how often, of what, and how much at once."""

import threading
from collections import Counter

import pytest

from rayshot.analysis.batches import read_batches
from rayshot.analysis.message_rows import PARTS_MAX
from rayshot.analysis.message_views import message_parts
from rayshot.analysis.planning import plan
from rayshot.analysis.query import parse_query
from rayshot.errors import NotFound
from rayshot.format.entries import Blob, ChannelEntry, Span
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import Bank, Flow, large, make_snapshot, open_bank


class Watched(MemoryStore):
    """Counts what is read, by the folder that it lies in; two manifests must be read at once while `meets`."""

    def __init__(self):
        super().__init__()
        self.reads = Counter()
        self.keys = []
        self.meets = False
        self._both = threading.Barrier(2, timeout=20)

    def read_range(self, key, start, length):
        folder = key.split("/")[1]
        self.reads[folder] += 1
        self.keys.append(key)
        if self.meets and folder == "manifests":
            self._both.wait()
        return super().read_range(key, start, length)


def planned(store, **options):
    query = parse_query(options)
    system = Storage(store).system("bank")
    return query, system, [piece for share in plan(query, system) for piece in share.pieces]


def rows_of(store, columns=None, **options):
    """The rows; what is read for planning is not counted."""
    query, system, pieces = planned(store, **options)
    store.reads.clear()
    store.keys.clear()
    names = [column.name for column in query.view.columns] if columns is None else columns
    batches = read_batches(query, system, pieces, nullable=dict.fromkeys(names, True))
    return [row for batch in batches for row in batch.to_pylist()]


def chunks_of(snapshot, blobs):
    keys = {chunk.digest: f"bank/{chunk.key}" for chunk in snapshot.manifest.chunks}
    return {keys[span.chunk] for blob in blobs if blob is not None for span in blob.spans}


@pytest.fixture
def store():
    return Watched()


def bank(flows=None):
    states = {"alice": {"text": large("alice")}, "bob": {"text": large("bob")}}
    return Bank(states=states, flows=flows)


def test_snapshots_and_actors_and_channels_read_manifests_only(store):
    repository = open_bank(store)
    for counter in range(1, 4):
        make_snapshot(repository, bank(), counter)
    for view, count in (("snapshots", 3), ("actors", 6), ("channels", 6)):
        assert len(rows_of(store, view=view)) == count
        assert dict(store.reads) == {"manifests": 3}


def test_what_the_log_says_of_snapshots_is_read_without_a_manifest(store):
    repository = open_bank(store)
    for counter in range(1, 4):
        make_snapshot(repository, bank(), counter)
    columns = ["snapshot", "position", "taken_at", "label"]
    assert len(rows_of(store, columns, view="snapshots")) == 3
    assert not store.reads


def test_messages_never_read_a_state(store):
    snapshot = make_snapshot(open_bank(store), bank({("alice", "bob"): Flow(sent=9_000, arrived=4_000)}))
    assert len(rows_of(store, view="messages")) == 9_000
    (entry,) = snapshot.manifest.channels
    states = chunks_of(snapshot, [actor.state.stream for actor in snapshot.manifest.actors])
    assert store.reads["chunks"] == len(chunks_of(snapshot, [entry.mailbox, entry.outbox]))
    assert states.isdisjoint(store.keys)


def test_manifests_are_read_several_at_once(store):
    repository = open_bank(store)
    for counter in range(1, 5):
        make_snapshot(repository, bank(), counter)
    query, system, _ = planned(store, view="actors")
    store.meets = True
    pieces = [piece for share in plan(query, system) for piece in share.pieces]
    assert sum(batch.num_rows for batch in read_batches(query, system, pieces)) == 8


def test_a_channel_is_cut_by_the_number_of_its_messages(store, monkeypatch):
    monkeypatch.setattr("rayshot.analysis.message_views.PART_MESSAGES", 1_000)
    monkeypatch.setattr("rayshot.analysis.message_rows.MESSAGE_COST_BYTES", 16_800)
    snapshot = make_snapshot(open_bank(store), bank({("alice", "bob"): Flow(sent=12_500, arrived=5_500, received=500)}))
    query, system, pieces = planned(store, view="messages")
    assert len(plan(query, system)) == len(pieces) == 12
    (entry,) = snapshot.manifest.channels
    mailbox, outbox = chunks_of(snapshot, [entry.mailbox]), chunks_of(snapshot, [entry.outbox])
    found = []
    for piece in pieces:
        store.keys.clear()
        numbers = [number for batch in read_batches(query, system, [piece]) for number in batch["number"].to_pylist()]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        if numbers[-1] <= 5_500:
            assert outbox.isdisjoint(store.keys)
        if numbers[0] > 5_500:
            assert mailbox.isdisjoint(store.keys)
        found += numbers
    assert found == list(range(501, 12_501))
    assert [row["number"] for row in rows_of(store, view="messages")] == found


def test_a_channel_is_cut_by_its_bytes_and_never_into_nothing(store):
    def lengths(sent, size, received=0):
        blob = None if size == 0 else Blob((Span("ab" * 32, 0, size),))
        entry = ChannelEntry("a", "b", sent, sent, received, blob, None)
        parts = message_parts(_Listing([entry]))
        assert [part.first for part in parts[1:]] == [part.last + 1 for part in parts[:-1]]
        assert (parts[0].first, parts[-1].last) == (received + 1, sent)
        return [part.last + 1 - part.first for part in parts]

    assert lengths(0, 0) == lengths(7, 0, received=7) == [0]
    assert lengths(1, 1 << 30) == [1]
    assert lengths(10, 48 << 20) == [4, 4, 2]
    assert lengths(250_000, 1 << 20) == [125_000, 125_000]
    assert len(lengths(2**60, 10)) == PARTS_MAX


class _Listing:
    """In the place of a snapshot, of which only the channels are looked at."""

    def __init__(self, channels):
        self.manifest = self
        self.channels = channels


@pytest.mark.wide("slow")
def test_an_option_reads_one_channel_of_many(store):
    states = {f"a{number}": {} for number in range(50)}
    flows = {("driver:main", name): Flow(sent=9_000, method=f"deposit_{name}") for name in states}
    make_snapshot(open_bank(store), Bank(states=states, flows=flows))
    assert len(rows_of(store, view="messages")) == 450_000
    everything = store.reads["chunks"]
    assert len(rows_of(store, view="messages", receiver="a7")) == 9_000
    assert store.reads["chunks"] == everything / 50
    make_snapshot(open_bank(store), Bank(states={"a": {}, "b": {}}, flows={("a", "b"): Flow(sent=1, received=1)}), 2)
    assert rows_of(store, view="messages", receiver="b") == []
    with pytest.raises(NotFound):
        rows_of(store, view="messages", receiver="zed")
