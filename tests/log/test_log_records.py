from dataclasses import replace
from itertools import product

import pytest

from rayshot.errors import BadManifest, FormatTooNew, LimitExceeded
from rayshot.format import canonical
from rayshot.format.chunks import digest
from rayshot.log.history import History
from rayshot.log.layout import copy_folder, manifest_name, snapshot_of
from rayshot.log.records import (
    CommitRecord,
    CopyRecord,
    DeleteRecord,
    EpochRecord,
    ExpireRecord,
    Record,
    RestoreRecord,
    RollbackRecord,
    decode_record,
    encode_record,
)
from rayshot.protocol.identity import SnapshotId
from tests.format.test_format_manifest import MANIFEST

ONE, TWO = SnapshotId(1, "coordinator", 1), SnapshotId(1, "coordinator", 2)


def commit(position: int, writer: str, snapshot: SnapshotId, resealed_for: int | None = None) -> CommitRecord:
    name = manifest_name(snapshot, resealed_for)
    return CommitRecord(position, writer, snapshot.incarnation, snapshot, name, "ab" * 32, 1.5)


def copied(position: int, snapshot: SnapshotId, attempt: int, origin_position: int = 9) -> CopyRecord:
    return CopyRecord(
        position,
        "copy",
        snapshot.incarnation,
        snapshot,
        f"{copy_folder(snapshot, attempt)}/{manifest_name(snapshot)}",
        "cd" * 32,
        2.5,
        origin_position=origin_position,
        attempt=attempt,
    )


def went_back(
    position: int, life: int, snapshot: SnapshotId, origin: str | None = None, actor: str | None = "bob"
) -> RollbackRecord:
    return RollbackRecord(
        position, life, f"w{life}", 2.5, "rollback", snapshot=snapshot, origin=origin, actor=actor, detail="it died"
    )


RECORDS: list[Record] = [
    EpochRecord(0, 1, "coordinator-1"),
    EpochRecord(0, 1, "coordinator-1", 1.5, "takeover"),
    commit(1, "w", ONE),
    DeleteRecord(2, "w", ONE),
    copied(3, ONE, 2),
    commit(7, "w", TWO, resealed_for=7),
    ExpireRecord(3, "gc", ONE),
    RestoreRecord(3, "w", ONE, None, claimed=True),
    RestoreRecord(3, "w", ONE, "file:///elsewhere", claimed=False),
    *(RestoreRecord(3, "w", ONE, None, True, *said) for said in (("again", False), ("leave", True), ("refuse", True))),
    went_back(4, 2, ONE),
    went_back(4, 2, ONE, origin="file:///elsewhere", actor=None),
]


@pytest.mark.acceptance("G1", "G2")
@pytest.mark.parametrize("record", RECORDS)
def test_a_record_reads_back_and_cut_or_flipped_at_any_byte_is_refused(record: Record) -> None:
    data = encode_record(record)
    assert decode_record(data, record.position) == record
    for cut in range(len(data)):
        with pytest.raises(BadManifest):
            decode_record(data[:cut], record.position)
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises((BadManifest, FormatTooNew, LimitExceeded)):
                decode_record(bytes(flipped), record.position)


def format_of(record: Record) -> int:
    tree = canonical.unpack(encode_record(record), what="record", bytes_max=10_000)
    assert isinstance(tree["format"], int)
    return tree["format"]


OLD = [record for record in RECORDS if format_of(record) < 5 and not isinstance(record, RollbackRecord)]


@pytest.mark.parametrize("record", OLD)
def test_a_record_of_the_formats_before_is_read(record: Record) -> None:
    """The first had no digest, the first two do not say when and why an epoch began, and no one says `advances`."""
    tree = canonical.unpack(encode_record(record), what="record", bytes_max=10_000)
    del tree["digest"]
    tree.pop("advances", None)
    third = {**tree, "format": 3}
    assert decode_record(canonical.pack({**third, "digest": digest(canonical.pack(third))}), record.position) == record
    if isinstance(record, EpochRecord):
        del tree["began_at"], tree["cause"]
        record = replace(record, began_at=None, cause=None)
    second = {**tree, "format": 2}
    assert (
        decode_record(canonical.pack({**second, "digest": digest(canonical.pack(second))}), record.position) == record
    )
    assert decode_record(canonical.pack({**tree, "format": 1}), record.position) == record
    for wrong in ({**tree, "format": 2}, {**tree, "format": 2, "digest": None}, {**tree, "format": 1, "digest": "ab"}):
        with pytest.raises(BadManifest):
            decode_record(canonical.pack(wrong), record.position)


def test_only_a_record_of_what_a_person_said_about_the_outside_is_too_new_for_an_older_rayshot() -> None:
    assert {format_of(record) for record in RECORDS if not isinstance(record, RestoreRecord)} == {4}
    for mode, takeover in product(("refuse", "again", "leave"), (False, True)):
        record = RestoreRecord(3, "w", ONE, None, True, mode, takeover)  # type: ignore[arg-type]
        assert format_of(record) == (4 if (mode, takeover) == ("refuse", False) else 5)
        with pytest.raises(BadManifest):
            decode_record(forged(record, format=4 if format_of(record) == 5 else 5), 3)


