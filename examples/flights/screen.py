"""What the demo shows while it runs."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from examples.flights.sky import Progress

LINE_EVERY_S = 5.0
"""Without a terminal, a line this often takes the place of the bar."""

console = Console(file=sys.stdout, highlight=False)
"""Holds on to the standard output of the beginning, whatever is done to `sys.stdout` later."""


def headline(text: str) -> None:
    """Begin a chapter."""
    console.print(f"\n[bold cyan]{text}[/]")


def say(text: str) -> None:
    """Show a line."""
    console.print(f"  {text}", soft_wrap=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Show that something goes on, and at its end how long it took."""
    began = time.monotonic()
    if not console.is_terminal:
        say(f"{text} ...")
    with _bar(SpinnerColumn(), TextColumn(text), TimeElapsedColumn()) as bar:
        bar.add_task("")
        yield
    say(f"{text}: [dim]{time.monotonic() - began:.1f} s[/]")


@contextmanager
def flying(total: int) -> Iterator[Callable[[Progress], None]]:
    """Show how many of `total` flights have landed; gives the function that updates the display."""
    bar = _bar(
        TextColumn("  landed"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TextColumn("{task.fields[air]:,} or so in the air"),
    )
    task = bar.add_task("", total=total, air=0)
    told_at = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal told_at
        air = max(0, progress.departures - progress.arrivals)
        bar.update(task, completed=progress.arrivals, air=air)
        if not console.is_terminal and time.monotonic() - told_at > LINE_EVERY_S:
            told_at = time.monotonic()
            say(f"{progress.arrivals:,} of {total:,} landed, {air:,} or so in the air")

    with bar:
        yield show


def _bar(*columns: ProgressColumn) -> Bar:
    """Something that moves, on a terminal; it leaves the standard output to others."""
    return Bar(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not console.is_terminal,
    )
