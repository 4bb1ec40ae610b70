"""`rayshot topology`: shows which actors send to which, and which channels lead back."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rayshot.cli.grid import Cell, Header, grid, heading, left_out, sections
from rayshot.documents import words
from rayshot.protocol.identity import Channel, is_driver
from rayshot.protocol.topology import back_edges
from rayshot.snapshots.snapshot import Snapshot


def graph(snapshot: Snapshot, *, rows_max: int | None) -> Group:
    """The channels of one snapshot; those that lead back are marked."""
    channels, back = _channels(snapshot)
    kind = "with cycles" if back else "without cycles"
    counted = f"{words.plural(len(channels), 'channel')}, {kind}"
    if not channels:
        empty: list[RenderableType] = [Text(" no message was ever sent from one actor to another", style="dim")]
        return sections([heading(snapshot.system, str(snapshot.id))], empty)
    columns = [
        Header("sender", style="bold"),
        Header("receiver", style="bold"),
        Header("sent", number=True),
        Header(""),
    ]
    shown = channels[:rows_max]
    rows: list[list[Cell]] = [
        [*channel, f"{snapshot.channels[channel].sent:,}", "leads back" if channel in back else ""] for channel in shown
    ]
    table = [grid(columns, rows), *left_out(len(channels) - len(shown), "channel")]
    return sections([heading(snapshot.system, str(snapshot.id), counted)], table)


def graph_document(snapshot: Snapshot) -> dict[str, Any]:
    """The same as a document for scripts."""
    channels, back = _channels(snapshot)
    return {
        "system": snapshot.system,
        "snapshot": str(snapshot.id),
        "actors": sorted(snapshot.actors),
        "channels": [
            {"sender": c.sender, "receiver": c.receiver, "sent": snapshot.channels[c].sent, "leads_back": c in back}
            for c in channels
        ],
    }


def _channels(snapshot: Snapshot) -> tuple[list[Channel], set[Channel]]:
    """The channels between actors, sorted, and those that lead back."""
    channels = sorted(Channel(*ends) for ends in snapshot.channels if not is_driver(ends[0]))
    out: dict[str, list[str]] = {name: [] for name in snapshot.actors}
    for channel in channels:
        out.setdefault(channel.sender, []).append(channel.receiver)
    return channels, back_edges(out)
