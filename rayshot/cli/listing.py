"""`rayshot list` as a table."""

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from rayshot.cli.grid import Cell, Header, grid, heading, left_out, sections
from rayshot.documents import words
from rayshot.errors import RayshotError
from rayshot.snapshots.snapshot import Snapshot

WIDE_COLUMNS_MIN = 100
"""From this width on a table has room for the year and for the mode of every snapshot."""


def listing(system: str, snapshots: Sequence[Snapshot], *, width: int, rows_max: int | None) -> Group:
    """The snapshots of one system, the newest last."""
    shown = snapshots if rows_max is None else snapshots[-rows_max:]
    wide = width >= WIDE_COLUMNS_MIN
    modes = sorted({mode for mode in map(_mode, shown) if mode is not None})
    with_mode = wide or len(modes) > 1
    labels = any(snapshot.label for snapshot in shown)
    columns = [
        Header("position" if wide else "pos", number=True),
        Header("snapshot", rigid=True, style="bold"),
        *([Header("label")] if labels else []),
        Header("taken at", rigid=True),
        *([Header("mode")] if with_mode else []),
        *(Header(name, number=True) for name in ("actors", "in flight", "size")),
    ]
    rows = [_row(snapshot, wide=wide, labels=labels, with_mode=with_mode) for snapshot in shown]
    title = heading(system, words.plural(len(snapshots), "snapshot"), *([] if with_mode else modes))
    return sections([title], [grid(columns, rows), *left_out(len(snapshots) - len(shown), "older snapshot")])


def _row(snapshot: Snapshot, *, wide: bool, labels: bool, with_mode: bool) -> list[Cell]:
    return [
        f"{snapshot.position:,}",
        str(snapshot.id),
        *([snapshot.label or ""] if labels else []),
        words.local_time(snapshot.taken_at, with_year=wide),
        *_manifest_cells(snapshot, with_mode=with_mode),
    ]


def _manifest_cells(snapshot: Snapshot, *, with_mode: bool) -> list[Cell]:
    """The cells that need the manifest; the kind of damage if it cannot be read."""
    try:
        manifest = snapshot.manifest
    except RayshotError as error:
        damage = Text(error.kind.replace("_", " "), style="red")
        return [damage, "", "", ""] if with_mode else [damage, "", ""]
    mode: list[Cell] = [manifest.mode] if with_mode else []
    return [*mode, f"{len(manifest.actors):,}", f"{snapshot.in_flight:,}", words.size(snapshot.size_bytes)]


def _mode(snapshot: Snapshot) -> str | None:
    """The mode of a snapshot; None if its manifest cannot be read, which its row shows."""
    try:
        return snapshot.mode
    except RayshotError:
        return None
