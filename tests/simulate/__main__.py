"""`python -m tests.simulate`: schedules of the protocol by volume, and a failed one again."""

import json
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rayshot.cli.exits import FINE, UNSOUND, CommandGroup
from rayshot.cli.json_option import json_option
from rayshot.errors import BadManifest, ConfigError
from rayshot.simulation.face.shrinking import same_failure, shrink
from rayshot.simulation.world.networks import NETWORKS
from tests.simulate.acceptance import FAULTS, Acceptance
from tests.simulate.schedule import Outcome, Summary, add, replay, run_seed
from tests.simulate.settings import MODES
from tests.simulate.speed import Speed
from tests.simulate.topologies import TOPOLOGIES

STORY_LINES = 60
SHRINKING_RUNS_MAX = 1000
REPLAYED_ONE_IN = 8
HEADLINES = ("cuts checked", "messages recorded", "cuts with mailbox, outbox and overlap")


@click.command()
@click.option("--schedules", type=click.IntRange(1), default=2000, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of the first one.")
@click.option("--mode", type=click.Choice(list(MODES)), help="Snapshots of this mode only; of all if left out.")
@click.option("--topology", type=click.Choice(list(TOPOLOGIES)), help="This graph at the start; any if left out.")
@click.option("--network", type=click.Choice(list(NETWORKS)), help="This network; any if left out.")
@click.option("--save", metavar="FILE", type=click.Path(path_type=Path), help="Write the first failed schedule here.")
@click.option("--replay", "again", metavar="FILE", type=click.Path(path_type=Path), help="Run a saved schedule again.")
@click.option("--shrink/--no-shrink", "shrinks", default=True, help="Make the first failed schedule short, or not.")
@json_option("Print one JSON document with all counts.")
@click.pass_context
def simulate(
    context: click.Context,
    schedules: int,
    seed: int,
    mode: str | None,
    topology: str | None,
    network: str | None,
    save: Path | None,
    again: Path | None,
    *,
    shrinks: bool,
    as_json: bool,
) -> None:
    """Run the protocol under many schedules with faults.

    It takes one core, and counts its seconds. Each schedule is drawn from its seed and judged by oracles that know
    what really happened; one in eight is run again from its choices and compared. The first one that fails is made
    as short as it can be and still fail in the same way, and tells its story, one event a line.
    """
    if again is not None:
        _refuse_other_options(context)
        _replay(again)
        return
    if save is not None and not save.parent.is_dir():
        raise ConfigError(f"--save {save}: there is no folder {save.parent}")
    kind: dict[str, Any] = {"mode": mode, "topology": topology, "network": network}
    summary, acceptance, speed = Summary(), Acceptance(), Speed()
    with _bar() as bar:
        task = bar.add_task("schedules", total=schedules, failed="")
        for number in range(seed, seed + schedules):
            began = time.process_time()
            outcome = run_seed(number, **kind)
            speed.add(outcome.settings, time.process_time() - began)
            add(summary, number, outcome)
            acceptance.add(outcome)
            if (number - seed) % REPLAYED_ONE_IN == 0:
                acceptance.replay(outcome, replay(outcome.choices, story=False, **kind))
            bar.update(task, advance=1, failed=f"{len(summary.failures)} FAILED" if summary.failures else "")
    counts = _counts(summary, speed, seed)
    if as_json:
        rows = acceptance.rows([mode] if mode else MODES, [topology] if topology else TOPOLOGIES)
        failures = {"failed seeds": sorted(summary.failures)}
        click.echo(json.dumps({**kind, **counts, **failures, "acceptance": rows}, indent=2))
    else:
        click.echo(_lines(counts))
    if acceptance.differed:
        click.echo(f"{acceptance.differed} of {acceptance.replayed} replays differed from their first run", err=True)
    for number, outcome in list(summary.failures.items())[:1]:
        told = _shrunk(outcome, kind) if shrinks else None
        _tell(f"seed {number}", told or run_seed(number, story=True, **kind))
        choices = list((told or outcome).choices)
        click.echo(f"choices of seed {number}: {choices}", err=True)
        if save is not None:
            saved = {"seed": number, **kind, "choices": choices}
            save.write_text(json.dumps(saved) + "\n")
            click.echo(f"saved: python -m tests.simulate --replay {save} runs it again", err=True)
    raise click.exceptions.Exit(UNSOUND if summary.failures or acceptance.differed else FINE)


def _refuse_other_options(context: click.Context) -> None:
    """A saved schedule says itself what it is."""
    given = [
        "/".join([*option.opts, *option.secondary_opts])
        for option in context.command.params
        if option.name != "again"
        and context.get_parameter_source(option.name or "") is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"--replay runs the saved schedule as it is: leave {', '.join(given)} out")


def _replay(path: Path) -> None:
    try:
        saved = json.loads(path.read_text())
        choices, mode, topology, network = saved["choices"], saved["mode"], saved["topology"], saved["network"]
        known = mode in (None, *MODES) and topology in (None, *TOPOLOGIES) and network in (None, *NETWORKS)
        sound = known and all(type(choice) is int and choice >= 0 for choice in choices)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadManifest(
            f"{path} is not a schedule that `python -m tests.simulate --save` wrote: {error!r}"
        ) from error
    if not sound:
        raise BadManifest(f"{path} is not a schedule that this `python -m tests.simulate --save` wrote")
    outcome = replay(choices, mode=mode, topology=topology, network=network)
    if outcome.failure is None:
        click.echo("\n".join([*outcome.story[-STORY_LINES:], "every oracle was content"]))
        return
    _tell(str(path), outcome)
    raise click.exceptions.Exit(UNSOUND)


def _shrunk(outcome: Outcome, kind: Mapping[str, Any]) -> Outcome | None:
    """The same failure with fewer choices; None if the choices alone do not bring it about."""

    def fails(choices: Sequence[int]) -> bool:
        return same_failure(replay(choices, story=False, **kind).failure, outcome.failure)

    if not fails(outcome.choices):
        return None
    short = shrink(outcome.choices, fails, runs_max=SHRINKING_RUNS_MAX)
    lengths = f"{len(outcome.choices):,} choices to {len(short.choices):,}"
    click.echo(f"shrunk from {lengths}, in {short.runs:,} runs; behind their end all are 0", err=True)
    return replace(replay(short.choices, **kind), choices=short.choices)


def _bar() -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(),
        TextColumn("[red]{task.fields[failed]}"),
        console=Console(stderr=True),
        transient=False,
    )


