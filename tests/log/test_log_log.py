import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rayshot.errors import BadManifest, CommitUnknown, Fenced, FormatTooNew, StoreFull, StoreUnavailable
from rayshot.format import canonical
from rayshot.log.history import History
from rayshot.log.layout import log_key, manifest_name
from rayshot.log.log import CommitLog
from rayshot.log.records import CommitRecord, DeleteRecord, EpochRecord, Record, decode_record, encode_record
from rayshot.places.local import LocalStore
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from tests.places.faulty_store import Fault, FaultEffect, FaultyStore


def commit(position: int, writer: str, counter: int, incarnation: int = 1) -> CommitRecord:
    snapshot = SnapshotId(incarnation, "coordinator", counter)
    return CommitRecord(position, writer, incarnation, snapshot, manifest_name(snapshot), "ab" * 32, 1.5)


def contender(number: int) -> Record:
    """What coordinators may want to write at position 1: the first commits, the others take over."""
    return commit(1, "w", 1) if number == 1 else EpochRecord(1, 2, f"w{number}")


def put(store: Store, *records: Record, system: str = "bank") -> None:
    for record in records:
        store.create(log_key(system, record.position), encode_record(record))


def test_every_record_is_read_back_as_it_was_written() -> None:
    store = FaultyStore()
    log = CommitLog(store, "bank")
    epoch = log.begin_epoch(3, "w1")
    snapshot = SnapshotId(3, "alice", 2**40)
    kept = CommitRecord(1, "w1", 3, snapshot, manifest_name(snapshot), "0f" * 32, 1763721000.25, "before the move")
    deleted = DeleteRecord(2, "w1", snapshot)
    log.append(kept)
    log.append(deleted)
    assert epoch == EpochRecord(0, 3, "w1")
    assert CommitLog(store, "bank").records() == (epoch, kept, deleted)


def test_a_log_and_each_of_its_lives_have_names_that_a_new_coordinator_keeps_and_no_copy_shares() -> None:
    log, other = CommitLog(FaultyStore(), "bank"), CommitLog(FaultyStore(), "bank")
    assert (log.run, log.owner) == ("", "")
    log.begin_epoch(1, "w1")
    other.begin_epoch(1, "w2")
    assert len({log.run, other.run}) == 2
    names = log.run, log.owner
    log.begin_epoch(1, "w3")
    assert (log.run, log.owner) == names
    copied = CommitLog(FaultyStore(), "bank")
    put(copied.store, *log.records())
    for one, writer in ((log, "w4"), (copied, "w5")):
        one.refresh()
        one.begin_epoch(2, writer)
    assert log.run == copied.run == names[0]
    assert len({names[1], log.owner, copied.owner}) == 3


def test_the_records_of_a_long_log_are_read_several_at_once() -> None:
    class Meeting(FaultyStore):
        both = threading.Barrier(2, timeout=20)

        def read_range(self, key: str, start: int, length: int) -> bytes:
            if key < log_key("bank", 4):
                self.both.wait()
            return super().read_range(key, start, length)

    store = Meeting()
    records = (EpochRecord(0, 1, "w"), *(commit(position, "w", position) for position in range(1, 4)))
    put(store, *records)
    assert CommitLog(store, "bank").records() == records


def test_the_life_that_somebody_began_is_found_whatever_came_behind_it() -> None:
    store = FaultyStore()
    for life, writer in ((1, "a-1"), (2, "b-1"), (2, "b-2"), (3, "a-2"), (4, "ab-1")):
        log = CommitLog(store, "bank")
        log.refresh()
        log.begin_epoch(life, writer)
    found = [log.begun_by(prefix) for prefix in ("a-", "b-", "ab-", "c-")]
    assert [epoch and (epoch.incarnation, epoch.writer) for epoch in found] == [
        (3, "a-2"),
        (2, "b-2"),
        (4, "ab-1"),
        None,
    ]


def test_an_open_log_sees_what_another_one_appends() -> None:
    store = FaultyStore()
    writer, reader = CommitLog(store, "bank"), CommitLog(store, "bank")
    assert reader.records() == ()
    writer.begin_epoch(1, "w")
    assert len(reader.records()) == 1
    writer.append(commit(1, "w", 1))
    assert list(reader.refresh().retained) == [SnapshotId(1, "coordinator", 1)]


