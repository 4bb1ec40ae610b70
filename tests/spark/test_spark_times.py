"""Times with a zone in a state are texts that Spark casts to the same moment."""

import datetime as dt
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dateutil.tz
import pytest
import pytz

from rayshot.places.local import LocalStore
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank

MOMENT = dt.datetime(2026, 7, 1, 10, 30, tzinfo=dt.UTC)
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
ZONES = {
    "zoneinfo": BERLIN,
    "zoneinfo_utc": zoneinfo.ZoneInfo("UTC"),
    "pytz": pytz.timezone("Europe/Berlin"),
    "pytz_static": pytz.timezone("Etc/GMT-1"),
    "dateutil": dateutil.tz.gettz("Europe/Berlin"),
    "dateutil_utc": dateutil.tz.UTC,
    "dateutil_fixed": dateutil.tz.tzoffset("x", 3600),
}


@pytest.mark.acceptance("S11")
def test_a_time_with_a_zone_is_cast_to_its_moment_as_value_key_and_change(
    table: Callable[..., Any], tmp_path: Path
) -> None:
    repository = open_bank(LocalStore(tmp_path))
    times = {name: MOMENT.astimezone(zone) for name, zone in ZONES.items()}
    twice = dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    make_snapshot(repository, Bank(states={"alice": {**times, "by": {times["zoneinfo"]: 1}}, "bob": {"at": twice}}), 1)
    later = {name: time + dt.timedelta(hours=1) for name, time in times.items()}
    second = {"alice": {**later, "by": {}}, "bob": {"at": twice.replace(fold=1)}}
    make_snapshot(repository, Bank(states=second), 2)

    value = "unix_timestamp(cast(trim(BOTH '\"' FROM {}) AS timestamp))"
    state = table(tmp_path, "state", snapshot="1-coordinator-1", actor="alice").where("attribute != 'by'")
    cast = {row.attribute: row.at for row in state.selectExpr("attribute", value.format("value") + " AS at").collect()}
    assert cast == dict.fromkeys(ZONES, MOMENT.timestamp())

    (key,) = table(tmp_path, "entries", snapshot="1-coordinator-1", actor="alice").where("attribute = 'by'").collect()
    assert (key.key, key.key_type) == ('"2026-07-01T12:30:00 Europe/Berlin"', "datetime.datetime")

    changes = table(tmp_path, "state_diff", snapshot="1-coordinator-2")
    moved = changes.where("actor = 'alice' AND attribute NOT LIKE '%by%'")
    spans = moved.selectExpr(f"{value.format('new')} - {value.format('old')} AS span").collect()
    assert [row.span for row in spans] == [3600] * len(ZONES)
    (fold,) = (
        changes.where("actor = 'bob'")
        .selectExpr("old", "new", "try_cast(trim(BOTH '\"' FROM new) AS timestamp)")
        .collect()
    )
    assert tuple(fold) == (f'"{twice:%FT%T} Europe/Berlin"', f'"{twice:%FT%T} Europe/Berlin fold=1"', None)
