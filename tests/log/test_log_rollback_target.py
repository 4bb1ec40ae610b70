"""Where a life goes back to, and the one record with which it does."""

from collections.abc import Sequence
from typing import Any

import pytest

from rayshot.errors import Fenced, SnapshotDeleted, SnapshotNotFound, StoreUnavailable
from rayshot.log.history import RollbackTarget
from rayshot.log.layout import log_key, manifest_name
from rayshot.log.log import CommitLog
from rayshot.log.records import (
    CommitRecord,
    CopyRecord,
    DeleteRecord,
    EpochRecord,
    Record,
    RestoreRecord,
    RollbackRecord,
    encode_record,
)
from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.recovery_events import Past
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.retention import Keep
from tests.snapshots.snapshot_builder import Bank, committed, make_snapshot, open_bank, retain


def snap(counter: int, life: int = 1) -> SnapshotId:
    return SnapshotId(life, "coordinator", counter)


def commit(position: int, snapshot: SnapshotId, *, advances: bool = True, label: str | None = None) -> CommitRecord:
    writer, name = f"w{snapshot.incarnation}", manifest_name(snapshot)
    return CommitRecord(position, writer, snapshot.incarnation, snapshot, name, "ab" * 32, 1.5, label, advances)


def went_back(position: int, life: int, snapshot: SnapshotId) -> RollbackRecord:
    of = position, life, f"w{life}", 3.5, "rollback"
    return RollbackRecord(*of, snapshot=snapshot, origin=None, actor="bob", detail="bob died")  # type: ignore[arg-type]


def log_of(*records: Record, store: MemoryStore | None = None) -> CommitLog:
    store = store or MemoryStore()
    for record in records:
        store.create(log_key("bank", record.position), encode_record(record))
    log = CommitLog(store, "bank")
    log.refresh()
    return log


def roll_back(log: CommitLog, life: int = 2) -> RollbackTarget:
    epoch = log.history.epoch
    assert epoch is not None
    return log.roll_back(epoch, f"w{life}", began_at=3.5, actor="bob", detail="bob died")


BEGIN = EpochRecord(0, 1, "w1")
ELSEWHERE = "file:///elsewhere"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((BEGIN,), None),
        ((BEGIN, commit(1, snap(1)), commit(2, snap(2))), RollbackTarget(snap(2))),
        ((BEGIN, commit(1, snap(1)), commit(2, snap(2), advances=False)), RollbackTarget(snap(1))),
        ((BEGIN, commit(1, snap(1), label="before the move")), RollbackTarget(snap(1))),
        ((BEGIN, commit(1, snap(1)), EpochRecord(2, 1, "another")), RollbackTarget(snap(1))),
        ((BEGIN, commit(1, snap(1)), EpochRecord(2, 2, "w2")), None),
        (
            (BEGIN, commit(1, snap(1)), EpochRecord(2, 2, "w2"), RestoreRecord(3, "w2", snap(1), None, claimed=False)),
            RollbackTarget(snap(1)),
        ),
        ((BEGIN, RestoreRecord(1, "w1", snap(9, 4), ELSEWHERE, claimed=True)), RollbackTarget(snap(9, 4), ELSEWHERE)),
    ],
)
def test_a_life_goes_back_to_its_newest_cut_that_advances_or_to_where_it_came_from(
    records: Sequence[Record], expected: RollbackTarget | None
) -> None:
    assert log_of(*records).history.rollback_target == expected


RESTORED = (BEGIN, commit(1, snap(1)), EpochRecord(2, 2, "w2"), RestoreRecord(3, "w2", snap(1), None, True, "again"))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((BEGIN,), False),
        ((BEGIN, commit(1, snap(1))), False),
        (RESTORED, True),
        ((*RESTORED, EpochRecord(4, 2, "another")), True),
        ((*RESTORED, went_back(4, 3, snap(1))), True),
        ((*RESTORED, commit(4, snap(1, 2), advances=False)), True),
        ((*RESTORED, commit(4, snap(1, 2))), False),
        ((*RESTORED, commit(4, snap(1, 2)), went_back(5, 3, snap(1, 2))), False),
        ((*RESTORED, EpochRecord(4, 3, "w3")), False),
        ((*RESTORED[:3], RestoreRecord(3, "w2", snap(1), ELSEWHERE, claimed=False)), True),
        ((*RESTORED[:3], RestoreRecord(3, "w1", snap(1), None, True, "again")), False),
    ],
)
def test_what_a_person_said_of_a_restore_holds_until_the_life_has_a_snapshot_of_its_own_that_advances(
    records: Sequence[Record], expected: bool
) -> None:
    assert log_of(*records).history.is_as_restored is expected