def test_an_open_log_that_fell_far_behind_reads_on_several_at_once() -> None:
    class Meeting(FaultyStore):
        both = threading.Barrier(2, timeout=20)

        def read_range(self, key: str, start: int, length: int) -> bytes:
            if log_key("bank", 65) <= key < log_key("bank", 129):
                self.both.wait()
            return super().read_range(key, start, length)

    store = Meeting()
    put(store, EpochRecord(0, 1, "w"))
    reader = CommitLog(store, "bank")
    assert len(reader.records()) == 1
    put(store, *(commit(position, "w", position) for position in range(1, 200)))
    assert len(reader.refresh().retained) == 199
    assert reader.next_position == 200


def test_appending_the_same_record_again_changes_nothing() -> None:
    log = CommitLog(FaultyStore(), "bank")
    log.begin_epoch(1, "w")
    log.append(commit(1, "w", 1))
    log.append(commit(1, "w", 1))
    assert len(log.records()) == 2


@pytest.mark.acceptance("E1")
def test_the_loser_of_a_position_is_fenced_and_told_by_whom() -> None:
    store = FaultyStore()
    old, new = CommitLog(store, "bank"), CommitLog(store, "bank")
    old.begin_epoch(1, "old")
    new.begin_epoch(2, "new")
    with pytest.raises(Fenced, match="old may not write") as caught:
        old.append(commit(1, "old", 1))
    assert caught.value.evidence == {"writer": "new", "position": 1}
    with pytest.raises(Fenced):
        old.append(commit(2, "old", 1))
    new.append(commit(2, "new", 1, incarnation=2))
    assert [record.writer for record in new.records()] == ["old", "new", "new"]


@pytest.mark.acceptance("E1")
def test_of_two_threads_racing_for_one_position_one_commits_and_the_other_is_fenced(tmp_path: Path) -> None:
    for round_number in range(10):
        store = LocalStore(tmp_path / str(round_number))
        put(store, EpochRecord(0, 1, "w"))
        outcomes = race_in_threads(store, contenders=4)
        assert sorted(outcomes) == ["Fenced", "Fenced", "Fenced", "committed"]
        assert len(CommitLog(store, "bank").records()) == 2


