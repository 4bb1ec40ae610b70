"""Dates, times and time zones in the closed table of the inert reader.

A zone of a database stays a name, because what is read must not choose a file that is opened: `Zone`. So a time in such
a zone is no `datetime`, which would ask its zone for an offset as soon as it is hashed or compared, but a `ZonedTime`.
Zones that carry their offset, as those of pytz do, become `datetime.timezone`.
"""

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from rayshot.inert.inert_object import Inert
from rayshot.inert.limits import ReadingLimits

_ZONE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}", re.ASCII)
_ZONE_FOLDER = "zoneinfo/"
_Arguments = tuple[Any, ...]
_Local = TypeVar("_Local", dt.datetime, dt.time)


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone of a database, by its name such as Europe/Berlin."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class ZonedTime:
    """A date with time, or a time, in a zone of a database.

    `fold` is 1 for the second of two moments at which the clocks of the zone show the same.
    """

    local: dt.datetime | dt.time
    zone: Zone
    fold: int

    @property
    def kind(self) -> type:
        """The class that was pickled."""
        return type(self.local)

    def __str__(self) -> str:
        """ISO 8601, a blank and the zone, as Spark casts it. It knows no `fold`, so one of 1 stands behind."""
        return f"{self.local.isoformat()} {self.zone}{' fold=1' if self.fold else ''}"

    __repr__ = __str__


def make_timedelta(arguments: _Arguments, _: ReadingLimits) -> dt.timedelta:
    """A span of time."""
    days, seconds, microseconds = arguments
    return dt.timedelta(_small(days), _small(seconds), _small(microseconds))


def make_timezone(arguments: _Arguments, _: ReadingLimits) -> dt.timezone:
    """A fixed offset of Python."""
    match arguments:
        case (dt.timedelta(),) | (dt.timedelta(), str()):
            return dt.timezone(*arguments)
    raise _refused()


def make_datetime(arguments: _Arguments, _: ReadingLimits) -> dt.datetime | ZonedTime:
    """A date with time."""
    data, zone = _packed(arguments, 10)
    return _in_zone(dt.datetime(data), zone)  # type: ignore[arg-type, call-arg]  # noqa: DTZ001  # as pickled


def make_date(arguments: _Arguments, _: ReadingLimits) -> dt.date:
    """A date."""
    data, _zone = _packed(arguments, 4)
    return dt.date(data).replace()  # type: ignore[arg-type, call-arg]  # as pickled


def make_time(arguments: _Arguments, _: ReadingLimits) -> dt.time | ZonedTime:
    """A time of day."""
    data, zone = _packed(arguments, 6)
    return _in_zone(dt.time(data), zone)  # type: ignore[arg-type]  # as pickled


def make_attribute(arguments: _Arguments, _: ReadingLimits) -> Inert:
    """The function that makes a ZoneInfo from its pickle. Python 3.11 pickles it as an attribute of its class."""
    match arguments:
        case (Inert(class_name="zoneinfo.ZoneInfo", args=None), "_unpickle"):
            return Inert("zoneinfo.ZoneInfo._unpickle")
    raise _refused()


def make_zone_info(arguments: _Arguments, _: ReadingLimits) -> Zone:
    """A zone of Python's own database."""
    name, _from_cache = arguments
    return _named(name)


def make_pytz_utc(arguments: _Arguments, _: ReadingLimits) -> dt.timezone:
    """UTC of pytz."""
    if arguments:
        raise _refused()
    return dt.UTC


def make_pytz_zone(arguments: _Arguments, _: ReadingLimits) -> Zone | dt.timezone:
    """A zone of pytz: with the offset of the period that it stands for, or without if it never had another."""
    match arguments:
        case (name,):
            return _named(name)
        case (name, offset_s, _saved_s, str()):
            return dt.timezone(dt.timedelta(seconds=_small(offset_s)), str(_named(name)))
    raise _refused()


def make_pytz_offset(arguments: _Arguments, _: ReadingLimits) -> dt.timezone:
    """A fixed offset of pytz, in minutes."""
    (minutes,) = arguments
    return dt.timezone(dt.timedelta(minutes=_small(minutes)))


def build_zone_of_file(record: Inert, state: Any, _: ReadingLimits) -> Zone:
    """A zone of dateutil, which pickles the path of its file and the whole table; the end of the path is the name."""
    match record.args, state:
        case (None, str(path)), dict():
            return _named(path.rpartition(_ZONE_FOLDER)[2])
    raise _refused()


def build_offset(record: Inert, state: Any, _: ReadingLimits) -> dt.timezone:
    """A fixed offset of dateutil."""
    match record.args, state:
        case (), {"_offset": dt.timedelta() as offset, "_name": None, **rest} if not rest:
            return dt.timezone(offset)
        case (), {"_offset": dt.timedelta() as offset, "_name": str(name), **rest} if not rest:
            return dt.timezone(offset, name)
    raise _refused()


def _packed(arguments: _Arguments, size: int) -> tuple[bytes, Any]:
    """The bytes of a date or time, and its zone or None."""
    match arguments:
        case (bytes(data),) if len(data) == size:
            return data, None
        case (bytes(data), zone) if len(data) == size:
            return data, zone
    raise _refused()


def _in_zone(local: _Local, zone: Any) -> _Local | ZonedTime:
    """The type itself hardly checks its bytes; `.replace()` checks the result."""
    match zone:
        case None | dt.timezone():
            return local.replace(tzinfo=zone)
        case Inert(class_name="dateutil.tz.tz.tzutc", args=(), state=None):
            return local.replace(tzinfo=dt.UTC)
        case Zone():
            return ZonedTime(local.replace(fold=0), zone, local.fold)
    raise _refused()


def _named(name: Any) -> Zone:
    if type(name) is not str or not _ZONE_NAME.fullmatch(name):
        raise _refused()
    return Zone(name)


def _small(number: Any) -> int:
    if type(number) is not int:
        raise _refused()
    return number


def _refused() -> TypeError:
    return TypeError("not the arguments that this type writes")
