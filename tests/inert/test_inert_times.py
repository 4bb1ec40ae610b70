"""Times with a zone of zoneinfo, pytz or dateutil are read as texts with their zone, and no database is opened."""

import datetime as dt
import pickle
import zoneinfo

import dateutil.tz
import dateutil.zoneinfo
import pytest
import pytz

from rayshot.analysis import values
from rayshot.inert.digest import content_digest
from rayshot.inert.inert_object import short_repr
from rayshot.inert.jsonable import jsonable
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read
from rayshot.inert.times import Zone

pytestmark = pytest.mark.acceptance("S11")
NOON = dt.datetime(2026, 7, 1, 12, 30)  # noqa: DTZ001
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TWICE = dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
SUMMER = pytz.timezone("Europe/Berlin").localize(NOON)
NAMED_BY_BUNDLE = "2026-07-01T12:30:00 Australia/Eucla"
NAMED = "2026-07-01T12:30:00 Europe/Berlin"


def inert(value):
    return read(pickle.dumps(value, protocol=5))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (NOON.replace(tzinfo=BERLIN), NAMED),
        (NOON.replace(tzinfo=zoneinfo.ZoneInfo.no_cache("UTC")), "2026-07-01T12:30:00 UTC"),
        (NOON.replace(tzinfo=BERLIN).timetz(), "12:30:00 Europe/Berlin"),
        (NOON.replace(tzinfo=dateutil.tz.gettz("Europe/Berlin")), NAMED),
        (NOON.replace(tzinfo=dateutil.zoneinfo.get_zonefile_instance().get("Australia/Eucla")), NAMED_BY_BUNDLE),
        (NOON.replace(tzinfo=dateutil.tz.tzutc()), "2026-07-01T12:30:00+00:00"),
        (NOON.replace(tzinfo=dateutil.tz.tzoffset("x", -3600)), "2026-07-01T12:30:00-01:00"),
        (NOON.replace(tzinfo=dateutil.tz.tzoffset(None, 60)), "2026-07-01T12:30:00+00:01"),
        (NOON.replace(tzinfo=pytz.utc), "2026-07-01T12:30:00+00:00"),
        (SUMMER, "2026-07-01T12:30:00+02:00"),
        (NOON.replace(tzinfo=pytz.FixedOffset(-90)), "2026-07-01T12:30:00-01:30"),
        (NOON.replace(tzinfo=pytz.timezone("Etc/GMT-1")), "2026-07-01T12:30:00 Etc/GMT-1"),
    ],
    ids=str,
)
def test_a_time_is_a_text_with_its_zone(value, text):
    (back,) = inert([value])
    assert jsonable(back) == text
    assert values.type_name(back) == f"datetime.{type(value).__name__}"


def test_of_an_hour_that_comes_twice_the_second_says_so():
    assert jsonable(inert([TWICE])) == ["2026-10-25T02:30:00 Europe/Berlin"]
    assert jsonable(inert([TWICE.replace(fold=1)])) == ["2026-10-25T02:30:00 Europe/Berlin fold=1"]
    assert short_repr(inert(TWICE)) == "2026-10-25T02:30:00 Europe/Berlin"


@pytest.mark.parametrize("zone", [BERLIN, dateutil.tz.gettz("Europe/Berlin"), pytz.timezone("Europe/Berlin")])
def test_a_zone_alone_is_its_name(zone):
    back = inert(zone)
    assert jsonable(back) == "Europe/Berlin"
    assert values.type_name(back) in {"datetime.tzinfo", "datetime.timezone"}


def test_as_a_key_a_time_is_its_own_text_and_no_other_time():
    times = [NOON, NOON.replace(tzinfo=BERLIN), NOON.replace(tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo")), SUMMER]
    mapping = dict.fromkeys(times[:3], 1)
    back = inert([mapping, set(times[:3]), frozenset(times[1:2])])
    assert [jsonable(key) for key in back[0]] == ["2026-07-01T12:30:00", NAMED, "2026-07-01T12:30:00 Asia/Tokyo"]
    assert len(back[1]) == 3
    assert values.brief_json(next(iter(back[2]))) == f'"{NAMED}"'


def test_two_times_are_alike_if_clock_zone_and_fold_are_the_same():
    same, other = inert([TWICE, TWICE]), inert([TWICE, TWICE.replace(fold=1)])
    assert alike(same, inert([TWICE, TWICE]))
    assert content_digest(same) == content_digest(inert([TWICE, TWICE]))
    assert not alike(same, other)
    assert content_digest(same) != content_digest(other)
    assert not alike(inert(TWICE), inert(TWICE.replace(tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo"))))


class Call:
    """It pickles as a call of `function` with `arguments`."""

    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


UNPICKLE = zoneinfo.ZoneInfo._unpickle


@pytest.mark.parametrize(
    "hostile",
    [
        *(Call(UNPICKLE, name, 1) for name in ("../../etc/passwd", "/etc/localtime", "", "a\nb", "x" * 101, 7, None)),
        Call(UNPICKLE, "Europe/Berlin"),
        Call(getattr, zoneinfo.ZoneInfo, "from_file"),
        Call(getattr, dt.datetime, "_unpickle"),
        Call(pytz._p, "Europe/Berlin", 10**9, 0, "X"),
        Call(pytz._p, "Europe/Berlin", 10**400, 0, "X"),
        Call(pytz._p, "Europe/Berlin", "1", 0, "X"),
        Call(pytz.FixedOffset, True),
        Call(dateutil.tz.tzfile, None, "/etc/localtime"),
        Call(dt.datetime, b"\x07\xea\x07\x01\x0c\x1e\x00\x00\x00\x00", Zone("Europe/Berlin")),
    ],
    ids=lambda hostile: str(hostile.parts[1])[:40],
)
def test_what_no_zone_writes_stays_a_record(hostile):
    assert "$class" in str(jsonable(inert([hostile])))


def test_reading_opens_no_file_of_a_zone(monkeypatch):
    pickled = pickle.dumps([NOON.replace(tzinfo=BERLIN), NOON.replace(tzinfo=dateutil.tz.gettz("Europe/Berlin"))])
    monkeypatch.setattr("builtins.open", None)
    monkeypatch.setattr("io.open", None)
    monkeypatch.setattr("zoneinfo.ZoneInfo", None)
    assert jsonable(read(pickled)) == [NAMED, NAMED]
