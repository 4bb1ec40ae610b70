"""The common look of all tables: numbers right aligned, long texts cut by an ellipsis, long tables cut with a note.

If a table is wider than the terminal, its elastic columns get narrower, the widest first; rigid ones never do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rayshot.documents import words

ROWS_MAX = 40
"""The number of rows in a table, unless the user asks for all."""

Cell = str | Text


@dataclass(frozen=True, slots=True)
class Header:
    """The head of a column. A `number` column is right aligned and rigid; one that is only `rigid` is never cut."""

    name: str
    number: bool = False
    rigid: bool = False
    style: str = ""


def grid(columns: Sequence[Header], rows: Sequence[Sequence[Cell]]) -> RenderableType:
    """A table. Text cells are shown literally: no markup, and unprintable characters are written as escapes."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.number else "left",
            no_wrap=column.number or column.rigid,
            style=column.style,
        )
    for row in rows:
        table.add_row(*map(_line, row))
    return Padding(table, (0, 0, 0, 1), expand=False)


def facts(rows: Sequence[tuple[Cell, ...]]) -> RenderableType:
    """Lines with a few words each and a sentence that may wrap. Text cells as in `grid`."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*map(_text, row))
    for column in table.columns[:-1]:
        column.no_wrap = True
    return Padding(table, (0, 0, 0, 1), expand=False)


def heading(system: str, *more: str) -> Text:
    """The first line of every answer."""
    return Text.assemble((system, "bold cyan"), *(f"  {words.printable(text)}" for text in more))


def left_out(count: int, noun: str) -> list[RenderableType]:
    """The note under a table that was cut; nothing if it was not cut."""
    return [Text(f" and {words.plural(count, noun)} more; --all shows them", style="dim")] if count > 0 else []


def sections(*parts: Sequence[RenderableType]) -> Group:
    """Join parts with an empty line between those that are not empty."""
    joined: list[RenderableType] = []
    for part in filter(None, parts):
        joined += [Text(), *part] if joined else part
    return Group(*joined)


def tick(*, ok: bool) -> Text:
    """The mark of a check."""
    return Text("✓", style="bold green") if ok else Text("✗", style="bold red")


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error again: the caller knows the exit code. `rich` would end with one that means damage."""
        raise  # noqa: PLE0704 - `rich` calls this while it handles the BrokenPipeError


def console() -> Console:
    """The terminal. Text from a snapshot is never taken for markup or emoji."""
    return _Terminal(highlight=False, emoji=False, markup=False)


def picture_width(terminal: Console) -> int | None:
    """The width for pictures, in columns. None if the output is a pipe or a file: then only tables are shown."""
    return terminal.width if terminal.is_terminal else None


def _line(cell: Cell) -> Text:
    """A cell of one line; if it is too long, it ends in an ellipsis."""
    line = _text(cell)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _text(cell: Cell) -> Text:
    return Text(words.printable(cell)) if isinstance(cell, str) else cell
