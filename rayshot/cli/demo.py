"""`rayshot demo`: makes snapshots worth looking at, for users who have none yet."""

import shlex
import time

import click
from rich.console import Group
from rich.text import Text

from rayshot.cli.connection import keep_terminal
from rayshot.cli.exits import INTERRUPTED
from rayshot.cli.grid import Header, console, grid, heading, sections
from rayshot.demo import SYSTEM
from rayshot.documents import words
from rayshot.errors import ConfigError
from rayshot.places.kinds import open_store
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.catalog import open as open_storage

NEXT = (
    ("ui {}", "the page about them, in the browser"),
    ("report {} -o cut.html", "the same page as one file"),
    ("show {}", "the last one, here"),
    ("verify {} --replay", "the proof that it is a consistent cut"),
)


@click.command()
@click.argument("folder", default="./shots")
def demo(folder: str) -> None:
    """Make snapshots worth looking at in FOLDER; in ./shots if it is left out.

    On a Ray cluster of its own accounts of a bank pay each other for some seconds. Then the demo kills one of them, and
    restores the bank from the latest snapshot. If FOLDER has an earlier day of this bank, it goes on from there.
    """
    _check(folder)
    began = time.monotonic()

    def tell(what: str) -> None:
        click.echo(f"{time.monotonic() - began:5.1f} s  {words.printable(what)}", err=True)

    keep_terminal()
    try:
        from rayshot.demo.day import live_through  # noqa: PLC0415 - it imports Ray

        live_through(folder, tell)
    except KeyboardInterrupt:
        click.echo(f"interrupted; what was committed stays in {words.printable(folder)}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    console().print(_money(open_storage(folder).system(SYSTEM)))
    console().print(_commands(folder), soft_wrap=True)


def _check(folder: str) -> None:
    """Raise ConfigError if there can be no storage, or if the storage holds other systems."""
    open_store(folder).check()
    others = sorted(open_storage(folder).systems.keys() - {SYSTEM})
    if others:
        raise ConfigError(f"{folder} holds snapshots of {', '.join(others)}: give the demo a folder of its own")


def _money(view: SystemView) -> Group:
    """Where the money was at each cut, and the sum that an inspector got by asking one account after the other."""
    from rayshot.demo.day import money, sums  # noqa: PLC0415

    snapshots = view.snapshots()
    columns = [
        Header("snapshot", rigid=True, style="bold"),
        Header("label"),
        *(Header(name, number=True) for name in ("messages in flight", "held", "on its way", "together")),
    ]
    rows = []
    for one in snapshots:
        held, moving = money(one)
        rows.append([str(one.id), one.label or "", *(f"{n:,}" for n in (one.in_flight, held, moving, held + moving))])
    counted = ", ".join(f"{total:,}" for total in sums(snapshots[-1]))
    note = f" An inspector who asked one account after the other counted {counted}." if counted else ""
    return sections([heading(view.name, words.plural(len(rows), "snapshot"))], [grid(columns, rows)], [Text(note)])


def _commands(folder: str) -> Group:
    """The commands to try next."""
    place = shlex.quote(folder)
    lines = [(f"rayshot {words.printable(command.format(place))}", what) for command, what in NEXT]
    width = max(len(command) for command, _ in lines)
    return Group(Text(), *(Text.assemble(" ", (command.ljust(width), "bold"), f"  {what}") for command, what in lines))
