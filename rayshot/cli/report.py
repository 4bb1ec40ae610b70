"""`rayshot report`: writes a page about a system, as one file that needs nothing else."""

from collections.abc import Sequence
from pathlib import Path

import click

from rayshot.cli.secrets_option import secrets_option
from rayshot.documents import words
from rayshot.errors import ConfigError
from rayshot.explorer.report import report as make
from rayshot.snapshots.catalog import open as open_storage


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("-o", "--output", metavar="FILE", required=True, help="The file to write; it replaces an earlier one.")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option(
    "--snapshot", metavar="ID", help="The snapshot that opens first; if left out, the latest one with a later trace."
)
@click.option(
    "--actor", "actors", metavar="NAME", multiple=True, help="Show this actor or driver; several times if you like."
)
@secrets_option
def report(storage: str, output: str, system: str | None, snapshot: str | None, actors: Sequence[str]) -> None:
    """Write a page with the snapshots of a system: the cut, the messages in flight, states and what changed.

    It is one HTML file, which needs no network. It also has some snapshots before the one that opens first. Of a large
    system it has the actors with most messages in flight, or those that --actor names.
    """
    view = open_storage(storage).system(system)
    found, text = make(view, None if snapshot is None else view.snapshot(snapshot), actors=actors)
    page = text.encode()
    try:
        Path(output).write_bytes(page)
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}", path=output) from error
    click.echo(f"{words.printable(output)}: {found.id} of {found.system}, {words.size(len(page))}")
