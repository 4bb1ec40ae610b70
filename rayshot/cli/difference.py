"""`rayshot diff` as tables: what changed in actors, old and new, and how the channels moved on."""

from itertools import takewhile
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rayshot.cli import words
from rayshot.cli.grid import Cell, Column, grid, heading, left_out, sections
from rayshot.cli.pictures import changes
from rayshot.format.inert import alike
from rayshot.format.manifest import ChannelEntry
from rayshot.snapshots.diff import ABSENT, SnapshotDiff, ValueChange

_RELATIONS = {
    "before": "the old one is before the new one",
    "after": "the old one is after the new one",
    "equal": "one and the same cut",
}


def difference(system: str, diff: SnapshotDiff, *, rows_max: int | None, picture_width: int | None = None) -> Group:
    """The changes from one snapshot to another; with pictures if `picture_width`, the terminal's width, is given."""
    title = heading(system, f"{diff.old} -> {diff.new}", _RELATIONS[diff.relation.name])
    if diff.same:
        return sections([title], [Text(" no difference", style="dim")])
    pictures = [] if picture_width is None else changes(diff.channels_changed, picture_width)
    return sections([title], _actors(diff, rows_max), _channels(diff, rows_max), pictures)


def _actors(diff: SnapshotDiff, rows_max: int | None) -> list[RenderableType]:
    rows: list[tuple[str, Cell, str, str]] = [
        *((name, Text("(added)", style="green"), "", "") for name in diff.actors_added),
        *((name, Text("(removed)", style="red"), "", "") for name in diff.actors_removed),
        *((actor.name, change.name, *sides(change)) for actor in diff.actors_changed for change in actor.values),
    ]
    if not rows:
        return []
    columns = [
        Column("actor", style="bold"),
        Column("attribute"),
        Column("old", style="red"),
        Column("new", style="green"),
    ]
    shown = rows[:rows_max]
    return [grid(columns, shown), *left_out(len(rows) - len(shown), "change")]


def sides(change: ValueChange) -> tuple[str, str]:
    """Old and new; for two dicts the items that differ, for two lists the items after their common start."""
    old, new = change.shown
    if type(old) is dict and type(new) is dict:
        same = {key for key in old.keys() & new if alike(old[key], new[key])}
        return _rest(_without(old, same), len(same)), _rest(_without(new, same), len(same))
    if type(old) is list and type(new) is list:
        start = sum(1 for _ in takewhile(lambda pair: alike(*pair), zip(old, new, strict=False)))
        return _rest(old[start:], start), _rest(new[start:], start)
    return _side(old), _side(new)


def _side(value: Any) -> str:
    return "(absent)" if value is ABSENT else words.value(value)


def _without(mapping: dict[Any, Any], keys: set[Any]) -> dict[Any, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _rest(rest: Any, same: int) -> str:
    return f"({same:,} same) {words.value(rest)}" if same else words.value(rest)


def _channels(diff: SnapshotDiff, rows_max: int | None) -> list[RenderableType]:
    changed = diff.channels_changed
    if not changed:
        return []
    columns = [
        Column("sender", style="bold"),
        Column("receiver", style="bold"),
        *(Column(name, number=True) for name in ("sent", "received", "in flight")),
    ]
    shown = changed[:rows_max]
    rows = [(*change.channel, *map(_move, _counters(change.old), _counters(change.new))) for change in shown]
    return [grid(columns, rows), *left_out(len(changed) - len(shown), "channel")]


def _move(old: str, new: str) -> str:
    return old if old == new else f"{old} -> {new}"


def _counters(entry: ChannelEntry | None) -> tuple[str, str, str]:
    if entry is None:
        return "-", "-", "-"
    return f"{entry.sent:,}", f"{entry.received:,}", f"{entry.sent - entry.received:,}"
