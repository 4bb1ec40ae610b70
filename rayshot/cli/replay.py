"""`rayshot replay`: loads a snapshot into a simulated world, and steps through it message by message."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from rayshot.cli.classes_option import Classes, classes_option, finding_classes
from rayshot.cli.exits import FINE, UNSOUND, leave
from rayshot.cli.grid import ROWS_MAX, console, heading
from rayshot.cli.json_option import dump, json_option
from rayshot.cli.secrets_option import secrets_option
from rayshot.documents import words
from rayshot.documents.changes import change_document, sides
from rayshot.errors import ActorDied
from rayshot.inert.jsonable import jsonable
from rayshot.inert.redaction import shown_call
from rayshot.simulation.actors.schedule import STEPS_MAX
from rayshot.simulation.actors.stepping import TIMER, Pending, Step
from rayshot.simulation.face.system import SimulatedSystem
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.snapshot import Snapshot

STEPS_SHOWN = 40
PENDING_SHOWN_MAX = 20
NUMBER_LENGTH_MAX = 9
HELP = "Enter: any of these.  A number: that message.  b: branch.  u: back to before the branch.  s: states.  q: quit."


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--snapshot", metavar="ID", help="The snapshot; the latest if left out.")
@click.option("--steps", type=click.IntRange(0, STEPS_MAX), default=STEPS_SHOWN, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Picks what happens next.")
@click.option("--interactive", is_flag=True, help="Ask before each step which message comes next.")
@click.option("--allow-unsigned", is_flag=True, help="Load a snapshot that no trusted key has signed.")
@classes_option
@json_option()
@secrets_option
def replay(
    storage: str,
    system: str | None,
    snapshot: str | None,
    steps: int,
    seed: int,
    *,
    allow_unsigned: bool,
    interactive: bool,
    classes: Classes,
    as_json: bool,
) -> None:
    """Continue from one snapshot, message by message.

    The actors run in this process, without Ray. It imports their classes, also from the current folder, and runs their
    handlers with all effects, so a trusted key must have signed the snapshot. Each step handles one message in flight
    or fires one timer, and shows what changed and what was sent. Another seed shows another order.
    """
    if interactive and as_json:
        raise click.UsageError("--interactive and --json do not go together")
    if interactive and not _is_terminal():
        raise click.UsageError("--interactive needs a terminal")
    found = open_storage(storage).system(system).snapshot(snapshot)
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as text, as in sys.path
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    if as_json:
        with contextlib.redirect_stdout(sys.stderr):  # what handlers print is not part of the document
            document, death = _document(found, seed, _load(found, seed, classes, allow_unsigned=allow_unsigned), steps)
        click.echo(dump(document))
        if death is not None:
            leave(death, UNSOUND)  # the document says it too
        raise click.exceptions.Exit(FINE)
    terminal = console()
    world = _load(found, seed, classes, allow_unsigned=allow_unsigned)
    terminal.print(heading(found.system, str(found.id), _summary(found)), soft_wrap=True)
    terminal.print()
    if interactive:
        _ask(terminal, world)
    else:
        try:
            for number, step in enumerate(_walk(world, steps), 1):
                terminal.print(_told(number, step), soft_wrap=True)
        except ActorDied as error:  # it ends only the simulated system
            leave(error, UNSOUND)
        terminal.print(_rest(world, after_steps=world.events), style="dim", soft_wrap=True)
        _show_states(terminal, world)


def _load(snapshot: Snapshot, seed: int, classes: Classes, *, allow_unsigned: bool) -> SimulatedSystem:
    with finding_classes():
        return SimulatedSystem.from_snapshot(
            snapshot,
            seed=seed,
            allow_unsigned=allow_unsigned,
            rename_classes=classes.moved,
            skip_missing_classes=classes.skip_missing,
        )


def _walk(world: SimulatedSystem, steps: int) -> Iterator[Step]:
    for _ in range(steps):
        try:
            step = world.step()
        except ActorDied as error:
            yield error.evidence["step"]
            raise
        if step is None:
            return
        yield step


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _summary(snapshot: Snapshot) -> str:
    actors, moving = len(snapshot.actors), snapshot.in_flight
    return f"{words.plural(actors, 'actor')}, {words.plural(moving, 'message')} in flight"


# As lines -------------------------------------------------------------------------------------------------------


def _told(number: int, step: Step) -> Text:
    """One step: the message that was handled, what it changed, and what it sent."""
    receiver = words.printable(step.handled.receiver)
    lines = [Text.assemble((f"{number:>4}  ", "dim"), _message(step.handled))]
    for change in step.changes:
        old, new = sides(change)
        name = words.printable(change.name)
        lines.append(Text.assemble("        ", f"{receiver}.{name}: ", (old, "red"), " -> ", (new, "green")))
    lines += [Text.assemble("        ", ("sends ", "dim"), _message(sent)) for sent in step.sent]
    lines += [Text.assemble("        ", ("sets a timer  ", "dim"), words.printable(timer)) for timer in step.timers_set]
    lines += [Text.assemble("        ", ("awaits a reply  ", "dim"), words.printable(name)) for name in step.awaits]
    if step.ends:
        lines.append(Text.assemble("        ", ("ends", "bold")))
    if len(lines) == 1:
        lines.append(Text("        changes nothing", style="dim"))
    if step.error:
        last = words.printable(step.error.strip().splitlines()[-1])
        lines.append(Text.assemble("        ", ("raises ", "dim"), (last, "bold red")))
    return Text("\n").join(lines)


def _message(message: Pending) -> Text:
    call = words.call(message.method, message.kind, message.args, message.kwargs or {})
    if message.kind == TIMER:
        return Text.assemble((words.printable(message.receiver), "bold"), f"  timer, due at {message.due:g} s  ", call)
    ends = words.printable(f"{message.sender} -> {message.receiver}")
    what = f"{call}  (call)" if message.kind == "call" else call
    return Text.assemble((ends, "bold"), (f"  message {message.number:,}  ", "dim"), what)


def _rest(world: SimulatedSystem, *, after_steps: int) -> str:
    left = len(world.pending)
    done = words.plural(after_steps, "step")
    if left:
        return f"\nStopped after {done}: it goes on ({left:,} could be next), --steps shows more. The states are now"
    if after_steps == 0:
        return "No message is in flight and no timer is set, so nothing happens by itself. The states are"
    return f"\nNothing is left to do after {done}. The states are now"


# Asking ---------------------------------------------------------------------------------------------------------


def _ask(terminal: Console, world: SimulatedSystem) -> None:
    """Go step by step, as the user at the terminal says."""
    worlds, numbers = [world], [0]
    terminal.print(HELP, style="dim", soft_wrap=True)
    while True:
        world = worlds[-1]
        pending = world.pending
        terminal.print("\nnext:" if pending else "\nnothing is left to do", style="dim")
        for index, message in enumerate(pending[:PENDING_SHOWN_MAX], 1):
            terminal.print(Text.assemble((f"{f'[{index}]':>6}  ", "cyan"), _message(message)), soft_wrap=True)
        if len(pending) > PENDING_SHOWN_MAX:
            terminal.print(f"        and {len(pending) - PENDING_SHOWN_MAX:,} more", style="dim")
        branch = f"branch {len(worlds) - 1} " if len(worlds) > 1 else ""
        try:
            answer = click.prompt(f"{branch}>", default="", show_default=False, prompt_suffix=" ").strip()
        except click.Abort:
            return
        match answer:
            case "q":
                return
            case "b":
                worlds.append(world.branch())
                numbers.append(numbers[-1])
            case "u" if len(worlds) > 1:
                worlds.pop()
                numbers.pop()
            case "s":
                _show_states(terminal, world)
            case "":
                numbers[-1] += _do(terminal, world, None, numbers[-1])
            case number if (which := _index(number, len(pending))) is not None:
                numbers[-1] += _do(terminal, world, pending[which], numbers[-1])
            case _:
                terminal.print(HELP, style="dim", soft_wrap=True)


def _index(answer: str, count: int) -> int | None:
    """The index of the message that the answer names; None if the answer is not the number of a message."""
    if not answer.isdecimal() or len(answer) > NUMBER_LENGTH_MAX or not 1 <= int(answer) <= count:
        return None
    return int(answer) - 1


def _do(terminal: Console, world: SimulatedSystem, which: Pending | None, done: int) -> int:
    """Do one step and show it; returns how many steps were done. After a failure of the system the user can go on."""
    failure = ""
    try:
        step = world.step(which)
    except ActorDied as error:
        step, failure = error.evidence["step"], error.message
    if step is None:
        return 0
    terminal.print(_told(done + 1, step), soft_wrap=True)
    if failure:
        terminal.print(Text.assemble("        ", (words.printable(failure), "bold red")), soft_wrap=True)
    return 1


def _show_states(terminal: Console, world: SimulatedSystem) -> None:
    """Show the states of the first actors, one line each."""
    for name in [*world.actors][:ROWS_MAX]:
        view = {key: value for key, value in world.view(name).items() if value or not key.startswith("(")}
        terminal.print(
            Text.assemble("      ", (words.printable(name), "bold"), f"  {words.state(view)}"), soft_wrap=True
        )
    if len(world.actors) > ROWS_MAX:
        terminal.print(f"      and {len(world.actors) - ROWS_MAX:,} more", style="dim")


# As a document --------------------------------------------------------------------------------------------------


def _document(
    snapshot: Snapshot, seed: int, world: SimulatedSystem, steps: int
) -> tuple[dict[str, Any], ActorDied | None]:
    """The document with all steps, and the failure of the system that ended the last step, if there was one."""
    done: list[dict[str, Any]] = []
    death: ActorDied | None = None
    try:
        done.extend(_step_document(number, step) for number, step in enumerate(_walk(world, steps), 1))
    except ActorDied as error:
        death = error
    document = {
        "system": snapshot.system,
        "snapshot": str(snapshot.id),
        "seed": seed,
        "steps": done,
        "died": None if death is None else death.message,
        "pending": [_message_document(message) for message in world.pending],
        "states": {name: jsonable(world.view(name)) for name in world.actors},
    }
    return document, death


def _step_document(number: int, step: Step) -> dict[str, Any]:
    return {
        "step": number,
        **_message_document(step.handled),
        "changes": [change_document(change) for change in step.changes],
        "sent": [_message_document(sent) for sent in step.sent],
        "timers_set": list(step.timers_set),
        "awaits": list(step.awaits),
        "error": step.error or None,
        "ends": step.ends,
    }


def _message_document(message: Pending) -> dict[str, Any]:
    args, kwargs = shown_call(message.method, message.args, message.kwargs or {})
    document = {
        "sender": message.sender,
        "receiver": message.receiver,
        "number": message.number,
        "kind": message.kind,
        "method": message.method,
        "args": jsonable(args),
        "kwargs": jsonable(kwargs),
    }
    return document if message.due is None else {**document, "due_s": message.due}
