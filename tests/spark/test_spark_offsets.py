"""What a stream reads, offset by offset, without Spark."""

import logging
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from pyspark_rayshot.options import parse_options
from pyspark_rayshot.reading import SnapshotPartition
from pyspark_rayshot.stream import SnapshotStream
from rayshot.analysis.planning import read_items
from rayshot.errors import ConfigError, LogLost, SnapshotDeleted, SnapshotNotFound
from rayshot.places.local import LocalStore
from rayshot.snapshots.leases import leased_by_readers
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import collect
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank

ALL = ReadAllAvailable()


@pytest.fixture
def bank(tmp_path: Path) -> Repository:
    """A system whose log has an EPOCH and three snapshots."""
    repository = open_bank(LocalStore(tmp_path / "shots"))
    take(repository, 1, 2, 3)
    return repository


def take(bank: Repository, *counters: int) -> None:
    for counter in counters:
        make_snapshot(bank, Bank(), counter)


def stream(bank: Repository, **options: str) -> SnapshotStream:
    """A stream as it is after a (re)start."""
    return SnapshotStream(parse_options({"path": bank.store.url, "view": "snapshots", **options}).pinned(), {})


def delete(bank: Repository, counter: int) -> None:
    delete_snapshot(bank.store, "bank", f"1-coordinator-{counter}")


def counters(reader: SnapshotStream, start: Any, end: Any) -> list[int]:
    """The snapshots of a micro-batch."""
    return [snapshot.id.counter for part in reader.partitions(start, end) for snapshot, _ in _items(reader, part)]


def _items(reader: SnapshotStream, partition: SnapshotPartition) -> Any:
    return read_items(reader._options.query, partition.share.open_system(), partition.share.pieces)


def test_a_batch_is_what_came_and_nothing_is_no_batch(bank: Repository) -> None:
    reader = stream(bank)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert (start, end["log"], end["began"]) == ({"log": 0}, 4, 4)
    assert counters(reader, start, end) == [1, 2, 3]
    assert reader.latestOffset(end, ALL) == end
    take(bank, 4)
    assert reader.reportLatestOffset() == {"log": 5}
    later = reader.latestOffset(end, ALL)
    assert counters(reader, end, later) == [4]
    bank.log.begin_epoch(1, "w2")
    assert reader.latestOffset(later, ALL) == later


def test_a_batch_has_as_many_snapshots_as_were_allowed(bank: Repository) -> None:
    reader = stream(bank, maxSnapshotsPerTrigger="2")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxFiles(2)
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    second = reader.latestOffset(first, limit)
    assert [counters(reader, start, first), counters(reader, first, second)] == [[1, 2], [3]]


