"""`rayshot detect`: asks a stable property about every snapshot of a history."""

from collections.abc import Sequence
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from rayshot.cli.exits import DIFF_DAMAGED, FINE, NOT_SO, UNSOUND, exit_code, fail
from rayshot.cli.grid import ROWS_MAX, Header, console, grid, heading, left_out, sections
from rayshot.cli.json_option import dump, json_option
from rayshot.cli.predicates import find_property
from rayshot.cli.secrets_option import secrets_option
from rayshot.documents import words
from rayshot.errors import RayshotError
from rayshot.properties import Detection, Verdict
from rayshot.properties import detect as detect_in
from rayshot.snapshots.catalog import open as open_storage

_WORDS = {True: ("yes", "green"), False: ("no", ""), None: ("unknown", "yellow")}


@click.command()
@click.argument("storage")
@click.argument("predicate")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option(
    "--with",
    "given",
    metavar="NAME=VALUE",
    multiple=True,
    help="An argument of the property; several times if you like.",
)
@click.option("--all", "everything", is_flag=True, help="Show all rows of long tables.")
@json_option()
@secrets_option
def detect(
    storage: str, predicate: str, system: str | None, given: Sequence[str], *, everything: bool, as_json: bool
) -> None:
    """Ask a stable PREDICATE of every snapshot.

    PREDICATE is termination, lost-reply, deadlock, token-census, conserved-sum, counter-reached, unreferenced, or
    module:name for one of your own, which is imported from the current folder. If it holds in a snapshot, it holds from
    the moment when the snapshot was complete, until a restore. If not, it did not hold when the snapshot began.
    """
    try:
        view = open_storage(storage).system(system)
        found = detect_in(view, find_property(predicate, given))
    except RayshotError as error:
        code = exit_code(error)
        fail(error, DIFF_DAMAGED if code == UNSOUND else code)  # exit code 1 says that it does not hold
    if as_json:
        click.echo(dump(_document(view.name, found)))
    else:
        console().print(_shown(view.name, found, rows_max=None if everything else ROWS_MAX))
    raise click.exceptions.Exit(FINE if found.holds else NOT_SO)


def _shown(system: str, found: Detection, *, rows_max: int | None) -> Group:
    shown = found.verdicts if rows_max is None else found.verdicts[-rows_max:]
    columns = [Header("snapshot", rigid=True, style="bold"), Header("holds", rigid=True), Header("why")]
    rows = [(str(one.snapshot), Text(*_WORDS[one.holds]), one.why) for one in shown]
    lines = [Text(f" {words.printable(line)}") for line in _conclusions(found)]
    title = heading(system, found.asked.name, _kind(found))
    return sections(
        [title], [grid(columns, rows), *left_out(len(found.verdicts) - len(shown), "older snapshot")], lines
    )


def _conclusions(found: Detection) -> list[str]:
    """What follows from all verdicts together."""
    lines = []
    if found.decisive is not None:
        lines.append(found.decisive.meaning)
    elif not any(one.life == found.life for one in found.verdicts):
        lines.append(f"there is no snapshot of life {found.life} yet, and nothing is known of it")
    elif found.asked.kind == "invariant":
        lines.append(f"it holds in every snapshot of life {found.life}")
    elif not any(no.life == found.life for _, no in found.contradictions):
        lines.append(found.verdicts[-1].meaning)
    if found.asked.closed:
        reason = "a driver came, spoke and went in between, or else it is not stable here"
    else:
        reason = "it is not stable here"
    lines += [
        f"{reason}: it holds in {yes.snapshot}, and not in {no.snapshot}, which can be reached from there"
        for yes, no in found.contradictions[:ROWS_MAX]
    ]
    if found.deleted:
        lines.append(f"{words.plural(len(found.deleted), 'snapshot')} left out, deleted meanwhile")
    return lines


def _kind(found: Detection) -> str:
    conditions = " and ".join(found.asked.conditions)
    return f"{found.asked.kind}, as long as {conditions}" if conditions else found.asked.kind


def _document(system: str, found: Detection) -> dict[str, Any]:
    return {
        "system": system,
        "property": found.asked.name,
        "kind": found.asked.kind,
        "conditions": list(found.asked.conditions),
        "life": found.life,
        "holds": found.holds,
        "decided_by": None if found.decisive is None else str(found.decisive.snapshot),
        "verdicts": [_verdict(one) for one in found.verdicts],
        "contradictions": [[str(yes.snapshot), str(no.snapshot)] for yes, no in found.contradictions],
        "deleted": [str(one) for one in found.deleted],
    }


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "snapshot": str(one.snapshot),
        "life": one.life,
        "holds": one.holds,
        "why": one.why,
        "evidence": dict(one.evidence),
        "told": dict(one.told),
        "meaning": one.meaning,
    }
