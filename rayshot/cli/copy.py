"""`rayshot copy`: copies a snapshot into another storage."""

import click

from rayshot.cli.json_option import dump, json_option
from rayshot.cli.progress import progress_bar
from rayshot.documents import words
from rayshot.documents.snapshots import row
from rayshot.snapshots.upkeep.copying import copy as copy_to


@click.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--snapshot", metavar="ID", help="The snapshot; the latest if left out.")
@json_option()
def copy(source: str, destination: str, system: str | None, snapshot: str | None, *, as_json: bool) -> None:
    """Copy one snapshot from SRC to DST, folders or addresses.

    The copy keeps its signature, needs nothing of SRC, and can be restored. Every byte is proved on the way. DST shows
    the copy only when it is complete; after an interruption the command goes on where it was.
    """
    with progress_bar() as tell:
        found = copy_to(source, destination, system=system, snapshot=snapshot, progress=tell)
    if as_json:
        click.echo(dump(row(found)))
    else:
        chunks = words.plural(len(found.manifest.chunks), "chunk")
        click.echo(f"copied {found.id} of {found.system}: {chunks}, {words.size(found.size_bytes)}")
