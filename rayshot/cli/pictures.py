"""Small pictures for a terminal: what was between two counters of a channel, and how it changed. None for a pipe.

If they fit, one cell of a bar is one message.
"""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from rayshot.cli.grid import Cell, Header, grid, left_out
from rayshot.protocol.identity import Channel
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.diff import ChannelChange

BARS_MAX = 12
WIDE_COLUMNS_MIN = 100
NARROW_BAR, WIDE_BAR = 24, 40
FULL, HALF, LIGHT = "█", "▓", "░"

Part = tuple[int, str, str]
"""A count, its sign, and the sign's style. The signs tell the parts apart if there are no colours."""


def flows(channels: Sequence[ChannelState], width: int) -> list[RenderableType]:
    """Each channel with messages in flight as `received | mailbox | outbox | sent`, the fullest first."""
    busy = sorted((one for one in channels if one.count), key=lambda one: (-one.count, one.channel))
    if not busy:
        return []
    shown = busy[:BARS_MAX]
    scale = _Scale(max(one.count for one in shown), width)
    columns = [
        *_ends(),
        Header("received", number=True),
        Header(f"{FULL} in the mailbox  {LIGHT} in the outbox", rigid=True),
        Header("sent", number=True),
    ]
    rows: list[list[Cell]] = []
    for one in shown:
        entry = one.entry
        parts = [(entry.arrived - entry.received, FULL, "cyan"), (entry.sent - entry.arrived, LIGHT, "yellow")]
        rows.append([*one.channel, f"{entry.received:,}", scale.bar(parts), f"{entry.sent:,}"])
    return [grid(columns, rows), *left_out(len(busy) - len(shown), "channel"), *scale.note()]


def changes(changed: Sequence[ChannelChange], width: int) -> list[RenderableType]:
    """Each channel that changed: what was handled between the cuts, and how many more or fewer are in flight."""
    moved = sorted(((one.channel, *_moves(one)) for one in changed), key=lambda one: (-one[1], one[0]))
    shown = [one for one in moved if any(one[1:])][:BARS_MAX]
    if not shown:
        return []
    handling = _Scale(max(handled for _, handled, _, _ in shown), width, side_by_side=2)
    waiting = _Scale(max(max(old, new) for _, _, old, new in shown), width, side_by_side=2)
    columns = [
        *_ends(),
        Header("handled", number=True),
        Header("in between", rigid=True),
        Header("in flight", number=True),
        Header(f"{HALF} more  {LIGHT} less", rigid=True),
    ]
    rows: list[list[Cell]] = [
        [*channel, f"{handled:,}", handling.bar([(handled, FULL, "cyan")]), f"{new:,}", waiting.bar(_parts(old, new))]
        for channel, handled, old, new in shown
    ]
    return [grid(columns, rows)]


def _moves(change: ChannelChange) -> tuple[int, int, int]:
    """The number of messages handled in between, then those in flight at the old cut and at the new one."""
    old, new = change.old, change.new
    before, after = (0 if entry is None else entry.received for entry in (old, new))
    waiting = [0 if entry is None else entry.sent - entry.received for entry in (old, new)]
    return max(0, after - before), waiting[0], waiting[1]


def _parts(old: int, new: int) -> list[Part]:
    return [(min(old, new), FULL, "cyan"), (max(0, new - old), HALF, "green"), (max(0, old - new), LIGHT, "red")]


def _ends() -> list[Header]:
    return [Header(name, style="bold") for name in Channel._fields]


class _Scale:
    """The number of messages for each cell, in a table on a terminal that is `width` columns wide."""

    def __init__(self, largest: int, width: int, *, side_by_side: int = 1) -> None:
        room = WIDE_BAR if width >= WIDE_COLUMNS_MIN else NARROW_BAR
        self._each = max(1.0, largest / (room // side_by_side))

    def bar(self, parts: Sequence[Part]) -> Text:
        """Parts side by side; a part that is not empty gets at least one cell."""
        return Text.assemble(
            *((sign * max(1, round(count / self._each)), style) for count, sign, style in parts if count)
        )

    def note(self) -> list[RenderableType]:
        """The note that says what a cell is."""
        text = "a cell is one message" if self._each == 1 else f"a cell is about {self._each:,.0f} messages"
        return [Text(f" {text}", style="dim")]