def _counts(summary: Summary, speed: Speed, seed: int) -> dict[str, Any]:
    first = {
        "schedules": summary.schedules,
        "first seed": seed,
        "failed": len(summary.failures),
        "schedules a second": speed.of_all,
        "schedules of 4 processes with faults": speed.faulty,
        "schedules of 4 processes with faults a second": speed.of_faulty,
    }
    known = {name: summary.counts[name] for name in (*HEADLINES, *FAULTS)}
    return {**first, **known, **{name: n for name, n in sorted(summary.counts.items()) if name not in known}}


def _lines(counts: dict[str, Any]) -> str:
    """One line per counter: the headlines, what was done to the systems, and all the rest."""
    lines = {name: f"{value:>12,}  {name}" for name, value in counts.items()}
    faults = [lines.pop(name) for name in FAULTS]
    first = [lines.pop(name) for name in list(lines)[: list(lines).index(HEADLINES[-1]) + 1]]
    return "\n".join([*first, "faults, by kind:", *faults, "and:", *lines.values()])


def _tell(name: str, outcome: Outcome) -> None:
    """The end of a failed schedule's story, and why it failed."""
    assert outcome.failure is not None
    error = "".join(traceback.format_exception(outcome.failure))
    click.echo("\n".join([f"{name}: {outcome.settings}", *outcome.story[-STORY_LINES:], error]), err=True)


main = CommandGroup("tests", commands={"simulate": simulate})
"""Errors are told as the command line tells its own."""

if __name__ == "__main__":
    main(["simulate", *sys.argv[1:]])