def test_what_is_available_now_ends_although_more_comes(bank: Repository) -> None:
    reader = stream(bank, maxSnapshotsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    take(bank, 4)
    offset, seen = reader.initialOffset(), []
    while (following := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        seen += counters(reader, offset, following)
        offset = following
    assert seen == [1, 2, 3]


def test_from_now_on_is_the_end_of_batch_0_however_often_it_is_replayed(bank: Repository) -> None:
    reader = stream(bank, startingSnapshot="latest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    take(bank, 4)
    again = stream(bank, startingSnapshot="latest")
    assert again.initialOffset() == start
    assert counters(again, start, end) == []
    assert counters(again, end, again.latestOffset(end, ALL)) == [4]


def test_a_stream_begins_with_the_snapshot_that_is_named_also_where_it_was_deleted(bank: Repository) -> None:
    reader = stream(bank, startingSnapshot="1-coordinator-2")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert counters(reader, start, end) == [2, 3]
    delete(bank, 2)
    assert counters(stream(bank, startingSnapshot="1-coordinator-2", failOnDataLoss="false"), start, end) == [3]
    fresh = stream(bank, startingSnapshot="1-coordinator-2")
    assert counters(fresh, start, fresh.latestOffset(start, ALL)) == [3]
    with pytest.raises(SnapshotNotFound, match="there is 1-coordinator-1, 1-coordinator-3"):
        stream(bank, startingSnapshot="1-coordinator-9").latestOffset({"snapshot": "1-coordinator-9"}, ALL)


def test_what_was_deleted_before_the_stream_began_is_no_loss(bank: Repository) -> None:
    delete(bank, 2)
    reader = stream(bank)
    start = reader.initialOffset()
    assert counters(reader, start, reader.latestOffset(start, ALL)) == [1, 3]


def test_what_is_deleted_between_planning_and_reading_fails_the_batch_or_is_told(
    bank: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(bank)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    delete(bank, 2)
    with pytest.raises(SnapshotDeleted, match="has not read 1-coordinator-2 of 'bank', and it was deleted"):
        stream(bank).partitions(start, end)
    with caplog.at_level(logging.WARNING):
        assert counters(stream(bank, failOnDataLoss="false"), start, end) == [1, 3]
    assert "goes on without 1-coordinator-2 of 'bank'" in caplog.text


def test_what_comes_and_goes_between_two_batches_is_a_loss_too(bank: Repository) -> None:
    reader = stream(bank)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    take(bank, 4, 5)
    delete(bank, 4)
    later = reader.latestOffset(end, ALL)
    with pytest.raises(SnapshotDeleted, match="1-coordinator-4"):
        reader.partitions(end, later)
    delete(bank, 5)
    assert reader.latestOffset(end, ALL) != end


def test_what_is_deleted_after_it_was_read_is_no_loss(bank: Repository) -> None:
    reader = stream(bank)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    delete(bank, 1)
    assert reader.latestOffset(end, ALL) == end
    take(bank, 4)
    assert counters(reader, end, reader.latestOffset(end, ALL)) == [4]


def test_a_snapshot_that_goes_while_its_batch_is_read_fails_it(bank: Repository) -> None:
    reader = stream(bank)
    start = reader.initialOffset()
    (part,) = reader.partitions(start, reader.latestOffset(start, ALL))
    delete(bank, 2)
    items = _items(reader, part)
    with pytest.raises(SnapshotDeleted, match="1-coordinator-2"):
        for snapshot, _ in items:
            assert snapshot.manifest


def test_a_checkpoint_that_is_ahead_of_the_log_is_an_error_and_no_silence(bank: Repository) -> None:
    with pytest.raises(LogLost, match="the stream has read 9 records of it, and it has 4"):
        stream(bank).latestOffset({"log": 9, "began": 4}, ALL)
    with pytest.raises(LogLost, match="the stream has read 9 records of it, and it has 4"):
        stream(bank).partitions({"log": 0}, {"log": 9, "began": 4})


def read_to_its_end(bank: Repository, **options: str) -> Any:
    reader = stream(bank, **options)
    return reader.latestOffset(reader.initialOffset(), ALL)


def refused(bank: Repository, offset: Any, error: type[Exception], complaint: str, **options: str) -> None:
    """Such an offset begins no batch and ends none."""
    with pytest.raises(error, match=complaint):
        stream(bank, **options).latestOffset(offset, ALL)
    for start, end in ((offset, offset), ({"log": 0}, offset)):
        with pytest.raises(error, match=complaint):
            stream(bank, **options).partitions(start, end)


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_checkpoint_of_another_storage_is_refused_however_long_its_log_is(
    bank: Repository, tmp_path: Path, count: int
) -> None:
    other = open_bank(LocalStore(tmp_path / "others"), "w2")
    take(other, *range(1, count + 1))
    refused(other, read_to_its_end(bank), ConfigError, "of another storage: its log of 'bank' begins with another rec")


def test_a_checkpoint_of_another_system_or_view_is_refused(bank: Repository) -> None:
    offset = read_to_its_end(bank)
    take(open_bank(bank.store, system="shop"), 1, 2, 3)
    refused(bank, offset, ConfigError, "of the system 'bank', and this stream reads 'shop': give each", system="shop")
    of_messages = "of the view 'snapshots', and this stream reads 'messages'"
    refused(bank, offset, ConfigError, of_messages, system="bank", view="messages")


def test_a_log_that_was_put_back_and_went_on_is_told(bank: Repository, tmp_path: Path) -> None:
    copytree(tmp_path / "shots", tmp_path / "backup")
    take(bank, 4)
    offset = read_to_its_end(bank)
    put_back = Repository(LocalStore(tmp_path / "backup"), "bank", create=False)
    refused(put_back, offset, LogLost, "the stream has read 5 records of it, and it has 4")
    put_back = open_bank(put_back.store, "w2")
    take(put_back, 1, 2, 3)
    refused(put_back, offset, LogLost, "the stream has read another record 4 than it has")


def test_a_storage_that_was_moved_or_copied_as_it_is_goes_on(bank: Repository, tmp_path: Path) -> None:
    offset = read_to_its_end(bank)
    copytree(tmp_path / "shots", tmp_path / "moved")
    moved = open_bank(LocalStore(tmp_path / "moved"), "w2")
    assert stream(moved).latestOffset(offset, ALL) == offset
    take(moved, 4)
    assert counters(stream(moved), offset, stream(moved).latestOffset(offset, ALL)) == [4]


def test_a_checkpoint_that_does_not_say_what_it_is_of_goes_on(bank: Repository) -> None:
    older = {"log": 3, "began": 4}
    reader = stream(bank)
    later = reader.latestOffset(older, ALL)
    assert counters(reader, older, later) == [3]
    assert later.keys() > older.keys()
    assert reader.latestOffset({"log": 4, "began": 4}, ALL) == {"log": 4, "began": 4}


def test_a_stream_that_began_before_the_log_did_goes_on(tmp_path: Path) -> None:
    empty = Repository(LocalStore(tmp_path / "new"), "bank", create=True)
    offset = read_to_its_end(empty)
    assert (offset["log"], offset["began"]) == (0, 0)
    empty.log.begin_epoch(1, "w1")
    take(empty, 1)
    assert counters(stream(empty), offset, stream(empty).latestOffset(offset, ALL)) == [1]


def test_an_actor_that_comes_later_is_waited_for(bank: Repository) -> None:
    reader = stream(bank, view="actors", actor="carol")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert counters(reader, start, end) == []
    make_snapshot(bank, Bank(states={"carol": {"balance": 1}}), 4)
    assert counters(reader, end, reader.latestOffset(end, ALL)) == [4]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"maxSnapshotsPerTrigger": "0"}, "'maxSnapshotsPerTrigger' must be a whole number from 1; it is '0'"),
        ({"startingSnapshot": "first"}, "'startingSnapshot' must be 'earliest', 'latest' or the id of a .*'first'"),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss' must be true or false; it is 'maybe'"),
    ],
)
def test_options_that_cannot_work_are_shown_with_what_is_expected(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_options({"path": "./shots", **options})


def test_options_of_batches_and_streams_are_not_mixed() -> None:
    with pytest.raises(ConfigError, match=r"'failOnDataLoss' belongs to spark\.readStream"):
        parse_options({"path": "./shots", "failOnDataLoss": "true"}).refuse_for_batch()
    for name, value in (("snapshot", "latest"), ("asOf", "2"), ("logEnd", "3")):
        with pytest.raises(ConfigError, match=f"'{name}' chooses snapshots, and a stream"):
            parse_options({"path": "./shots", name: value}).refuse_for_stream()


@pytest.mark.parametrize("lease", ["true", "false"])
def test_with_a_lease_what_a_batch_reads_stays_until_it_is_done(bank: Repository, lease: str) -> None:
    reader = stream(bank, lease=lease, view="state", maxSnapshotsPerTrigger="1")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxFiles(1))
    parts = reader.partitions(start, end)
    delete(bank, 1)
    for _ in range(3):
        collect(bank.store, "bank", min_age_s=0)
    if lease == "false":
        with pytest.raises(SnapshotDeleted):
            list(_items(reader, parts[0]))
        return
    assert {str(one) for one in leased_by_readers(bank.store, "bank")} == {"1-coordinator-1"}
    assert {row.actor for part in parts for _, row in _items(reader, part)} == {"alice", "bob"}
    reader.commit(end)
    assert not leased_by_readers(bank.store, "bank")


def test_a_lease_of_what_is_gone_fails_the_batch_and_holds_nothing(bank: Repository) -> None:
    reader = stream(bank, lease="true")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    delete(bank, 2)
    with pytest.raises(SnapshotDeleted):
        reader.partitions(start, end)
    assert not leased_by_readers(bank.store, "bank")
