import logging

import pytest

from rayshot.errors import BadManifest, FormatTooNew, LogLost, StoreUnavailable
from rayshot.format import canonical
from rayshot.protocol.identity import SnapshotId
from rayshot.store.layout import copy_folder, log_key, manifest_name, segment_folder, segment_key
from rayshot.store.log import CommitLog, find_end
from rayshot.store.memory import Fault, FaultEffect, MemoryStore
from rayshot.store.records import (
    CommitRecord,
    CopyRecord,
    DeleteRecord,
    EpochRecord,
    ExpireRecord,
    Record,
    RestoreRecord,
    encode_record,
    record_tree,
    with_digest,
)
from rayshot.store.segments import COUNTS, Segment, all_segments, cover, find_segments

LARGE, SMALL = COUNTS


def one_of_each_kind(position: int) -> list[Record]:
    snapshot = SnapshotId(2, "coordinator", position)
    copied = f"{copy_folder(snapshot, 0)}/{manifest_name(snapshot)}"
    return [
        CommitRecord(position, "w", 2, snapshot, manifest_name(snapshot), "ab" * 32, 1.5, "label"),
        DeleteRecord(position, "w", SnapshotId(2, "coordinator", position - 1)),
        ExpireRecord(position, "gc", snapshot),
        RestoreRecord(position, "w", snapshot, "s3://shots", claimed=True),
        CopyRecord(position, "copy", 2, snapshot, copied, "cd" * 32, 1.5, origin_position=7, attempt=0),
    ]


def every_kind(end: int) -> list[Record]:
    """A log of all kinds of records."""
    begun: list[Record] = [EpochRecord(0, 1, "w", 1.5, "begin"), EpochRecord(1, 2, "w")]
    return begun + [one_of_each_kind(position)[position % 5] for position in range(2, end)]


def fill(store: MemoryStore, records: list[Record]) -> None:
    """As a rayshot without segments writes them."""
    for record in records:
        store.create(log_key("bank", record.position), encode_record(record))


def append_commits(store: MemoryStore, end: int) -> CommitLog:
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    go_on(log, end)
    return log


def go_on(log: CommitLog, end: int) -> None:
    for position in range(log.next_position, end):
        snapshot = SnapshotId(1, "coordinator", position)
        log.append(CommitRecord(position, "w", 1, snapshot, manifest_name(snapshot), "ab" * 32, 1.5))


def names(store: MemoryStore) -> list[str]:
    return [entry.key.rpartition("/")[2] for entry in store.list(segment_folder("bank"))]


def test_whoever_appends_the_last_record_of_a_segment_writes_it() -> None:
    store = MemoryStore()
    log = append_commits(store, SMALL - 1)
    assert names(store) == []
    go_on(log, 2 * SMALL + 3)
    assert names(store) == [f"{0:020}-{SMALL}", f"{SMALL:020}-{SMALL}"]
    reader = CommitLog(store, "bank")
    before = store.calls
    assert reader.records() == log.records()
    assert store.calls - before < 12, "two lists, two segments, three records, and the next position twice"


def test_a_log_of_all_kinds_of_records_is_the_same_with_segments_and_without() -> None:
    store = MemoryStore()
    records = every_kind(LARGE + 3 * SMALL)
    fill(store, records)
    without = CommitLog(store, "bank")
    assert list(without.records()) == records
    assert names(store) == [], "a reader writes nothing"
    writer = CommitLog(store, "bank")
    writer.refresh()
    writer.begin_epoch(3, "w3")
    assert find_segments(store, "bank") == all_segments(LARGE + 3 * SMALL)
    reader = CommitLog(store, "bank")
    before = store.calls
    assert list(reader.records()[:-1]) == records
    assert store.calls - before < 10
    assert reader.history.retained == writer.history.retained
    assert reader.history.ended() == writer.history.ended()
    assert find_end(store, "bank") == len(records) + 1


def test_of_two_segments_the_larger_one_is_read_and_none_behind_a_hole() -> None:
    small = [Segment(first, SMALL) for first in range(0, 2 * LARGE, SMALL)]
    assert cover({Segment(0, LARGE), *small}) == [Segment(0, LARGE), *small[LARGE // SMALL :]]
    assert cover({*small[1:], Segment(LARGE, LARGE)}) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "of others", "too few", "no map", "gone meanwhile"])
