"""Commands that read a storage: they find what the user asks for, render it, and choose the exit code."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from rayshot.cli.details import details
from rayshot.cli.difference import difference
from rayshot.cli.exits import DIFF_DAMAGED, DIFFERENT, FINE, UNSOUND, exit_code, fail
from rayshot.cli.graph import graph, graph_document
from rayshot.cli.grid import ROWS_MAX, console, picture_width, sections
from rayshot.cli.json_option import dump, json_option
from rayshot.cli.listing import listing
from rayshot.cli.secrets_option import secrets_option
from rayshot.documents.changes import diff_document
from rayshot.documents.snapshots import listing as listing_document
from rayshot.documents.snapshots import snapshot_document
from rayshot.errors import EncryptionKeyNeeded, RayshotError, SnapshotNotFound
from rayshot.snapshots.catalog import Storage, SystemView
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.snapshot import Snapshot

COMPARED = 2
"""The number of snapshots in a diff."""


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that all these commands have."""
    for decorate in (
        click.option("--all", "everything", is_flag=True, help="Show all rows of long tables."),
        json_option(),
        click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several."),
        click.argument("storage", envvar="RAYSHOT_STORAGE"),
    ):
        command = decorate(command)
    return command


_one_snapshot = click.option("--snapshot", metavar="ID", help="The snapshot; the latest if left out.")


@click.command("list")
@_common
@_one_snapshot
def list_(storage: str, system: str | None, snapshot: str | None, *, as_json: bool, everything: bool) -> None:
    """List the committed snapshots, the newest last."""
    views = _views(open_storage(storage), system)
    found = {name: view.snapshots() if snapshot is None else [view.snapshot(snapshot)] for name, view in views.items()}
    if as_json:
        document = listing_document(storage, found)
        click.echo(dump(document))
    else:
        terminal, rows_max = console(), _rows_max(everything=everything)
        parts = [[listing(name, rows, width=terminal.width, rows_max=rows_max)] for name, rows in found.items()]
        terminal.print(sections(*parts))
    codes = {_unreadable(one) for rows in found.values() for one in rows} - {FINE}
    _leave(codes.pop() if len(codes) == 1 else UNSOUND if codes else FINE)


@click.command()
@_common
@_one_snapshot
@secrets_option
def show(storage: str, system: str | None, snapshot: str | None, *, as_json: bool, everything: bool) -> None:
    """Show the actors and channels of one snapshot.

    Each actor comes with its state, each channel with the messages that were in flight.
    """
    found = open_storage(storage).system(system).snapshot(snapshot)
    if as_json:
        click.echo(dump(snapshot_document(found)))
    else:
        terminal = console()
        width = picture_width(terminal)
        terminal.print(details(found, rows_max=_rows_max(everything=everything), picture_width=width))


@click.command()
@_common
@_one_snapshot
def topology(storage: str, system: str | None, snapshot: str | None, *, as_json: bool, everything: bool) -> None:
    """Show which actor sends to which, as one snapshot knows it.

    It marks channels that lead back: an aligned snapshot does not wait for these, and records their messages in flight.
    """
    found = open_storage(storage).system(system).snapshot(snapshot)
    if as_json:
        click.echo(dump(graph_document(found)))
    else:
        console().print(graph(found, rows_max=_rows_max(everything=everything)))


@click.command()
@_common
@click.option(
    "--snapshot",
    "snapshots",
    metavar="ID",
    multiple=True,
    help="Twice: old and new. Once: this one and the one before it.",
)
@secrets_option
def diff(storage: str, system: str | None, snapshots: Sequence[str], *, as_json: bool, everything: bool) -> None:
    """Show what changed between two snapshots, and the relation of their cuts.

    Without --snapshot it compares the last two. It refuses two that overlapped, and two of different lives.
    """
    try:
        old, new = _pair(open_storage(storage).system(system), snapshots)
        found = old.diff(new)
    except RayshotError as error:
        code = exit_code(error)
        fail(error, DIFF_DAMAGED if code == UNSOUND else code)  # exit code 1 says that the snapshots differ
    if as_json:
        click.echo(dump(diff_document(old.system, found)))
    else:
        terminal, rows_max = console(), _rows_max(everything=everything)
        terminal.print(difference(old.system, found, rows_max=rows_max, picture_width=picture_width(terminal)))
    _leave(FINE if found.same else DIFFERENT)


def _unreadable(snapshot: Snapshot) -> int:
    """The exit code for reading its manifest; FINE if reading only needs another key."""
    try:
        snapshot.manifest  # noqa: B018 - it is read now
    except EncryptionKeyNeeded:
        return FINE
    except RayshotError as error:
        return exit_code(error)
    return FINE


def _views(storage: Storage, system: str | None) -> Mapping[str, SystemView]:
    """The system that the user names, or all; raises SystemNotFound if there is none."""
    if system is None and len(storage.systems) > 1:
        return storage.systems
    view = storage.system(system)
    return {view.name: view}


def _pair(view: SystemView, ids: Sequence[str]) -> tuple[Snapshot, Snapshot]:
    """The two snapshots to compare, old and new."""
    if len(ids) > COMPARED:
        raise click.UsageError("--snapshot can be given twice at most: old and new")
    if len(ids) == COMPARED:
        return view.snapshot(ids[0]), view.snapshot(ids[1])
    new = view.snapshot(ids[0] if ids else None)
    known = view.snapshots()
    before = known[: known.index(new)]
    if not before:
        raise SnapshotNotFound(f"no snapshot of {view.name!r} is older than {new.id}, so there is nothing to compare")
    return before[-1], new


def _rows_max(*, everything: bool) -> int | None:
    return None if everything else ROWS_MAX


def _leave(code: int) -> None:
    """End with `code`."""
    raise click.exceptions.Exit(code)