def race_in_threads(store: Store, contenders: int) -> list[str]:
    start = threading.Barrier(contenders)
    outcomes: list[str] = []

    def run(number: int) -> None:
        log = CommitLog(store, "bank")
        log.refresh()
        start.wait()
        try:
            log.append(contender(number))
        except Fenced as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("committed")

    threads = [threading.Thread(target=run, args=(number + 1,)) for number in range(contenders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


RACER = """
import sys
from rayshot.errors import Fenced
from rayshot.places.local import LocalStore
from rayshot.log.log import CommitLog
from tests_commit import contender
log = CommitLog(LocalStore(sys.argv[1]), "bank")
log.refresh()
print("ready", flush=True)
sys.stdin.readline()
try:
    log.append(contender(int(sys.argv[2])))
    print("committed")
except Fenced:
    print("fenced")
"""


@pytest.mark.acceptance("E1")
def test_of_two_processes_racing_for_one_position_one_commits_and_the_other_is_fenced(tmp_path: Path) -> None:
    put(LocalStore(tmp_path), EpochRecord(0, 1, "w"))
    here = Path(__file__)
    program = RACER.replace("tests_commit", here.stem)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": f"{here.parents[2]}:{here.parent}"},
        )
        for number in (1, 2)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    outcomes = [racer.communicate(timeout=30)[0].strip() for racer in racers]
    assert sorted(outcomes) == ["committed", "fenced"]
    winner = CommitLog(LocalStore(tmp_path), "bank").records()[1]
    assert winner == contender(outcomes.index("committed") + 1)


@pytest.mark.acceptance("E1")
def test_a_zombies_commit_after_anothers_epoch_does_not_count() -> None:
    store = FaultyStore()
    put(
        store,
        EpochRecord(0, 1, "old"),
        commit(1, "old", 1),
        EpochRecord(2, 2, "new"),
        commit(3, "old", 2),
        DeleteRecord(4, "old", SnapshotId(1, "coordinator", 1)),
        commit(5, "new", 1, incarnation=2),
    )
    retained = CommitLog(store, "bank").refresh().retained
    assert [record.position for record in retained.values()] == [1, 5]


@pytest.mark.acceptance("E1")
def test_a_zombies_epoch_of_an_older_life_does_not_count() -> None:
    history = History()
    for record in (EpochRecord(0, 2, "new"), EpochRecord(1, 1, "old"), commit(2, "old", 1), commit(3, "new", 2, 2)):
        history.add(record)
    assert history.incarnation == 2
    assert [record.position for record in history.retained.values()] == [3]


@pytest.mark.acceptance("E1")
def test_a_snapshot_of_an_earlier_life_is_never_committed_even_by_the_writer_of_the_later_one() -> None:
    store = FaultyStore()
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    log.append(commit(1, "w", 1))
    log.begin_epoch(2, "w")
    late = commit(3, "w", 2, incarnation=1)
    with pytest.raises(Fenced, match="1-coordinator-2 can never be committed: life 2 of 'bank' has begun"):
        log.append(late)
    put(store, late)
    assert [str(snapshot) for snapshot in CommitLog(store, "bank").refresh().retained] == ["1-coordinator-1"]


def test_a_writer_without_an_epoch_is_fenced() -> None:
    with pytest.raises(Fenced, match="no epoch was begun"):
        CommitLog(FaultyStore(), "bank").append(commit(0, "w", 1))


def test_what_was_deleted_is_not_committed_again() -> None:
    history = History()
    for record in (EpochRecord(0, 1, "w"), commit(1, "w", 1), DeleteRecord(2, "w", commit(1, "w", 1).snapshot)):
        history.add(record)
    history.add(commit(3, "w", 1))
    assert not history.retained
    assert [record.position for record in history.deleted.values()] == [1]


def test_coordinators_that_start_together_never_share_a_life() -> None:
    store = FaultyStore()
    start = threading.Barrier(8)
    epochs: list[EpochRecord] = []
    fenced: list[str] = []

    def begin(number: int) -> None:
        log = CommitLog(store, "bank")
        incarnation = log.refresh().incarnation + 1
        start.wait()
        try:
            epochs.append(log.begin_epoch(incarnation, f"w{number}"))
        except Fenced as error:
            fenced.append(error.evidence["writer"])

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [epoch.incarnation for epoch in epochs] == [1]
    assert fenced == [epochs[0].writer] * 7
    assert CommitLog(store, "bank").records() == tuple(epochs)


def test_a_new_coordinator_goes_on_with_the_same_life_and_fences_out_the_old_one() -> None:
    store = FaultyStore()
    old, new = CommitLog(store, "bank"), CommitLog(store, "bank")
    old.begin_epoch(1, "old")
    old.append(commit(1, "old", 1))
    assert new.refresh().incarnation == 1
    new.begin_epoch(1, "new")
    with pytest.raises(Fenced):
        old.append(commit(2, "old", 2))
    new.append(commit(3, "new", 2))
    assert len(new.refresh().retained) == 2


def test_an_epoch_of_a_life_that_is_over_is_refused() -> None:
    store = FaultyStore()
    CommitLog(store, "bank").begin_epoch(5, "w5")
    with pytest.raises(Fenced, match="w5 has written record 0"):
        CommitLog(store, "bank").begin_epoch(4, "w4")


def test_an_epoch_moves_on_past_a_record_that_was_faster() -> None:
    store = FaultyStore()
    old, new = CommitLog(store, "bank"), CommitLog(store, "bank")
    old.begin_epoch(1, "old")
    create = store.create

    def overtaken(key: str, data: object) -> None:
        store.create = create  # type: ignore[method-assign]
        old.append(commit(1, "old", 1))
        create(key, data)  # type: ignore[arg-type]

    store.create = overtaken  # type: ignore[method-assign,assignment]
    assert new.begin_epoch(2, "new").position == 2


@pytest.mark.acceptance("D3")
@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER])
def test_a_commit_whose_answer_is_lost_is_committed_once(effect: FaultEffect) -> None:
    store = FaultyStore()
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    store.fault = Fault(store.calls + 1, effect)
    log.append(commit(1, "w", 1))
    assert CommitLog(store, "bank").records()[1:] == (commit(1, "w", 1),)


@pytest.mark.acceptance("D5")
@pytest.mark.parametrize("effect", [FaultEffect.BEFORE, FaultEffect.AFTER])
def test_a_commit_that_gets_no_answer_at_all_is_unknown_and_settled_later(effect: FaultEffect) -> None:
    store = FaultyStore()
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    store.fault = Fault(store.calls + 1, effect, count=1000)
    with pytest.raises(CommitUnknown):
        log.append(commit(1, "w", 1))
    store.fault = None
    log.append(commit(1, "w", 1))
    log.append(commit(2, "w", 2))
    assert len(CommitLog(store, "bank").refresh().retained) == 2


