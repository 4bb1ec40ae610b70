"""`rayshot outside`: what the retained snapshots need that is not in their chunks."""

from collections.abc import Iterator
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from rayshot.cli.exits import FINE, UNSOUND
from rayshot.cli.grid import ROWS_MAX, Cell, Header, console, grid, heading, left_out, sections
from rayshot.cli.json_option import dump, json_option
from rayshot.cli.secrets_option import secrets_option
from rayshot.documents import words
from rayshot.documents.snapshots import outside_document
from rayshot.snapshots.catalog import open as open_storage


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--snapshot", metavar="ID", help="One snapshot; all that are retained if left out.")
@click.option("--all", "everything", is_flag=True, help="Show all rows.")
@json_option()
@secrets_option
def outside(storage: str, system: str | None, snapshot: str | None, *, everything: bool, as_json: bool) -> None:
    """List what snapshots need outside: payloads of actors, their folders, files and bytes.

    A payload may name what rayshot never deletes: a commit of a repository, a version of a table, a checkpoint of an
    engine. What no snapshot in this list names can be deleted by you. Files are as an actor wrote them, so those of an
    encrypted snapshot are marked: plain.
    """
    view = open_storage(storage).system(system)
    snapshots = view.snapshots() if snapshot is None else [view.snapshot(snapshot)]
    document = outside_document(view.name, snapshots)
    click.echo(dump(document)) if as_json else console().print(_table(document, None if everything else ROWS_MAX))
    raise click.exceptions.Exit(UNSOUND if any("error" in row for row in document["snapshots"]) else FINE)


def _table(document: dict[str, Any], rows_max: int | None) -> Group:
    rows = list(_rows(document))
    shown = rows if rows_max is None else rows[-rows_max:]
    columns = [Header("snapshot", rigid=True, style="bold"), Header("actor", style="bold")]
    columns += [Header("files", number=True), Header("size", number=True), Header("payload"), Header("folder")]
    having = sum(bool(row.get("actors")) for row in document["snapshots"])
    title = heading(document["system"], words.plural(having, "snapshot"), words.size(document["bytes"]))
    return sections([title], [grid(columns, shown), *left_out(len(rows) - len(shown), "older row")] if rows else [])


def _rows(document: dict[str, Any]) -> Iterator[list[Cell]]:
    for row in document["snapshots"]:
        if "error" in row:
            yield [row["snapshot"], Text(row["error"]["kind"].replace("_", " "), style="red"), "", "", "", ""]
        for one in row.get("actors", ()):
            plain = " plain" if row["encrypted"] and one["plain"] else ""
            size = f"{words.size(one['bytes'])}{plain}" if one["files"] else ""
            files = f"{len(one['files']):,}" if one["files"] else ""
            yield [
                row["snapshot"],
                one["actor"],
                files,
                size,
                words.value(one["payload"]),
                one["folder"] if files else "",
            ]
