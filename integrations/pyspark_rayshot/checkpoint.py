"""What a checkpoint keeps about its log, so that a stream never takes another log for it.

A log that was moved or copied as it is has the same records. The log of another storage, or of `rayshot copy`, begins
with another record. A log that was put back to an older state and went on has another record at the stream's place.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rayshot.errors import ConfigError
from rayshot.format.chunks import digest
from rayshot.log.lost_log import log_lost
from rayshot.log.records import Record, kind_of

_TOLD_BY = ("writer", "incarnation", "snapshot", "manifest_digest")
"""Fields that tell a record from others at its place. Never rename them: checkpoints contain digests of them."""


def stamp(system: str, view: str, records: Sequence[Record], end: int) -> dict[str, str]:
    """The part of an offset that identifies a stream that has read the first `end` of `records`."""
    said = {"system": system, "view": view}
    return {**said, "first": mark(records[0]), "last": mark(records[end - 1])} if end else said


def check(offset: Mapping[str, Any], system: str, view: str, records: Sequence[Record]) -> None:
    """Raise if an offset is of another stream. Older offsets do not say of which; they are accepted.

    Raises ConfigError for another storage, system or view, and LogLost if the log has lost what was read.
    """
    for what, now in (("system", system), ("view", view)):
        if offset.get(what, now) != now:
            _refuse(f"the {what} {offset[what]!r}, and this stream reads {now!r}", system)
    if "first" in offset and records and mark(records[0]) != offset["first"]:
        _refuse(f"another storage: its log of {system!r} begins with another record", system)
    end = offset.get("log", 0)
    if end > len(records):
        raise log_lost(system, f"the stream has read {end} records of it, and it has {len(records)}")
    if "last" in offset and mark(records[end - 1]) != offset["last"]:
        raise log_lost(system, f"the stream has read another record {end - 1} than it has", position=end - 1)


def mark(record: Record) -> str:
    """A digest of the fields that tell a record from another one at its place, also in another log."""
    told = (str(getattr(record, field, "")) for field in _TOLD_BY)
    return digest(" ".join([kind_of(record), *told]).encode())


def _refuse(of: str, system: str) -> NoReturn:
    raise ConfigError(
        f"the checkpoint is of {of}: give each stream a checkpointLocation of its own, or continue with the old stream",
        system=system,
    )