def test_going_back_is_one_record_and_a_snapshot_of_the_life_before_is_never_committed_behind_it() -> None:
    log = log_of(BEGIN, commit(1, snap(1)))
    assert roll_back(log) == RollbackTarget(snap(1))
    record = log.records()[-1]
    assert record == went_back(2, 2, snap(1))
    assert log.epoch == record
    assert log.history.restores == {2: record}
    assert log.history.line() == {1, 2}
    with pytest.raises(Fenced, match="can never be committed: life 2"):
        log.append(CommitRecord(3, "w2", 2, snap(2), manifest_name(snap(2)), "ab" * 32, 1.5))


class Racing(MemoryStore):
    """Writes `rivals` just before the first record that the log tries to write there."""

    rivals: tuple[Record, ...] = ()

    def create(self, key: str, data: Any) -> None:
        rivals, self.rivals = self.rivals, ()
        for rival in rivals:
            super().create(log_key("bank", rival.position), encode_record(rival))
        super().create(key, data)


def test_a_commit_that_comes_just_before_is_the_one_that_the_system_goes_back_to() -> None:
    store = Racing()
    log = log_of(BEGIN, commit(1, snap(1)), store=store)
    store.rivals = (commit(2, snap(2)),)
    assert roll_back(log) == RollbackTarget(snap(2))
    assert log.next_position == 4


def test_a_deletion_that_comes_just_before_stops_it_and_nothing_is_written() -> None:
    store = Racing()
    log = log_of(BEGIN, commit(1, snap(1)), store=store)
    store.rivals = (DeleteRecord(2, "somebody", snap(1)),)
    with pytest.raises(SnapshotDeleted, match=r"would go back to 1-coordinator-1, which was deleted$"):
        roll_back(log)
    assert log.next_position == 3


def test_it_never_goes_further_back_by_itself_and_says_what_is_left() -> None:
    store = MemoryStore()
    repository = open_bank(store, "w1")
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, Bank(), 2)
    delete_snapshot(store, "bank", snap(2), None)
    with pytest.raises(SnapshotDeleted, match="from 1-coordinator-1 the work behind it would be lost"):
        roll_back(repository.log)


def test_without_any_snapshot_there_is_no_way_back() -> None:
    with pytest.raises(SnapshotNotFound, match="life 1 of 'bank' has no committed snapshot to go back to"):
        roll_back(log_of(BEGIN))


def test_a_reason_of_any_length_and_with_any_characters_is_written() -> None:
    store = MemoryStore()
    log = log_of(BEGIN, commit(1, snap(1)), store=store)
    epoch = log.history.epoch
    assert epoch is not None
    log.roll_back(epoch, "w2", began_at=3.5, actor="bob", detail="\ud800" + "\U0001f4a5" * 9999)
    record = log_of(store=store).records()[-1]
    assert isinstance(record, RollbackRecord)
    assert record.detail == "?" + "\U0001f4a5" * 1023


def test_a_coordinator_that_was_replaced_cannot_take_the_system_back() -> None:
    store = Racing()
    log = log_of(BEGIN, commit(1, snap(1)), store=store)
    store.rivals = (EpochRecord(2, 1, "another"),)
    with pytest.raises(Fenced, match="another has written record 2"):
        roll_back(log)
    assert log.history.incarnation == 1


def test_of_two_that_go_back_at_once_one_does() -> None:
    store = MemoryStore()
    first = log_of(BEGIN, commit(1, snap(1)), store=store)
    second = log_of(store=store)
    assert roll_back(first) == RollbackTarget(snap(1))
    epoch = second.history.epoch
    assert epoch is not None
    with pytest.raises(Fenced):
        second.roll_back(epoch, "w9", began_at=3.5, actor=None, detail="its coordinator died")
    assert second.refresh().incarnation == 2


def test_an_answer_that_was_lost_makes_no_second_life() -> None:
    class Lossy(MemoryStore):
        lost = 0

        def create(self, key: str, data: Any) -> None:
            super().create(key, data)
            if key == log_key("bank", 2) and not self.lost:
                self.lost += 1
                raise StoreUnavailable("the answer was lost")

    log = log_of(BEGIN, commit(1, snap(1)), store=Lossy())
    assert roll_back(log) == RollbackTarget(snap(1))
    assert (log.next_position, log.history.incarnation) == (3, 2)


