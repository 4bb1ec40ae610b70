"""`rayshot diff` as tables: what changed in actors, old and new, and how the channels moved on."""

from rich.console import Group, RenderableType
from rich.text import Text

from rayshot.cli.grid import Cell, Header, grid, heading, left_out, sections
from rayshot.cli.pictures import changes
from rayshot.documents.changes import sides
from rayshot.format.entries import ChannelEntry
from rayshot.snapshots.diff import SnapshotDiff

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
        Header("actor", style="bold"),
        Header("attribute"),
        Header("old", style="red"),
        Header("new", style="green"),
    ]
    shown = rows[:rows_max]
    return [grid(columns, shown), *left_out(len(rows) - len(shown), "change")]


def _channels(diff: SnapshotDiff, rows_max: int | None) -> list[RenderableType]:
    changed = diff.channels_changed
    if not changed:
        return []
    columns = [
        Header("sender", style="bold"),
        Header("receiver", style="bold"),
        *(Header(name, number=True) for name in ("sent", "received", "in flight")),
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
