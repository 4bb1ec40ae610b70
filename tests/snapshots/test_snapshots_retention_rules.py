import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayshot.errors import ConfigError
from rayshot.log.layout import manifest_name
from rayshot.log.records import CommitRecord
from rayshot.model.configuration import SnapshotConfig
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.upkeep.retention import Keep, choose_kept

HOUR, DAY = 3600.0, 86400.0
MONDAY = 1_763_337_600.0
"""2025-11-17 00:00 UTC."""

times = st.lists(st.floats(MONDAY, MONDAY + 60 * DAY), max_size=40)
counts = st.none() | st.integers(1, 6)
keeps = st.builds(Keep, last=counts, hourly=counts, daily=counts, weekly=counts)


def records(taken_at: list[float]) -> list[CommitRecord]:
    found = []
    for position, moment in enumerate(taken_at, 1):
        snapshot = SnapshotId(1, "coordinator", position)
        found.append(CommitRecord(position, "w", 1, snapshot, manifest_name(snapshot), "ab" * 32, moment))
    return found


def kept(taken_at: list[float], keep: Keep) -> list[int]:
    return sorted(snapshot.counter for snapshot in choose_kept(records(taken_at), keep))


def test_the_newest_of_each_hour_day_and_week_is_kept() -> None:
    half_hours = [MONDAY + number * HOUR / 2 for number in range(48 * 15)]  # fifteen days
    assert kept(half_hours, Keep(last=2)) == [719, 720]
    assert kept(half_hours, Keep(hourly=3)) == [716, 718, 720]
    assert kept(half_hours, Keep(daily=2)) == [672, 720]
    assert kept(half_hours, Keep(weekly=9)) == [336, 672, 720]
    assert kept(half_hours, Keep(last=1, hourly=2, daily=2, weekly=2)) == [672, 718, 720]


def test_periods_without_a_snapshot_do_not_count() -> None:
    assert kept([MONDAY, MONDAY + 9 * DAY, MONDAY + 40 * DAY], Keep(daily=2)) == [2, 3]


def test_without_a_rule_everything_is_kept() -> None:
    assert kept([MONDAY] * 5, Keep()) == [1, 2, 3, 4, 5]
    assert Keep().everything


@given(times, keeps)
def test_the_newest_is_always_kept_and_what_is_kept_now_was_kept_before(taken_at: list[float], keep: Keep) -> None:
    ordered = records(taken_at)
    chosen = choose_kept(ordered, keep)
    if ordered:
        assert ordered[-1].snapshot in chosen
        before = choose_kept(ordered[:-1], keep)
        assert chosen - {ordered[-1].snapshot} <= before  # nobody comes back who was deleted
    assert choose_kept([record for record in ordered if record.snapshot in chosen], keep) == chosen


@given(times, keeps)
def test_each_rule_keeps_as_many_periods_as_it_says_and_another_rule_only_adds(
    taken_at: list[float], keep: Keep
) -> None:
    ordered = records(taken_at)
    chosen = choose_kept(ordered, keep)
    periods = {
        "last": lambda record: record.position,
        "hourly": lambda record: int(record.taken_at // HOUR),
        "daily": lambda record: int(record.taken_at // DAY),
        "weekly": lambda record: int((record.taken_at - MONDAY) // (7 * DAY)),
    }
    for name, period in periods.items():
        count = getattr(keep, name)
        if count is not None:
            alone = choose_kept(ordered, Keep(**{name: count}))
            assert alone <= chosen
            assert len(alone) == min(count, len({period(record) for record in ordered}))


@pytest.mark.acceptance("E5")
@given(times, keeps, st.floats(-2 * HOUR, 2 * HOUR))
def test_a_clock_that_was_wrong_changes_no_order_and_never_what_the_newest_is(
    taken_at: list[float], keep: Keep, error_s: float
) -> None:
    half = len(taken_at) // 2
    wrong = [*taken_at[:half], *(moment + error_s for moment in taken_at[half:])]
    if wrong:
        assert len(wrong) in kept(wrong, keep)
    assert len(kept(wrong, Keep(last=3))) == min(3, len(wrong))


def test_keeping_nothing_is_refused() -> None:
    for name in ("last", "hourly", "daily", "weekly"):
        with pytest.raises(ConfigError, match="at least one snapshot"):
            Keep(**{name: 0})
    for name in ("num_to_keep", "keep_hourly", "keep_daily", "keep_weekly"):
        with pytest.raises(ConfigError, match=f"{name} is 0"):
            SnapshotConfig(**{name: 0})
