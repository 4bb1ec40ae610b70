"""Which snapshots the options of a table select."""

from datetime import UTC, datetime

import pytest

from rayshot.errors import ConfigError, SnapshotNotFound
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import TAKEN_AT, Bank, make_snapshot, open_bank


@pytest.fixture
def storage() -> Storage:
    """Taken in the order 3, 1, 2, the second by an initiator whose name holds the dots of a range; after an epoch."""
    store = MemoryStore()
    repository = open_bank(store)
    for counter, bank in ((3, Bank()), (1, Bank(initiator="a..b")), (2, Bank())):
        make_snapshot(repository, bank, counter)
    return Storage(store)


def selected(storage: Storage, **options: object) -> list[str]:
    return storage.table("snapshots", **options).to_arrow()["snapshot"].to_pylist()


C3, A1, C2 = "1-coordinator-3", "1-a..b-1", "1-coordinator-2"


def at(seconds: float) -> str:
    return datetime.fromtimestamp(TAKEN_AT + seconds, UTC).isoformat()


@pytest.mark.parametrize(
    ("moment", "snapshot"),
    [("1", C3), ("2", A1), (3, C2), (at(3), C3), (at(2.5), C2), (at(1), A1), ("2100-01-01", C3)],
)
def test_as_of_is_the_last_in_the_log_up_to_an_index_and_the_last_taken_up_to_a_time(
    storage: Storage, moment: object, snapshot: str
) -> None:
    assert selected(storage, as_of=moment) == [snapshot]


def test_a_time_without_a_zone_is_utc(storage: Storage) -> None:
    assert selected(storage, asOf=at(2).replace("+00:00", "")) == [C2]
    assert selected(storage, asOf=datetime.fromtimestamp(TAKEN_AT + 2, UTC)) == [C2]


@pytest.mark.parametrize(
    ("wanted", "snapshots"),
    [
        ("1..2", [C3, A1]),
        ("2..", [A1, C2]),
        ("..2", [C3, A1]),
        (f"{A1}..{C2}", [A1, C2]),
        (f"{C3}..2", [C3, A1]),
        (f"..{A1}", [C3, A1]),
        (f"{A1}..", [A1, C2]),
        ("0..99", [C3, A1, C2]),
    ],
)
def test_a_range_holds_both_its_ends_and_may_be_open(storage: Storage, wanted: str, snapshots: list[str]) -> None:
    assert selected(storage, snapshots=wanted) == snapshots


@pytest.mark.parametrize(
    "options",
    [{"as_of": 0}, {"as_of": "1999-01-01"}, {"as_of": "2025"}, {"snapshots": "9.."}, {"snapshots": "2..1"}],
)
def test_what_selects_nothing_is_an_error_that_lists_what_there_is(
    storage: Storage, options: dict[str, object]
) -> None:
    with pytest.raises(SnapshotNotFound, match=r"there is 1-coordinator-3 \(log_index 1\), 1-a\.\.b-1"):
        selected(storage, **options)


def test_a_range_that_is_empty_or_turned_round_is_shown_as_it_was_given(storage: Storage) -> None:
    with pytest.raises(SnapshotNotFound, match=r"no snapshot in 0\.\.0; there is"):
        selected(storage, snapshots="0..0")
    with pytest.raises(SnapshotNotFound, match=r"no snapshot in 2\.\.1, whose first end comes after its last one"):
        selected(storage, snapshots="2..1")


def test_the_end_of_a_range_must_be_there(storage: Storage) -> None:
    with pytest.raises(SnapshotNotFound, match=r"the snapshot 1-coordinator-9 .* does not exist"):
        selected(storage, snapshots="1-coordinator-9..")


@pytest.mark.parametrize("options", [{"as_of": "yesterday"}, {"as_of": "-1"}, {"snapshots": "3"}, {"snapshots": ".."}])
def test_a_text_that_selects_nothing_ever_is_refused_with_what_was_expected(
    storage: Storage, options: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match=r"must be a (time|range)"):
        selected(storage, **options)


def test_options_that_contradict_each_other_are_both_named(storage: Storage) -> None:
    with pytest.raises(ConfigError, match="the options 'snapshot' and 'asOf' contradict each other"):
        selected(storage, snapshot="latest", as_of=1)
    with pytest.raises(ConfigError, match="the options 'asOf' and 'snapshots' contradict each other"):
        selected(storage, snapshots="1..", as_of=1)
