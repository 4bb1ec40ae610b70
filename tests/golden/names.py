"""What a version promises to keep by name, a line each: docs/versioning.md says which names these are."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click

import rayshot
from rayshot import errors
from rayshot.analysis.views import VIEWS
from rayshot.cli import exits, main
from rayshot.runtime.coordinator.metrics import METRICS
from tests.processes import ROOT

PROGRAMS_CONSTRUCT = {"SnapshotConfig", "FailureConfig", "Queue", "Lock", "Semaphore", "Event"}
"""Of the other classes programs get objects, and what their constructors take is not promised."""

RETURNED = {
    "rayshot.gather()": "rayshot.model.reply.SeveralReplies",
    "rayshot.open()": "rayshot.snapshots.catalog.Storage",
    "rayshot.open().system()": "rayshot.snapshots.catalog.SystemView",
    "rayshot.Snapshot.actors[]": "rayshot.snapshots.state.ActorInfo",
    "rayshot.Snapshot.channel()": "rayshot.snapshots.channel_state.ChannelState",
    "rayshot.Snapshot.diff()": "rayshot.snapshots.diff.SnapshotDiff",
    "rayshot.Snapshot.outside[]": "rayshot.snapshots.outside.OutsideInfo",
    "rayshot.Snapshot.outside[].files[]": "rayshot.format.entries.OutsideFile",
    "rayshot.Snapshot.recorded()": "rayshot.snapshots.state.RecordedState",
    "rayshot.Snapshot.verify()": "rayshot.snapshots.verification.Verification",
    "rayshot.Snapshot.verify().checks[]": "rayshot.snapshots.verification.Check",
    "rayshot.System.dead_letters()[]": "rayshot.model.dead_letter.DeadLetter",
    "rayshot.System.on_changed_answer()": "rayshot.runtime.wire.changed_answer.ChangedAnswer",
    "rayshot.System.on_recovery()": "rayshot.runtime.wire.recovery_report.RecoveryReport",
    "rayshot.System.status()": "rayshot.runtime.opening.status.SystemStatus",
    "rayshot.System.status().actors[]": "rayshot.runtime.opening.status.ActorStatus",
    "rayshot.System.status().snapshots[]": "rayshot.runtime.opening.status.SnapshotStatus",
    "rayshot.System.status().waiting[]": "rayshot.runtime.opening.status.WaitingMessage",
}
"""What the reference does not show by itself, but programs get, or their callbacks do."""
FIELDS = {"entry"}
"""Of what is returned these are internal, and fields have no docstring that says so."""


def of_today() -> set[str]:
    """All of them, as of the sources that are imported."""
    return {*_api(), *_errors(), *_commands("rayshot", main), *_exit_codes(), *_views(), *_metrics()}


def _api() -> Iterator[str]:
    """What the pages of the reference show, with parameters and public attributes."""
    pages = "".join(page.read_text() for page in sorted((ROOT / "docs").glob("reference*.md")))
    shown = re.findall(r"(?m)^::: ([\w.]+)(?:\n    options:\n      heading: (.+))?$", pages)
    homes = {f"rayshot.{name}": f"rayshot.{name}" for name in rayshot.__all__}
    for heading, home in (homes | {heading or home: home for home, heading in shown} | RETURNED).items():
        module, _, attribute = home.rpartition(".")
        yield from _of(heading, getattr(import_module(module), attribute))


def _of(name: str, found: Any) -> Iterator[str]:
    yield name
    if not inspect.isclass(found):
        yield from _parameters(name, found)
        return
    if found.__name__ in PROGRAMS_CONSTRUCT:
        yield from _parameters(name, found)
    ours = [base for base in found.__mro__ if base.__module__.partition(".")[0] in {"rayshot", "pyspark_rayshot"}]
    for attribute in {name for base in ours for name in (*vars(base), *inspect.get_annotations(base))}:
        text = inspect.getdoc(inspect.getattr_static(found, attribute, None)) or ""
        if not attribute.startswith("_") and attribute not in FIELDS and not text.startswith("Internal: "):
            yield f"{name}.{attribute}"
            yield from _parameters(f"{name}.{attribute}", getattr(found, attribute, None))


def _parameters(name: str, function: Any) -> Iterator[str]:
    """Those that may be given; an object that cannot be called has none."""
    if callable(function) and hasattr(function, "__name__"):
        parameters = inspect.signature(function).parameters
        yield from (f"{name}({one})" for one in parameters if one not in {"self", "cls"} and one[0] != "_")


def _errors() -> Iterator[str]:
    """Each with what it is a kind of."""
    for name, found in vars(errors).items():
        if inspect.isclass(found) and issubclass(found, errors.RayshotError):
            bases = [base for base in found.__mro__[1:] if issubclass(base, errors.RayshotError)]
            yield from (f"error {name}, kind {found.kind}", *(f"error {name} is a {base.__name__}" for base in bases))


def _commands(name: str, command: click.Command) -> Iterator[str]:
    yield name
    for parameter in command.params:
        spelled = parameter.opts if isinstance(parameter, click.Option) else [f"{parameter.name} as an argument"]
        yield from (f"{name} {one}" for one in (*spelled, *parameter.secondary_opts))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            assert found is not None
            yield from _commands(f"{name} {one}", found)


def _exit_codes() -> Iterator[str]:
    yield from (
        f"exit code {code}: {name}" for name, code in vars(exits).items() if name.isupper() and code in range(256)
    )


def _views() -> Iterator[str]:
    yield from (f"view {name}, column {column.name}" for name, view in VIEWS.items() for column in view.columns)


def _metrics() -> Iterator[str]:
    for metric in METRICS:
        yield from (
            f"metric {metric.name}, a {metric.kind}",
            *(f"metric {metric.name} by {one}" for one in metric.labels),
        )
