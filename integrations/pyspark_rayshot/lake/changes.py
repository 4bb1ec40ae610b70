"""Which attributes of an actor changed, one observation after the other.

Theory of operation. A snapshot is one observation of each actor. The actor's own clock orders the observations of one
life: snapshots may overlap, and then a later one in the log shows some actors in an earlier state. A row of
`state_changes` says: from this clock on the attribute has this value, until the next row. So an observation is compared
with the rows at its clock, and each difference becomes a row.

A late observation is between others. Its rows would be valid for the next observation too, which has no row of its own
if nothing had changed since the one before. So for each difference, the next observation gets the row that it did
not need until now: `seen_in` names its snapshot. Existing rows never change.

Each life is complete in itself: all attributes of an actor are rows of its first observation. In a restored life
they are compared with the snapshot with which it began, and equal ones are called `restored`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark_rayshot.lake.lake_tables import Change
from rayshot.analysis.state_views import AttributeRow

Digests = dict[str, str | None]
"""Digests by attribute; None if the attribute's value is not shown."""


class KnownRow(NamedTuple):
    """The fields of a row of `state_changes` that are needed here."""

    actor: str
    attribute: str
    clock: int
    log_index: int
    change: str
    digest: str | None

    @property
    def order(self) -> tuple[bool, int, int]:
        """An actor's end is after everything else that is known about it."""
        return self.change == "ended", self.clock, self.log_index


@dataclass(slots=True)
class Head:
    """An actor at its highest clock; if it has ended, the attributes are the last ones that it had."""

    clock: int
    state_digest: str | None
    attributes: Digests = field(default_factory=dict)
    ended: bool = False

    def note(self, change: Change) -> None:
        """Show a change from now on."""
        if change.new is None:
            self.attributes.pop(change.attribute, None)
        else:
            assert isinstance(change.new, AttributeRow), "what is seen now, not what was stored"
            self.attributes[change.attribute] = change.new.digest


class Observation(NamedTuple):
    """An actor in a snapshot: read `rows` only if `state_digest` is not that of its head."""

    actor: str
    clock: int
    state_digest: str | None
    snapshot: str
    rows: Callable[[], Iterable[AttributeRow]]


def digests_as_of(rows: Iterable[KnownRow], clock: int | None = None) -> Digests:
    """What the rows of one actor in one life say at that clock; at its head if the clock is None."""
    found: Digests = {}
    for row in sorted(rows, key=lambda row: row.order):
        if row.change == "ended" or (clock is not None and row.clock > clock):
            continue
        if row.change == "removed":
            found.pop(row.attribute, None)
        else:
            found[row.attribute] = row.digest
    return found


def first_changes(seen: Observation, restored: Digests | None) -> Iterator[Change]:
    """Rows for an actor's first observation in a life; `restored` is what it had in the snapshot that began it."""
    old = restored or {}
    for row in seen.rows():
        same = row.attribute in old and old[row.attribute] == row.digest
        word = "restored" if same else "changed" if row.attribute in old else "added"
        yield Change(seen.actor, row.attribute, seen.clock, word, seen.snapshot, row)


def changes(seen: Observation, old: Digests) -> Iterator[Change]:
    """Rows for the differences from `old`."""
    left = dict(old)
    for row in seen.rows():
        known = row.attribute in left
        if not known or left.pop(row.attribute) != row.digest:
            yield Change(seen.actor, row.attribute, seen.clock, "changed" if known else "added", seen.snapshot, row)
    for attribute in left:
        yield Change(seen.actor, attribute, seen.clock, "removed", seen.snapshot, None)


def in_turn(head: Head | None, seen: Observation, restored: Digests | None) -> tuple[Head, Iterator[Change]]:
    """The head and the rows for an observation that is not before it; `head` is None for an actor's first in a life.

    The head is at its new place when the caller has taken all rows.
    """
    if head is not None:
        return head, advance(head, seen)
    head = Head(seen.clock, seen.state_digest)
    return head, _begin(head, seen, restored)


def _begin(head: Head, seen: Observation, restored: Digests | None) -> Iterator[Change]:
    for change in first_changes(seen, restored):
        head.note(change)
        yield change


def advance(head: Head, seen: Observation) -> Iterator[Change]:
    """Rows for an observation that is not before the head, which moves there."""
    if head.state_digest != seen.state_digest:
        old = dict(head.attributes)
        for change in changes(seen, old):
            yield change
            if head.ended and change.attribute not in old:
                yield change._replace(change="ended", new=None)  # it became known after its actor's end
            head.note(change)
    head.clock, head.state_digest = seen.clock, seen.state_digest


def ended(actor: str, head: Head, snapshot: str) -> list[Change]:
    """Rows for an actor that has ended."""
    head.ended = True
    return [Change(actor, attribute, head.clock, "ended", snapshot, None) for attribute in head.attributes]


class Next(NamedTuple):
    """The observation after a late one."""

    clock: int
    snapshot: str


def late_changes(
    seen: Observation,
    known: list[KnownRow],
    following: Next,
    stored: Callable[[str], Mapping[str, Any]],
) -> Iterator[Change]:
    """Rows for an observation that is before `following`.

    Args:
        seen: the observation.
        known: all rows of the actor in this life.
        following: the first observation after it.
        stored: the cells of the value that an attribute had at the clock of `seen`, as the table has them.
    """
    before = digests_as_of(known, seen.clock)
    told = {row.attribute for row in known if seen.clock < row.clock <= following.clock and row.change != "ended"}
    for change in changes(seen, before):
        yield change
        if change.attribute in told:
            continue
        back = change.attribute in before
        word = "removed" if not back else "added" if change.new is None else "changed"
        cells = stored(change.attribute) if back else None
        yield Change(seen.actor, change.attribute, following.clock, word, following.snapshot, cells)