def test_a_segment_that_cannot_be_read_costs_time_and_nothing_else(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    log = append_commits(store, 3 * SMALL)
    key = segment_key("bank", SMALL, SMALL)
    data = store.read(key)
    trees = [record_tree(record) for record in log.records()]
    spoiled = {
        "cut": data[:-1],
        "flipped": data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
        "empty": b"",
        "of others": canonical.pack(with_digest({"records": trees[:SMALL]})),
        "too few": canonical.pack(with_digest({"records": trees[SMALL : 2 * SMALL - 1]})),
        "no map": canonical.pack(trees[SMALL : 2 * SMALL]),
    }
    store.delete(key)
    if damage in spoiled:
        store.create(key, spoiled[damage])
    else:
        listed = store.list

        def list_as_before(prefix: str = "", **options: object) -> object:
            found = list(listed(prefix, **options))  # type: ignore[arg-type]
            return iter([*found, found[0].__class__(key, 1, 0.0)] if prefix == segment_folder("bank") else found)

        store.list = list_as_before  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.WARNING, logger="rayshot"):
        assert CommitLog(store, "bank").records() == log.records()
    assert "is read record by record" in caplog.text


def test_a_segment_with_a_record_of_a_newer_format_says_what_to_do() -> None:
    store = MemoryStore()
    log = append_commits(store, SMALL)
    trees = [record_tree(record) for record in log.records()]
    key = segment_key("bank", 0, SMALL)
    store.delete(key)
    store.create(key, canonical.pack(with_digest({"records": [*trees[:-1], {**trees[-1], "format": 99}]})))
    with pytest.raises(FormatTooNew, match="pip install --upgrade"):
        CommitLog(store, "bank").records()


def test_objects_that_are_no_segments_are_not_read() -> None:
    store = MemoryStore()
    log = append_commits(store, 2)
    for name in ("notes.txt", f"{0:020}-7", f"{3:020}-{SMALL}", f"{0:019}-{SMALL}", f"{0:020}-0{SMALL}"):
        store.create(f"{segment_folder('bank')}/{name}", b"x")
    assert CommitLog(store, "bank").records() == log.records()


@pytest.mark.parametrize("effect", list(FaultEffect))
def test_a_commit_counts_if_its_segment_cannot_be_written_and_a_later_writer_does(effect: FaultEffect) -> None:
    store = MemoryStore()
    log = append_commits(store, SMALL - 1)
    store.fault = Fault(store.calls + 2, effect, count=100)  # the first call writes the record
    go_on(log, SMALL)
    store.fault = None
    assert CommitLog(store, "bank").records() == log.records()
    other = CommitLog(store, "bank")
    other.refresh()
    other.begin_epoch(1, "other")
    assert names(store) == [f"{0:020}-{SMALL}"]
    assert CommitLog(store, "bank").records() == other.records()


def test_a_refusing_store_is_not_asked_for_segments_at_each_commit() -> None:
    store = MemoryStore()
    log = append_commits(store, SMALL - 1)
    store.fault = Fault(store.calls + 2, count=100)
    go_on(log, SMALL)
    store.fault = None
    before = store.calls
    go_on(log, SMALL + 5)
    assert store.calls - before == 5
    go_on(log, 2 * SMALL)
    assert len(names(store)) == 2, "with the next segment the missing one comes too"


def test_a_log_that_ends_before_its_segments_is_lost() -> None:
    store = MemoryStore()
    append_commits(store, SMALL + 2)
    for position in range(SMALL - 1, SMALL + 2):
        store.delete(log_key("bank", position))
    for look in (CommitLog(store, "bank").records, lambda: find_end(store, "bank")):
        with pytest.raises(LogLost, match=f"record {SMALL - 1} is missing, and a segment holds it"):
            look()


def test_a_hole_behind_the_segments_is_damage() -> None:
    store = MemoryStore()
    append_commits(store, SMALL + 5)
    store.delete(log_key("bank", SMALL + 2))
    with pytest.raises(BadManifest, match=f"record {SMALL + 2} is missing"):
        CommitLog(store, "bank").records()


def test_a_storage_that_does_not_answer_for_a_segment_is_said_to_be_away() -> None:
    store = MemoryStore()
    append_commits(store, SMALL)
    store.fault = Fault(store.calls + 2, count=100)
    with pytest.raises(StoreUnavailable):
        CommitLog(store, "bank").records()
