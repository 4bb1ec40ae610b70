"""`--json`: the option of all commands that print a document; with it a refusal is a document too."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

_ASKED_FOR = "rayshot.cli.json"


def _note(context: click.Context, _: click.Parameter, asked_for: bool) -> bool:  # noqa: FBT001 - click's own call
    context.meta[_ASKED_FOR] = asked_for
    return asked_for


def json_option(about: str = "Print one JSON document.") -> Callable[[Any], Any]:
    """The option, with its help text. It is read before all other options, because one of those may be refused."""
    return click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_note, help=about)


def is_json_asked_for() -> bool:
    """Whether the user gave `--json` to the running command."""
    return bool(click.get_current_context().meta.get(_ASKED_FOR))


def dump(document: Mapping[str, Any]) -> str:
    """One JSON document as text, in ASCII, so that it works on every terminal and in every locale."""
    return json.dumps(document, indent=2, allow_nan=False)