@pytest.mark.acceptance("D5")
def test_a_commit_that_came_through_late_does_not_make_its_own_writer_a_stranger() -> None:
    store = FaultyStore()
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    store.fault = Fault(store.calls + 1, count=1000)
    with pytest.raises(CommitUnknown):
        log.append(commit(1, "w", 1))
    store.fault = None
    put(store, commit(1, "w", 1))
    with pytest.raises(StoreUnavailable, match="take the next"):
        log.append(commit(1, "w", 2))
    log.append(commit(2, "w", 2))
    assert len(CommitLog(store, "bank").refresh().retained) == 2


def test_a_full_store_is_said_to_be_full_and_nothing_is_committed() -> None:
    store = FaultyStore()
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    store.fault = Fault(store.calls + 1, error=lambda: StoreFull("no room", path="log", bytes=1))
    with pytest.raises(StoreFull):
        log.append(commit(1, "w", 1))
    assert len(CommitLog(store, "bank").records()) == 1
    log.append(commit(1, "w", 1))


def test_a_hole_in_the_log_is_damage() -> None:
    store = FaultyStore()
    put(store, EpochRecord(0, 1, "w"), commit(1, "w", 1), commit(2, "w", 2))
    store.delete(log_key("bank", 1))
    log = CommitLog(store, "bank")
    for _ in range(2):
        with pytest.raises(BadManifest, match="record 1 is missing"):
            log.records()
    assert log.next_position == 0, "nothing of a log with a hole is taken"


def test_a_record_that_would_leave_a_hole_is_a_programmers_mistake() -> None:
    log = CommitLog(FaultyStore(), "bank")
    log.begin_epoch(1, "w")
    with pytest.raises(AssertionError, match="hole"):
        log.append(commit(5, "w", 1))


def test_a_refresh_costs_the_same_however_long_the_log_is() -> None:
    store = FaultyStore()
    log = CommitLog(store, "bank")
    log.begin_epoch(1, "w")
    for position in range(1, 50):
        log.append(commit(position, "w", position))
    before = store.calls
    log.refresh()
    assert store.calls == before + 1


def test_a_commit_whose_read_back_is_short_is_not_taken_for_anothers() -> None:
    store = FaultyStore()
    put(store, EpochRecord(0, 1, "w"), commit(1, "w", 1))
    log = CommitLog(store, "bank")
    log.refresh()
    record = commit(2, "w", 2)
    put(store, record)  # an earlier attempt of this writer that came through late
    store.fault = Fault(store.calls + 2, FaultEffect.SHORT)
    log.append(record)
    assert len(CommitLog(store, "bank").records()) == 3


def test_objects_in_the_log_folder_that_are_no_records_are_not_read() -> None:
    store = FaultyStore()
    put(store, EpochRecord(0, 1, "w"))
    store.create("bank/log/notes.txt", b"hello")
    assert len(CommitLog(store, "bank").records()) == 1


@pytest.mark.acceptance("G5")
def test_a_record_moved_to_another_position_is_refused() -> None:
    with pytest.raises(BadManifest, match="written for position 1"):
        decode_record(encode_record(commit(1, "w", 1)), 2)


@pytest.mark.acceptance("G6")
def test_a_record_of_a_newer_format_says_what_to_do() -> None:
    with pytest.raises(FormatTooNew, match="pip install --upgrade"):
        decode_record(canonical.pack({"format": 6, "kind": "merge"}), 0)


@pytest.mark.acceptance("G2")
@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        {"format": 1},
        {"format": 1, "kind": "merge"},
        {"format": 1, "kind": ["epoch"]},
        {"format": 1, "kind": "epoch", "position": 0, "incarnation": 1},
        {"format": 1, "kind": "epoch", "position": 0, "incarnation": 0, "writer": "w"},
        {"format": 1, "kind": "epoch", "position": 0, "incarnation": 1, "writer": 7},
        {"format": 1, "kind": "delete", "position": 0, "writer": "w", "snapshot": [1, "../x", 1]},
        {"format": 1, "kind": "delete", "position": 0, "writer": "w", "snapshot": [1, "x"]},
    ],
)
def test_a_record_that_contradicts_its_form_is_refused(tree: object) -> None:
    with pytest.raises(BadManifest):
        decode_record(canonical.pack(tree), 0)
