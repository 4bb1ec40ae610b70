"""`rayshot trace`: shows what the actors of a traced system did, as one order of events with vector clocks."""

import json
from collections import deque
from collections.abc import Iterator
from urllib.parse import quote

import click
from rich.console import Group

from rayshot.audit.computation import Computation, describe
from rayshot.audit.findings import NoTrace
from rayshot.audit.proof import trace_of
from rayshot.cli.grid import ROWS_MAX, Header, console, grid, heading, left_out, sections
from rayshot.cli.json_option import json_option
from rayshot.documents import words
from rayshot.errors import ConfigError
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.snapshot import Snapshot

PARSER = r"(?<host>\S+) (?<clock>\{.*?\}) (?<event>.*)"
"""The regular expression that ShiViz needs for its lines."""


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--snapshot", metavar="ID", help="The snapshot; the latest if left out.")
@click.option("--shiviz", "as_shiviz", is_flag=True, help="Print a log that ShiViz draws as a space-time diagram.")
@json_option("Print one JSON object a line.")
@click.option("--all", "everything", is_flag=True, help="Show all rows of long tables.")
def trace(
    storage: str, system: str | None, snapshot: str | None, *, as_shiviz: bool, as_json: bool, everything: bool
) -> None:
    """Show what the actors of a traced system did around one snapshot.

    No event comes before one on which it depends. With --shiviz, paste the log into
    https://bestchai.bitbucket.io/shiviz/ together with the regular expression on stderr.
    """
    view = open_storage(storage).system(system)
    found = view.snapshot(snapshot)
    try:
        traced = trace_of(found, [one for one in view.snapshots() if one.id != found.id])
    except NoTrace as reason:
        raise ConfigError(f"{found.id} cannot be shown: {reason}") from reason
    computation = Computation(traced.histories)
    if as_shiviz:
        click.echo(f"parse with {PARSER}", err=True)
        for line in shiviz(computation):
            click.echo(words.printable(line))
    elif as_json:
        for step in computation.steps():
            clock = dict(zip(computation.actors, step.clock, strict=True))
            click.echo(json.dumps({"actor": step.actor, "clock": clock, "event": describe(step.event)}))
    else:
        console().print(_table(found, computation, traced.base, None if everything else ROWS_MAX))


def _table(snapshot: Snapshot, computation: Computation, base: str, rows_max: int | None) -> Group:
    steps = deque(computation.steps(), maxlen=rows_max)
    columns = [Header("actor", rigid=True, style="bold"), Header("event", number=True), Header("what it did")]
    rows = [
        (
            step.actor,
            f"{step.clock[computation.actors.index(step.actor)]:,}",
            describe(step.event),
        )
        for step in steps
    ]
    since = f"since {base}" if base else "from the beginning"
    title = heading(snapshot.system, str(snapshot.id), f"{len(computation):,} events {since}")
    return sections([title], [grid(columns, rows), *left_out(len(computation) - len(steps), "earlier event")])


def shiviz(computation: Computation) -> Iterator[str]:
    """A line of ShiViz for each event: host, vector clock as JSON, event. A clock leaves out hosts that stand at 0."""
    hosts = {actor: _host(actor) for actor in computation.actors}
    for step in computation.steps():
        clock = {hosts[actor]: count for actor, count in zip(computation.actors, step.clock, strict=True) if count}
        yield f"{hosts[step.actor]} {json.dumps(clock)} {describe(step.event)}"


def _host(actor: str) -> str:
    """The name, with unprintable characters and those at which the regular expression stops quoted as in a URL."""
    return "".join(char if char.isprintable() and char not in " %{}" else quote(char) for char in actor)
