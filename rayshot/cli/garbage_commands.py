"""`rayshot gc` and `rayshot delete`: they remove things from a storage, also beside a running system."""

from typing import Any

import click
from rich.console import Group as Lines
from rich.text import Text

from rayshot.cli.exits import FINE, UNSOUND
from rayshot.cli.grid import Header, console, grid, heading, sections
from rayshot.cli.json_option import dump, json_option
from rayshot.cli.progress import progress_bar
from rayshot.documents import words
from rayshot.places.kinds import open_store
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.upkeep.deletion import delete_snapshot
from rayshot.snapshots.upkeep.garbage import MIN_AGE_S, Collection, Tallies, Tally, collect

_FATES = ("kept", "young", "marked", "removed")


@click.command("gc")
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would be removed.")
@click.option(
    "--min-age",
    "min_age_s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=MIN_AGE_S,
    show_default=True,
    help="Younger objects stay, by the clock of the storage.",
)
@click.option(
    "--files",
    metavar="ADDRESS",
    help="What the program gives as init(files=...): there files of snapshots that failed go too.",
)
@json_option()
def gc(storage: str, system: str | None, min_age_s: float, files: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Remove objects that crashes left behind and no snapshot needs.

    The first pass marks an object, the next one removes it if it is still not needed and older than the minimum age.
    Run it now and then, also while the system runs.
    """
    store = open_store(storage)
    name = Storage(store).system(system).name
    with progress_bar() as tell:
        found = collect(store, name, min_age_s=min_age_s, dry_run=dry_run, files=files, progress=tell)
    click.echo(dump(_document(name, found))) if as_json else console().print(_table(name, found))
    raise click.exceptions.Exit(UNSOUND if found.unreadable else FINE)


@click.command("delete")
@click.argument("storage")
@click.argument("snapshot", metavar="ID")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(storage: str, snapshot: str, system: str | None, *, yes: bool) -> None:
    """Delete one snapshot or savepoint for ever.

    A running system goes on. Bytes that others share with it stay, and so do bytes that a program reads now, until
    retention or rayshot gc removes them.
    """
    store = open_store(storage)
    view = Storage(store).system(system)
    found = view.snapshot(snapshot)
    if not yes:
        label = f" ({words.printable(found.label)})" if found.label else ""
        left = len(view.snapshots()) - 1
        what = (
            f"Delete {found.id}{label} of {view.name}, taken at {words.local_time(found.taken_at)}? {left} will be left"
        )
        click.confirm(what, abort=True, err=True)
    sweep = delete_snapshot(store, view.name, found.id)
    later = "" if found.id in sweep.removed else "; its bytes are in use and go later"
    if sweep.unreadable:
        names = ", ".join(map(str, sweep.unreadable))
        later = f"; its bytes stay until these, whose manifests cannot be read, are deleted too: {names}"
    click.echo(f"deleted {found.id} of {view.name}{later}")


def _document(system: str, found: Collection) -> dict[str, Any]:
    groups = {
        kind: {fate: _tally(getattr(group, fate)) for fate in _FATES} for kind, group in sorted(found.groups.items())
    }
    return {
        "system": system,
        "dry_run": found.dry_run,
        "objects": groups,
        "total": {fate: _tally(tally) for fate, tally in _totals(found).items()},
        "expired": [str(snapshot) for snapshot in found.expired],
        "unreadable": [str(snapshot) for snapshot in found.unreadable],
    }


def _tally(tally: Tally) -> dict[str, int]:
    return {"count": tally.objects, "bytes": tally.bytes}


def _totals(found: Collection) -> dict[str, Tally]:
    return {
        fate: Tally(
            sum(getattr(group, fate).objects for group in found.groups.values()),
            sum(getattr(group, fate).bytes for group in found.groups.values()),
        )
        for fate in _FATES
    }


def _table(system: str, found: Collection) -> Lines:
    removed = "would go" if found.dry_run else "removed"
    columns = [Header("objects", rigid=True, style="bold")]
    columns += [Header(name, number=True) for name in ("kept", "too young", "marked", removed)]
    total = _totals(found)
    groups = [*sorted(found.groups.items()), ("all", Tallies(**total))]
    rows = [[kind, *(_cell(getattr(group, fate)) for fate in _FATES)] for kind, group in groups]
    notes = []
    if total["marked"].objects:
        notes.append(Text(" what is marked goes at the next pass", style="dim"))
    if found.expired:
        notes.append(Text(f" given up: {', '.join(map(str, found.expired))}"))
    if found.unreadable:
        names = ", ".join(map(str, found.unreadable))
        notes.append(
            Text(f" no chunk and no manifest goes while these cannot be read, delete them: {names}", style="red")
        )
    return sections([heading(system, "dry run" if found.dry_run else "")], [grid(columns, rows)], notes)


def _cell(tally: Tally) -> str:
    return f"{tally.objects:,} ({words.size(tally.bytes)})" if tally.objects else "-"
