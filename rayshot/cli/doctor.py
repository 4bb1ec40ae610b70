"""`rayshot doctor`: checks if a cluster, its nodes and a storage are fit for a system, and says what to do if not."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.text import Text

from rayshot.cli.connection import address_option, cluster
from rayshot.cli.exits import FINE, UNSOUND
from rayshot.cli.grid import console
from rayshot.cli.json_option import json_option
from rayshot.documents.words import printable

if TYPE_CHECKING:
    from rayshot.doctor.findings import Diagnosis

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option(
    "--storage", metavar="STORAGE", envvar="RAYSHOT_STORAGE", help="The storage that the systems will write to."
)
@address_option
@json_option()
def doctor(storage: str | None, address: str | None, *, as_json: bool) -> None:
    """Check a Ray cluster, each of its nodes, and a storage, and say what to do before a system runs there.

    It runs a task on each node, and writes and deletes small objects in the storage. It ends with 1 if a check failed;
    warnings do not count.
    """
    with cluster(address) as where:
        from rayshot.doctor.examination import examine_cluster  # noqa: PLC0415 - see `reaching`
        from rayshot.doctor.findings import judge  # noqa: PLC0415

        found = judge(examine_cluster(where, storage, lambda what: click.echo(f"{what} ...", err=True)))
    if as_json:
        click.echo(json.dumps({"address": where, "findings": [asdict(one) for one in found]}))
    else:
        _print(found)
    raise click.exceptions.Exit(UNSOUND if any(one.level == "fail" for one in found) else FINE)


def _print(found: "list[Diagnosis]") -> None:
    terminal, width = console(), max(len(one.what) for one in found)
    for one in found:
        line = Text.assemble((f"{one.level:4}", _STYLES[one.level]), f"  {one.what:{width}}  ", printable(one.seen))
        terminal.print(line, soft_wrap=True)
        if one.advice:
            terminal.print(Text(f"{'':{width + 8}}-> {printable(one.advice)}", "dim"), soft_wrap=True)
    bad = {level: sum(one.level == level for one in found) for level in ("fail", "warn")}
    terminal.print(f"{len(found)} looked at, {bad['fail']} failed, {bad['warn']} warnings", soft_wrap=True)
