"""What a checkpoint keeps of the log that it was made over, so that another log is told and not taken for it.

A log that was moved or copied as it is has the same records. That of another storage, or of `rayshot copy`, begins with
another one, and a log that was put back to an older state and went on has another one where the stream stood.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rayshot.errors import ConfigError
from rayshot.format.chunks import digest
from rayshot.store.lost_log import log_lost
from rayshot.store.records import Record, kind_of

_TOLD_BY = ("writer", "incarnation", "snapshot", "manifest_digest")
"""Fields that tell a record from others at its place. These names stay: digests of them lie in checkpoints."""


def stamp(system: str, view: str, records: Sequence[Record], end: int) -> dict[str, str]:
    """What an offset says of a stream that has read the first `end` of `records`."""
    said = {"system": system, "view": view}
    return {**said, "first": mark(records[0]), "last": mark(records[end - 1])} if end else said


def check(offset: Mapping[str, Any], system: str, view: str, records: Sequence[Record]) -> None:
    """Raise where an offset is of another stream; one that says nothing of it, as older ones, is taken as it is.

    Raises ConfigError for that of another storage, system or view, and LogLost where the log has lost what was read.
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
    """A digest of what tells a record from another one at its place, also of the same number in another log."""
    told = (str(getattr(record, field, "")) for field in _TOLD_BY)
    return digest(" ".join([kind_of(record), *told]).encode())


def _refuse(of: str, system: str) -> NoReturn:
    raise ConfigError(
        f"the checkpoint is of {of}: give each stream a checkpointLocation of its own, or read on what this one is of",
        system=system,
    )
