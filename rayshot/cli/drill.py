"""`rayshot drill`: a rehearsal of a restore, one actor after the other, each in a scratch process."""

import os
from collections.abc import Iterator

import click
from rich.text import Text

from rayshot.cli import documents
from rayshot.cli.exits import FINE, INCOMPATIBLE, NOT_TRIED, UNSOUND
from rayshot.cli.grid import Cell, Column, console, grid, heading, sections
from rayshot.cli.json_option import json_option
from rayshot.cli.words import plural
from rayshot.format.entries import ActorEntry
from rayshot.format.pickling import dump_names
from rayshot.format.signing import find_trusted_keys
from rayshot.model.specification import ActorSpecification
from rayshot.proving.prover import Prover, spread
from rayshot.proving.surroundings import Surroundings
from rayshot.proving.trial import NO_CODE, Answer, Trial
from rayshot.store.repository import open as open_storage
from rayshot.store.snapshot import Snapshot
from rayshot.store.trust import check_trust

LOAD_S = 600.0
"""One state may take so many seconds."""
_SHOWN = {
    "proved": ("came back", "green"),
    "refuted": ("does not come back", "red"),
    "unproved": ("not tried to the end", "yellow"),
}


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--snapshot", metavar="ID", help="The snapshot; the latest if left out.")
@click.option(
    "--allow-unsigned", is_flag=True, help="Load a snapshot that is not signed by a trusted key: it runs its code."
)
@json_option()
def drill(storage: str, system: str | None, snapshot: str | None, *, allow_unsigned: bool, as_json: bool) -> None:
    """Load the state of every actor of one snapshot, as a restore does, and say which came back.

    Each is loaded in a scratch process of its own, one after the other, with the classes of this machine: run it where
    the actors' modules can be imported. Classes migrate states and take them with their `__setstate__`; no `on_restore`
    and no handler runs, and nothing needs Ray. It executes code of the snapshot, so the snapshot must be signed by a
    trusted key, as for a restore. Messages in flight are not loaded.

    It ends with 1 if a state does not come back, with 14 if a module or class is not here, and with 18 if a state could
    not be tried to the end, for example because a server refused.
    """
    found = open_storage(storage).system(system).snapshot(snapshot)
    check_trust(found, find_trusted_keys(), allow_unsigned=allow_unsigned)
    answers = dict(_answers(found))
    if as_json:
        rows = [{"actor": name, **answer._asdict()} for name, answer in answers.items()]
        click.echo(documents.dump({"system": found.system, "snapshot": str(found.id), "actors": rows}))
    else:
        _show(found, answers)
    raise click.exceptions.Exit(_code(answers))


def _answers(found: Snapshot) -> Iterator[tuple[str, Answer]]:
    prover = Prover(Surroundings.here())
    try:
        for actor in found.manifest.actors:
            if actor.state is not None:
                yield actor.name, _try(prover, found, actor)
    finally:
        prover.close()


def _try(prover: Prover, found: Snapshot, actor: ActorEntry) -> Answer:
    """Load one actor. Raises Damaged and StoreError."""
    assert actor.state is not None
    by_value = None if actor.class_pickle is None else found.read(actor.class_pickle)
    specification = ActorSpecification(
        actor.class_module, actor.class_name, by_value, actor.methods, actor.options, actor.version
    )
    parts = [found.read(blob) for blob in (actor.state.stream, *actor.state.buffers)]
    sizes = tuple(map(len, parts))
    file = spread(parts)
    try:
        return prover.ask(Trial(actor.name, specification.pack(), sizes, LOAD_S, dump_names({}), actor.version), file)
    finally:
        os.close(file)


def _show(found: Snapshot, answers: dict[str, Answer]) -> None:
    columns = [Column("actor", style="bold"), Column("state"), Column("why")]
    rows: list[list[Cell]] = [
        [name, Text(_SHOWN[answer.word][0], style=_SHOWN[answer.word][1]), _why(answer)]
        for name, answer in answers.items()
    ]
    back = sum(answer.word == "proved" for answer in answers.values())
    said = f"{back:,} of {plural(len(answers), 'actor')} came back"
    console().print(sections([heading(found.system, str(found.id), said)], [grid(columns, rows)]))


def _why(answer: Answer) -> str:
    return f"{answer.path}: {answer.reason}" if answer.path else answer.reason


def _code(answers: dict[str, Answer]) -> int:
    words = {answer.word for answer in answers.values()}
    if "refuted" in words:
        return UNSOUND
    if any(answer.error in NO_CODE for answer in answers.values()):
        return INCOMPATIBLE
    return NOT_TRIED if "unproved" in words else FINE
