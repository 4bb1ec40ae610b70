"""Notes of aborted snapshots: they come back as written, stay few, and a bad one hides no other."""

import random
from dataclasses import fields, replace

from rayshot.format import canonical
from rayshot.keys.encryption import EncryptionKey
from rayshot.log.aborts import NAMES_MAX, NOTES_KEPT, AbortNote, read_aborts, write_abort
from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.snapshots.upkeep.garbage import collect
from tests.snapshots.snapshot_builder import make_snapshot, open_bank

KEY, OTHER = EncryptionKey(b"e" * 32), EncryptionKey(b"f" * 32)
NOTE = AbortNote(
    snapshot=SnapshotId(1, "coordinator", 3),
    began_at=1.5,
    seconds=0.25,
    mode="chandy-lamport",
    trigger="interval",
    reason="timeout",
    detail="not durable after 5 s",
    missing=("alice",),
    missing_count=1,
    open_channels=(Channel("driver:d", "alice"),),
    open_count=1,
)


def numbered(counter: int, **other: object) -> AbortNote:
    return replace(NOTE, snapshot=SnapshotId(1, "coordinator", counter), **other)  # type: ignore[arg-type]


def test_a_note_comes_back_as_it_was_written_and_the_first_one_of_a_snapshot_stays() -> None:
    store = MemoryStore()
    write_abort(store, "bank", NOTE, None)
    write_abort(store, "bank", replace(NOTE, reason="fenced"), None)
    assert read_aborts(store, "bank") == ((NOTE,), 0)
    assert read_aborts(store, "other") == ((), 0)


def test_the_newest_stay() -> None:
    store = MemoryStore()
    for counter in range(1, NOTES_KEPT + 6):
        write_abort(store, "bank", numbered(counter), None)
    assert [note.snapshot.counter for note in read_aborts(store, "bank").notes] == [*range(6, NOTES_KEPT + 6)]


def test_of_very_many_names_some_are_told_and_all_are_counted() -> None:
    store = MemoryStore()
    names = tuple(f"a{number}" for number in range(10_000))
    channels = tuple(Channel(name, "b") for name in names)
    note = numbered(
        1, missing=names, missing_count=10_000, open_channels=channels, open_count=10_000, detail="x" * 9999
    )
    write_abort(store, "bank", note, None)
    (told,) = read_aborts(store, "bank").notes
    assert (told.missing, told.missing_count) == (names[:NAMES_MAX], 10_000)
    assert (told.open_channels, told.open_count) == (channels[:NAMES_MAX], 10_000)


def test_an_encrypted_note_tells_nobody_anything_without_its_key() -> None:
    store = MemoryStore()
    write_abort(store, "bank", NOTE, KEY)
    (entry,) = store.list("bank/aborts")
    assert b"alice" not in store.read(entry.key)
    assert read_aborts(store, "bank", [KEY]) == ((NOTE,), 0)
    assert read_aborts(store, "bank", [OTHER]) == read_aborts(store, "bank", []) == ((), 1)


def test_a_note_that_is_damaged_in_any_way_hides_no_other() -> None:
    whole = MemoryStore()
    write_abort(whole, "bank", NOTE, None)
    data = whole.read("bank/aborts/1-coordinator-3")
    tree = canonical.unpack(data, what="note", bytes_max=10_000)
    worse = [
        canonical.pack({**tree, field.name: object_}) for field in fields(NOTE) for object_ in (None, [[]], -1, "")
    ]
    worse += [canonical.pack(one) for one in ([], {}, {"format": 1}, {**tree, "format": 2}, {**tree, "more": 1})]
    draw = random.Random(7)
    for _ in range(300):
        flipped = bytearray(data)
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
        worse.append(bytes(flipped))
    for bad in [b"", data[:-1], data + b"\0", *worse]:
        store = MemoryStore()
        store.create("bank/aborts/1-coordinator-3", bad)
        write_abort(store, "bank", numbered(4), None)
        notes, unreadable = read_aborts(store, "bank", [])
        assert numbered(4) in notes
        assert len(notes) + unreadable == 2
    store.create("bank/aborts/nonsense", data)
    assert len(read_aborts(store, "bank", []).notes) <= 2


def test_the_notes_of_a_system_are_in_nobodys_way() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    snapshot = make_snapshot(repository)
    write_abort(store, "bank", NOTE, None)
    for _ in range(2):
        collect(store, "bank", min_age_s=0)
    assert len(read_aborts(store, "bank").notes) == 1
    assert [record.snapshot for record in repository.retained()] == [snapshot.id]
