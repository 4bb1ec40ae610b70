"""`rayshot drill`: a rehearsal of a restore, one actor after the other, each in a scratch process."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from rich.text import Text

from rayshot.cli.classes_option import Classes, classes_option, finding_classes
from rayshot.cli.exits import FINE, INCOMPATIBLE, NOT_TRIED, UNSOUND
from rayshot.cli.grid import Cell, Header, console, grid, heading, sections
from rayshot.cli.json_option import dump, json_option
from rayshot.documents.words import plural
from rayshot.format.manifest import HASH_SEED
from rayshot.format.pickling import dump_names
from rayshot.format.slots import SlottedMessage
from rayshot.keys.finder import find_trusted_keys
from rayshot.model.fit import Fit, fit
from rayshot.protocol.identity import Channel
from rayshot.proving.prover import Prover, spread
from rayshot.proving.surroundings import ProcessSurroundings
from rayshot.proving.trial import NO_CODE, Messages, Trial, TrialAnswer
from rayshot.simulation.actors.snapshot_loading import read_channel
from rayshot.simulation.bodies.world_snapshot import RecordedChannel
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.snapshot import Snapshot, check_trust

LOAD_S = 600.0
"""One state, or the messages of one channel, may take so many seconds."""
_SHOWN = {
    "proved": ("came back", "green"),
    "refuted": ("does not come back", "red"),
    "unproved": ("not tried to the end", "yellow"),
}


class _Loaded(NamedTuple):
    """The answers for the states of actors, by name, and for the messages in flight on channels."""

    actors: dict[str, TrialAnswer]
    channels: dict[Channel, TrialAnswer]

    @property
    def answers(self) -> list[TrialAnswer]:
        return [*self.actors.values(), *self.channels.values()]


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--snapshot", metavar="ID", help="The snapshot; the latest if left out.")
@click.option("--allow-unsigned", is_flag=True, help="Load a snapshot that no trusted key has signed.")
@classes_option
@json_option()
def drill(
    storage: str, system: str | None, snapshot: str | None, *, allow_unsigned: bool, classes: Classes, as_json: bool
) -> None:
    """Load the state of every actor and the messages in flight, as a restore does, and say which came back.

    Each is loaded in a scratch process of its own: run it where the actors' modules can be imported. `migrate` and
    `__setstate__` run, `on_restore` and handlers do not; nothing needs Ray. Of a channel it loads messages up to the
    first one that does not come back. It executes code of the snapshot, which a trusted key must have signed.

    It ends with 1 if something does not come back, with 14 if a module or class is not here, and with 18 if something
    could not be tried to the end, for example because a server refused.
    """
    found = open_storage(storage).system(system).snapshot(snapshot)
    check_trust(found, find_trusted_keys(), allow_unsigned=allow_unsigned)
    with finding_classes(), contextlib.redirect_stdout(sys.stderr):  # what modules print is not part of the document
        fitting = fit(found.manifest, found.read, classes.moved, skip_missing_classes=classes.skip_missing)
    loaded = _load(found, fitting)
    if as_json:
        click.echo(dump(_document(found, loaded)))
    else:
        _show(found, loaded)
    raise click.exceptions.Exit(_code(loaded.answers))


def _load(found: Snapshot, fitting: Fit) -> _Loaded:
    """Load all, one after the other. Raises Damaged and StoreError."""
    here = ProcessSurroundings.here().with_hash_seed(found.manifest.stats.get(HASH_SEED))
    prover, names = Prover(here), dump_names(fitting.names)
    packed = {name: specification.pack() for name, specification in fitting.specifications.items()}
    actors, channels = {}, {}
    try:
        for actor in fitting.manifest.actors:
            if actor.state is not None:
                parts = [found.read(blob) for blob in (actor.state.stream, *actor.state.buffers)]
                whole = Trial(actor.name, packed[actor.name], _sizes(parts), LOAD_S, names, actor.version)
                actors[actor.name] = _ask(prover, whole, parts)
        for entry in fitting.manifest.channels:
            recorded = read_channel(found, found.channel(entry.sender, entry.receiver))
            if recorded.count:
                parts, messages = _laid_out(recorded)
                of_receiver = entry.receiver, packed[entry.receiver], _sizes(parts)
                trial = Trial(*of_receiver, LOAD_S, names, messages=messages)
                channels[recorded.channel] = _ask(prover, trial, parts)
    finally:
        prover.close()
    return _Loaded(actors, channels)


def _ask(prover: Prover, trial: Trial, parts: Sequence[bytes]) -> TrialAnswer:
    file = spread(parts)
    try:
        return prover.ask(trial, file)
    finally:
        os.close(file)


def _sizes(parts: Sequence[bytes]) -> tuple[int, ...]:
    return tuple(map(len, parts))


def _laid_out(recorded: RecordedChannel) -> tuple[list[bytes], Messages]:
    """Messages and what lies beside them as one sequence of parts, and what each of these is."""
    parts: list[bytes] = []
    messages = []
    for number, body in enumerate(recorded.bodies, recorded.received + 1):
        slots = body.slots if isinstance(body, SlottedMessage) else ()
        parts += [body, *(part for slot in slots for part in slot.content.parts)]
        messages.append((number, tuple((slot.kind, len(slot.content.parts)) for slot in slots)))
    return parts, tuple(messages)


def _document(found: Snapshot, loaded: _Loaded) -> dict[str, Any]:
    return {
        "system": found.system,
        "snapshot": str(found.id),
        "actors": [{"actor": name, **answer._asdict()} for name, answer in loaded.actors.items()],
        "channels": [{**channel._asdict(), **answer._asdict()} for channel, answer in loaded.channels.items()],
    }


def _show(found: Snapshot, loaded: _Loaded) -> None:
    columns = [Header("actor or channel", style="bold"), Header("state or messages"), Header("why")]
    rows: list[list[Cell]] = [
        [str(name), Text(_SHOWN[answer.word][0], style=_SHOWN[answer.word][1]), _why(answer)]
        for name, answer in (*loaded.actors.items(), *loaded.channels.items())
    ]
    said = [f"{_back(loaded.actors)} of {plural(len(loaded.actors), 'actor')} came back"]
    if loaded.channels:
        said.append(f"and the messages of {_back(loaded.channels)} of {plural(len(loaded.channels), 'channel')}")
    console().print(sections([heading(found.system, str(found.id), " ".join(said))], [grid(columns, rows)]))


def _back(answers: Mapping[Any, TrialAnswer]) -> str:
    return f"{sum(answer.word == 'proved' for answer in answers.values()):,}"


def _why(answer: TrialAnswer) -> str:
    return f"{answer.path}: {answer.reason}" if answer.path else answer.reason


def _code(answers: Sequence[TrialAnswer]) -> int:
    words = {answer.word for answer in answers}
    if "refuted" in words:
        return UNSOUND
    if any(answer.error in NO_CODE for answer in answers):
        return INCOMPATIBLE
    return NOT_TRIED if "unproved" in words else FINE
