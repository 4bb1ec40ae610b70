import logging

import pytest

from rayshot.errors import BadManifest, FormatTooNew, LogLost, StoreUnavailable, UnsafePath
from rayshot.format import canonical
from rayshot.log.layout import copy_folder, log_key, manifest_name, segment_folder, segment_key
from rayshot.log.log import CommitLog
from rayshot.log.records import (
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
from rayshot.log.segments import COUNTS, LogSegment, all_segments, cover, find_end, find_segments
from rayshot.protocol.identity import SnapshotId
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore

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


def fill(store: FaultyStore, records: list[Record]) -> None:
    """As a rayshot without segments writes them."""
    for record in records:
        store.create(log_key("bank", record.position), encode_record(record))


def append_commits(store: FaultyStore, end: int) -> CommitLog:
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    go_on(log, end)
    return log


def go_on(log: CommitLog, end: int) -> None:
    for position in range(log.next_position, end):
        snapshot = SnapshotId(1, "coordinator", position)
        log.append(CommitRecord(position, "w", 1, snapshot, manifest_name(snapshot), "ab" * 32, 1.5))
        log.write_segments()


def names(store: FaultyStore) -> list[str]:
    return [entry.key.rpartition("/")[2] for entry in store.list(segment_folder("bank"))]


def test_whoever_appends_the_last_record_of_a_segment_writes_it() -> None:
    store = FaultyStore()
    log = append_commits(store, SMALL - 1)
    assert names(store) == []
    go_on(log, 2 * SMALL + 3)
    assert names(store) == [f"{0:020}-{SMALL}", f"{SMALL:020}-{SMALL}"]
    reader = CommitLog(store, "bank")
    before = store.calls
    assert reader.records() == log.records()
    assert [verb for verb, _ in store.journal[before:]].count("list") == 1
    segments = [key for _, key in store.journal[before:] if key.startswith(segment_folder("bank") + "/")]
    assert len(segments) == 2


def test_a_log_of_all_kinds_of_records_is_the_same_with_segments_and_without() -> None:
    store = FaultyStore()
    records = every_kind(LARGE + 3 * SMALL)
    fill(store, records)
    without = CommitLog(store, "bank")
    assert list(without.records()) == records
    assert names(store) == [], "a reader writes nothing"
    writer = CommitLog(store, "bank")
    writer.refresh()
    writer.begin_epoch(3, "w3")
    writer.write_segments()
    assert find_segments(store, "bank") == all_segments(LARGE + 3 * SMALL)
    reader = CommitLog(store, "bank")
    before = store.calls
    assert list(reader.records()[:-1]) == records
    assert store.calls - before < 80, "a list, four segments, one of their records, and a window behind them"
    assert reader.history.retained == writer.history.retained
    assert reader.history.ended() == writer.history.ended()
    assert find_end(store, "bank") == len(records) + 1


def test_of_two_segments_the_larger_one_is_read_and_none_behind_a_hole() -> None:
    small = [LogSegment(first, SMALL) for first in range(0, 2 * LARGE, SMALL)]
    assert cover({LogSegment(0, LARGE), *small}) == [LogSegment(0, LARGE), *small[LARGE // SMALL :]]
    assert cover({*small[1:], LogSegment(LARGE, LARGE)}) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "of others", "too few", "no map", "gone meanwhile"])
def test_a_segment_that_cannot_be_read_costs_time_and_nothing_else(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = FaultyStore()
    log = append_commits(store, 3 * SMALL)
    key = segment_key("bank", SMALL, SMALL)
    data = store.read(key)
    trees = [record_tree(record) for record in log.records()]
    spoiled = {
        "cut": data[:-1],
        "flipped": data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
        "empty": b"",
        "of others": canonical.pack(with_digest({"records": trees[: SMALL + 1]})),
        "too few": canonical.pack(with_digest({"records": trees[SMALL - 1 : 2 * SMALL - 1]})),
        "no map": canonical.pack(trees[SMALL - 1 : 2 * SMALL]),
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
    store = FaultyStore()
    log = append_commits(store, SMALL)
    trees = [record_tree(record) for record in log.records()]
    key = segment_key("bank", 0, SMALL)
    store.delete(key)
    store.create(key, canonical.pack(with_digest({"records": [*trees[:-1], {**trees[-1], "format": 99}]})))
    with pytest.raises(FormatTooNew, match="pip install --upgrade"):
        CommitLog(store, "bank").records()


def test_objects_that_are_no_segments_are_not_read() -> None:
    store = FaultyStore()
    log = append_commits(store, 2)
    for name in ("notes.txt", f"{0:020}-7", f"{3:020}-{SMALL}", f"{0:019}-{SMALL}", f"{0:020}-0{SMALL}"):
        store.create(f"{segment_folder('bank')}/{name}", b"x")
    assert CommitLog(store, "bank").records() == log.records()


@pytest.mark.parametrize("effect", list(FaultEffect))
def test_a_segment_that_cannot_be_written_is_written_later(effect: FaultEffect) -> None:
    store = FaultyStore()
    log = append_commits(store, SMALL - 1)
    snapshot = SnapshotId(1, "coordinator", SMALL - 1)
    log.append(CommitRecord(SMALL - 1, "w", 1, snapshot, manifest_name(snapshot), "ab" * 32, 1.5))
    store.fault = Fault(store.calls + 1, effect, count=100)
    log.write_segments()
    store.fault = None
    assert CommitLog(store, "bank").records() == log.records()
    log.write_segments()
    assert names(store) == [f"{0:020}-{SMALL}"]
    before = store.calls
    log.write_segments()
    assert store.calls == before, "nothing is missing"


def test_a_segment_that_ends_with_the_record_of_another_writer_is_written_too() -> None:
    store = FaultyStore()
    log = append_commits(store, SMALL - 1)
    other = CommitLog(store, "bank")
    other.append_next(lambda _, position: DeleteRecord(position, "somebody", SnapshotId(1, "coordinator", 3)))
    log.refresh()
    log.write_segments()
    assert names(store) == [f"{0:020}-{SMALL}"]


def test_an_error_that_nobody_expects_ends_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    log = append_commits(store, SMALL - 1)
    snapshot = SnapshotId(1, "coordinator", SMALL - 1)
    log.append(CommitRecord(SMALL - 1, "w", 1, snapshot, manifest_name(snapshot), "ab" * 32, 1.5))

    def refuse(key: str, data: object) -> None:
        raise UnsafePath(f"{key} leads out of the store", key=key)

    store.create = refuse  # type: ignore[method-assign, assignment]
    log.write_segments()
    assert "could not be written now" in caplog.text


def put_back(store: FaultyStore, end: int) -> None:
    """Put the folder of the log back to an older state, and leave the segments."""
    for entry in list(store.list("bank/log")):
        if int(entry.key.rpartition("/")[2]) >= end:
            store.delete(entry.key)


def live_on(store: FaultyStore, start: int, end: int) -> list[Record]:
    """As a rayshot without segments goes on with a log of `start` records, as life 2."""
    log = [EpochRecord(start, 2, "other")]
    snapshots = [SnapshotId(2, "coordinator", position) for position in range(start + 1, end)]
    commits = [
        CommitRecord(start + place, "other", 2, snapshot, manifest_name(snapshot), "cd" * 32, 2.5)
        for place, snapshot in enumerate(snapshots, 1)
    ]
    fill(store, [*log, *commits])
    return [*log, *commits]


@pytest.mark.parametrize("end", [2 * SMALL + 10, 4 * SMALL])
def test_segments_of_a_log_that_was_put_back_and_went_on_in_another_way_are_left_aside(
    end: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = FaultyStore()
    log = append_commits(store, 2 * SMALL + 2)
    put_back(store, 70)
    expected = [*log.records()[:70], *live_on(store, 70, end)]
    reader = CommitLog(store, "bank")
    assert list(reader.records()) == expected
    assert reader.history.incarnation == 2
    assert "of another log, so it is read record by record: remove bank/segments/" in caplog.text
    writer = CommitLog(store, "bank")
    writer.refresh()
    epoch = writer.begin_epoch(3, "third")
    writer.write_segments()
    for again in (CommitLog(store, "bank"), CommitLog(store, "bank")):
        assert list(again.records()) == [*expected, epoch]


def test_a_writer_that_slept_while_the_log_was_put_back_writes_no_segment_of_what_it_remembers() -> None:
    store = FaultyStore()
    log = append_commits(store, 2 * SMALL - 1)
    snapshot = SnapshotId(1, "coordinator", 2 * SMALL - 1)
    log.append(CommitRecord(2 * SMALL - 1, "w", 1, snapshot, manifest_name(snapshot), "ab" * 32, 1.5))
    put_back(store, 70)
    expected = [*log.records()[:70], *live_on(store, 70, 3 * SMALL)]
    log.write_segments()
    assert names(store) == [f"{0:020}-{SMALL}"]
    assert list(CommitLog(store, "bank").records()) == expected
    with pytest.raises(LogLost, match="was another one before"):
        log.prove_end()


def test_a_log_that_ends_before_its_segments_is_lost() -> None:
    store = FaultyStore()
    append_commits(store, SMALL + 2)
    for position in range(SMALL - 1, SMALL + 2):
        store.delete(log_key("bank", position))
    reader = CommitLog(store, "bank")
    for _ in range(3):
        with pytest.raises(
            LogLost, match=f"record {SMALL - 1} is missing, and a segment holds it.*Or remove bank/segments/"
        ):
            reader.records()


def test_a_list_that_does_not_show_the_newest_records_yet_hides_none_behind_segments() -> None:
    store = FaultyStore()
    log = append_commits(store, SMALL + 3)
    listed = store.list
    store.list = lambda prefix="", **options: (  # type: ignore[method-assign, assignment]
        entry for entry in listed(prefix, **options) if not entry.key.startswith("bank/log/")
    )
    assert CommitLog(store, "bank").records() == log.records()


def test_a_hole_behind_the_segments_is_damage() -> None:
    store = FaultyStore()
    append_commits(store, SMALL + 5)
    store.delete(log_key("bank", SMALL + 2))
    reader = CommitLog(store, "bank")
    for _ in range(2):
        with pytest.raises(BadManifest, match=f"record {SMALL + 2} is missing"):
            reader.records()


def test_a_storage_that_does_not_answer_for_a_segment_is_said_to_be_away() -> None:
    store = FaultyStore()
    append_commits(store, SMALL)
    store.fault = Fault(store.calls + 2, count=100)
    with pytest.raises(StoreUnavailable):
        CommitLog(store, "bank").records()


@pytest.mark.wide("slow")
def test_a_record_that_is_written_while_a_reader_looks_behind_the_segments_is_no_hole() -> None:
    store = FaultyStore()
    log = append_commits(store, SMALL + 3)
    read = store.read_range

    def read_as_the_coordinator_writes(key: str, start: int, length: int) -> bytes:
        try:
            return read(key, start, length)
        finally:
            if key == log_key("bank", SMALL + 3) and log.next_position == SMALL + 3:
                go_on(log, SMALL + 6)  # behind this look, and before the looks at the next positions

    store.read_range = read_as_the_coordinator_writes  # type: ignore[method-assign]
    assert CommitLog(store, "bank").records() == log.records()
    assert log.next_position == SMALL + 6
