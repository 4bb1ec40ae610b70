"""Which snapshots a table reads: what its options say, and what this means for a log."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from rayshot.errors import ConfigError, SnapshotNotFound
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot

LATEST = "latest"
RANGE = ".."
IDS_SHOWN_MAX = 10
_INDEX_DIGITS_MAX = 18

SELECTION_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "snapshot": f"the id of one snapshot, or `{LATEST}`; all of them if left out",
        "asOf": "one snapshot: the last one taken up to a time (`2026-11-24T09:00:00Z`; without a zone it is UTC), or "
        "the last one up to a `log_index`",
        "snapshots": "all from the first to the last, `FIRST..LAST`: ids, or a `log_index`; an end left out is open",
    }
)
"""Options of which at most one may be given -> their meaning."""

Bound = SnapshotId | int | None
"""An end of a range: a snapshot, a log index, or None for an open end."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The snapshots that are asked for: at most one field is set; all None for every snapshot that exists."""

    snapshot: SnapshotId | str | None = None
    as_of: datetime | int | None = None
    snapshots: tuple[Bound, Bound] | None = None

    @property
    def is_one(self) -> bool:
        """Whether the selection is one snapshot and not several."""
        return self.snapshot is not None or self.as_of is not None

    def of(self, system: SystemView) -> list[Snapshot]:
        """The snapshots, in the order of `SystemView.snapshots`.

        Raises SnapshotNotFound, with a list of what exists, for a snapshot or a range that does not exist.
        """
        if self.snapshot is not None:
            return [system.snapshot(None if self.snapshot == LATEST else self.snapshot)]
        known = system.snapshots()
        if self.as_of is not None:
            return [_last_up_to(self.as_of, known, system)]
        if self.snapshots is not None:
            return _between(*self.snapshots, known, system)
        return known


def parse_selection(given: Mapping[str, str]) -> Selection:
    """Check the given ones of SELECTION_OPTIONS, by their lower-case names. Raises ConfigError."""
    values = {name: given[name.lower()] for name in SELECTION_OPTIONS if name.lower() in given}
    if len(values) > 1:
        raise ConfigError(
            f"the options {' and '.join(map(repr, values))} contradict each other: give one of them",
            options=list(values),
        )
    for name, text in values.items():
        try:
            match name:
                case "snapshot":
                    return Selection(snapshot=LATEST if text == LATEST else SnapshotId.parse(text))
                case "asOf":
                    return Selection(as_of=_moment(text))
                case _:
                    return Selection(snapshots=_range(text))
        except (ConfigError, ValueError) as error:
            raise ConfigError(
                f"the option {name!r} must be {_EXPECTED[name]}; it is {text!r}",
                option=name,
                expected=_EXPECTED[name],
                value=text,
            ) from error
    return Selection()


_EXPECTED = {
    "snapshot": f"the id of a snapshot, like 1-coordinator-3, or {LATEST!r}",
    "asOf": "a time, like 2026-11-24T09:00:00Z, or a log index",
    "snapshots": "a range FIRST..LAST of ids or log indexes, like 1-coordinator-3..1-coordinator-7, 10..20 or 10..",
}


def _moment(text: str) -> datetime | int:
    if _is_index(text):
        return int(text)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _range(text: str) -> tuple[Bound, Bound]:
    """Read a range. An id may hold the dots of a range in its initiator, so each place is tried."""
    at = text.find(RANGE)
    while at >= 0:
        first, last = text[:at], text[at + len(RANGE) :]
        try:
            bounds = _bound(first), _bound(last)
        except ConfigError:
            at = text.find(RANGE, at + 1)
            continue
        if bounds != (None, None):
            return bounds
        break
    raise ValueError(text)


def _bound(text: str) -> Bound:
    if not text:
        return None
    return int(text) if _is_index(text) else SnapshotId.parse(text)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _INDEX_DIGITS_MAX


def _last_up_to(moment: datetime | int, known: list[Snapshot], system: SystemView) -> Snapshot:
    if isinstance(moment, int):
        end = system.now().end or 0
        if moment >= end:  # perhaps a year, which would silently give the newest one
            raise _nothing(
                f"as of log index {moment}, as its log ends at {end - 1} (a day is 2026-01-31)", known, system
            )
        found = [snapshot for snapshot in known if snapshot.record.position <= moment]
        best = max(found, key=lambda one: one.record.position, default=None)
        what = f"log_index {moment}"
    else:
        found = [snapshot for snapshot in known if snapshot.taken_at <= moment]
        best = max(found, key=lambda one: (one.taken_at, one.record.position), default=None)
        what = moment.isoformat()
    if best is None:
        raise _nothing(f"up to {what}", known, system)
    return best


def _between(first: Bound, last: Bound, known: list[Snapshot], system: SystemView) -> list[Snapshot]:
    low, high = (_index(bound, system) for bound in (first, last))
    inside = [
        one
        for one in known
        if (low is None or low <= one.record.position) and (high is None or one.record.position <= high)
    ]
    if not inside:
        turned = (
            ", whose first end comes after its last one" if low is not None and high is not None and low > high else ""
        )
        raise _nothing(f"in {_shown(first)}{RANGE}{_shown(last)}{turned}", known, system)
    return inside


def _shown(bound: Bound) -> str:
    return "" if bound is None else str(bound)


def _index(bound: Bound, system: SystemView) -> int | None:
    return system.snapshot(bound).record.position if isinstance(bound, SnapshotId) else bound


def _nothing(where: str, known: list[Snapshot], system: SystemView) -> SnapshotNotFound:
    shown = ", ".join(f"{one.id} (log_index {one.record.position})" for one in known[-IDS_SHOWN_MAX:])
    return SnapshotNotFound(
        f"the system {system.name!r} has no snapshot {where}; there is {shown or 'none'}",
        exists=[str(one.id) for one in known],
    )