def test_the_log_says_how_often_it_went_back_and_what_led_nowhere() -> None:
    log = log_of(BEGIN, commit(1, snap(1)))
    for life in (2, 3):
        roll_back(log, life)
    past = Past(2, {"bob": (3.5, 3.5)}, {"bob": 2})
    assert log.history.past == past
    assert log.history.line() == {1, 3}
    log.append(commit(4, snap(1, 3)))
    assert log.history.past == past.committed()
    log.begin_epoch(3, "w-new")
    assert log.history.past.commits == 1, "a new coordinator goes on counting"
    log.begin_epoch(4, "w4")
    assert log.history.past == Past(), "somebody began anew"


def test_a_retry_after_a_lost_answer_finds_the_record_that_was_written_meanwhile() -> None:
    store = Racing()
    log = log_of(BEGIN, commit(1, snap(1)), store=store)
    written = RollbackRecord(2, 2, "w2", 2.5, "rollback", snapshot=snap(1), origin=None, actor="bob", detail="bob died")
    store.rivals = (written,)
    with pytest.raises(StoreUnavailable, match="an earlier one of w2"):
        roll_back(log)
    assert roll_back(log) == RollbackTarget(snap(1))
    assert (log.epoch, log.next_position) == (written, 3)
    assert log.roll_back(BEGIN, "w2", began_at=9.5, actor=None, detail="again") == RollbackTarget(snap(1))
    assert log.next_position == 3


def test_the_new_life_has_no_number_of_a_copy_that_is_here() -> None:
    copy = CopyRecord(
        2, "copier", 7, snap(1, 7), "copies/7-coordinator-1.0/manifests/7-coordinator-1", "cd" * 32, 1.5,
        origin_position=3, attempt=0,
    )  # fmt: skip
    log = log_of(BEGIN, commit(1, snap(1)), copy)
    roll_back(log, 8)
    assert log.history.incarnation == 8


def test_another_snapshot_that_was_copied_here_under_the_same_id_is_no_way_back() -> None:
    def copy(digest: str) -> CopyRecord:
        key = "copies/1-coordinator-1.1/manifests/1-coordinator-1"
        return CopyRecord(3, "copier", 1, snap(1), key, digest * 32, 1.5, origin_position=3, attempt=1)

    before = (BEGIN, commit(1, snap(1)), DeleteRecord(2, "somebody", snap(1)))
    with pytest.raises(SnapshotDeleted):
        roll_back(log_of(*before, copy("cd")))
    assert roll_back(log_of(*before, copy("ab"))) == RollbackTarget(snap(1))


@pytest.mark.parametrize("detail", ["", "x" * 5000])
def test_no_reason_makes_the_log_unreadable(detail: str) -> None:
    store = MemoryStore()
    log = log_of(BEGIN, commit(1, snap(1)), store=store)
    log.roll_back(BEGIN, "w2", began_at=3, actor=None, detail=detail)
    assert len(log_of(store=store).records()) == 3


def test_going_back_gives_nobodys_snapshot_to_retention_and_keeps_none_for_ever() -> None:
    store = MemoryStore()
    repository = open_bank(store, "w1")
    make_snapshot(repository, Bank(label="before the move"), 1)
    for life in (2, 3):
        roll_back(repository.log, life)
        assert not repository.log.history.owns(committed(store)[0].record), "a savepoint stays its maker's"
        make_snapshot(repository, Bank(), 1)
        make_snapshot(repository, Bank(), 2)
        retain(repository, Keep(last=1))
    assert [str(snapshot.id) for snapshot in committed(store)] == ["1-coordinator-1", "3-coordinator-2"]


def test_retention_keeps_the_snapshot_that_a_life_came_from_until_it_has_one_of_its_own() -> None:
    store = MemoryStore()
    repository = open_bank(store, "w1")
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, Bank(advances=False), 2)
    roll_back(repository.log)
    retain(repository, Keep(last=1))
    assert [str(snapshot.id) for snapshot in committed(store)] == ["1-coordinator-1", "1-coordinator-2"]
    make_snapshot(repository, Bank(), 1)
    retain(repository, Keep(last=1))
    assert [str(snapshot.id) for snapshot in committed(store)] == ["2-coordinator-1"]


@pytest.mark.wide("slow")
def test_a_restore_goes_back_to_the_last_snapshot_that_advances_or_where_none_does_to_the_last() -> None:
    store = MemoryStore()
    repository = open_bank(store, "w1")
    view = SystemView(store, "bank")
    make_snapshot(repository, Bank(advances=False), 1)
    assert str(view.rollback_target().id) == "1-coordinator-1"
    make_snapshot(repository, Bank(), 2)
    make_snapshot(repository, Bank(advances=False), 3)
    assert str(view.latest().id) == "1-coordinator-3"
    assert str(view.rollback_target().id) == "1-coordinator-2"