def forged(record: Record, **fields: object) -> bytes:
    """The bytes of `record` with other values, as whoever can write the store makes them."""
    tree = canonical.unpack(encode_record(record), what="record", bytes_max=10_000)
    del tree["digest"]
    tree |= fields
    return canonical.pack({**tree, "digest": digest(canonical.pack(tree))})


@pytest.mark.acceptance("G5")
@pytest.mark.parametrize(
    ("record", "field", "value"),
    [
        (copied(3, ONE, 2), "manifest_key", "manifests/1-coordinator-1"),
        (copied(3, ONE, 2), "manifest_key", "copies/1-coordinator-1.1/manifests/1-coordinator-1"),
        (copied(3, ONE, 2), "attempt", -1),
        (copied(3, ONE, 2), "origin_position", 1.0),
        (commit(7, "w", TWO), "manifest_key", "manifests/2-coordinator-1"),
        (commit(7, "w", TWO), "advances", 1),
        (commit(7, "w", TWO), "manifest_key", "manifests/1-coordinator-2.8"),
        (commit(7, "w", TWO), "manifest_key", "copies/1-coordinator-2.0/manifests/1-coordinator-2"),
        (EpochRecord(0, 1, "w"), "began_at", -1.0),
        (EpochRecord(0, 1, "w"), "cause", "boredom"),
        (EpochRecord(0, 1, "w"), "format", 2),
        (EpochRecord(0, 1, "w"), "cause", "rollback"),
        (went_back(4, 2, ONE), "cause", "begin"),
        (went_back(4, 2, ONE), "actor", ""),
        (went_back(4, 2, ONE), "detail", ""),
        (RestoreRecord(3, "w", ONE, None, claimed=True), "claimed", 1),
        (RestoreRecord(3, "w", ONE, None, claimed=True), "origin", ""),
        (RestoreRecord(3, "w", ONE, None, True, "again"), "outside", "twice"),
        (RestoreRecord(3, "w", ONE, None, True, "again"), "takeover", 1),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(record: Record, field: str, value: object) -> None:
    with pytest.raises(BadManifest, match="record"):
        decode_record(forged(record, **{field: value}), record.position)
    with pytest.raises(BadManifest, match="was changed after it was written"):
        decode_record(encode_record(record)[:-1] + b"!", record.position)


def history_of(*records: Record) -> History:
    history = History()
    for record in records:
        history.add(record)
    return history


def test_a_commit_behind_its_expiry_is_void_and_one_before_it_stays() -> None:
    void = history_of(EpochRecord(0, 1, "w"), ExpireRecord(1, "gc", ONE), commit(2, "w", ONE))
    assert not void.retained
    kept = history_of(EpochRecord(0, 1, "w"), commit(1, "w", ONE), ExpireRecord(2, "gc", ONE))
    assert list(kept.retained) == [ONE]
    assert kept.attempt(ONE) == 0


def test_a_copy_counts_only_in_the_attempt_that_the_log_expects() -> None:
    history = history_of(copied(0, ONE, 1))
    assert not history.retained
    history.add(copied(1, ONE, 0))
    history.add(DeleteRecord(2, "somebody", ONE))
    assert list(history.deleted) == [ONE]
    history.add(copied(3, ONE, 0))
    assert not history.retained
    history.add(copied(4, ONE, 1))
    assert history.retained[ONE].folder == "copies/1-coordinator-1.1"
    assert history.retained[ONE].sealed_for == 9


def test_snapshots_stand_in_the_order_of_their_lives_and_seals_wherever_copies_stand_in_the_log() -> None:
    later = SnapshotId(3, "coordinator", 1)
    history = history_of(
        copied(0, later, 0, origin_position=40),
        copied(1, TWO, 0, origin_position=8),
        EpochRecord(2, 2, "w"),
        commit(3, "w", SnapshotId(2, "coordinator", 1)),
        copied(4, ONE, 0, origin_position=5),
    )
    assert list(history.retained) == [ONE, TWO, SnapshotId(2, "coordinator", 1), later]
    assert (history.incarnation, history.incarnation_max) == (2, 3)


def test_names_tell_their_snapshots() -> None:
    for name in ("1-coordinator-2", "1-coordinator-2.41"):
        assert snapshot_of(name) == TWO
    assert snapshot_of("1-a.b-2.7") == SnapshotId(1, "a.b", 2)
    assert snapshot_of("notes.txt") is None


@pytest.mark.acceptance("G12")
@pytest.mark.parametrize("taken_at", [1e300, -1.0, 1e12, float("inf"), float("nan")])
def test_a_time_that_no_calendar_has_is_refused(taken_at: float) -> None:
    record = CommitRecord(1, "w1", 1, SnapshotId(1, "coordinator", 1), "manifests/1-coordinator-1", "0" * 64, taken_at)
    with pytest.raises(BadManifest, match="record 1 of the commit log: taken_at is"):
        decode_record(encode_record(record), 1)
    with pytest.raises(BadManifest, match="taken_at is"):
        replace(MANIFEST, taken_at=taken_at)
