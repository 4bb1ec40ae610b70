"""`--show-secrets` and `--show-secret`: the options of all commands that show values."""

from collections.abc import Callable
from typing import Any

import click

from rayshot.documents.words import printable
from rayshot.inert.redaction import Showing, check_hidden, show_secrets


def secrets_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command both options; what they allow holds while the command runs."""
    everything = click.option(
        "--show-secrets",
        is_flag=True,
        expose_value=False,
        callback=_show_all,
        help="Show values named like a password, token or key; without this they are <redacted>.",
    )
    some = click.option(
        "--show-secret",
        metavar="NAME",
        multiple=True,
        expose_value=False,
        is_eager=True,  # `--show-secrets` comes later if both are given, and then wins
        callback=_show_some,
        help="Show values with this name of an attribute, key, argument or method; several times if you like.",
    )
    return some(everything(command))


def _show_all(context: click.Context, _: click.Parameter, shown: bool) -> None:  # noqa: FBT001 - click's own call
    if shown:
        context.with_resource(show_secrets())


def _show_some(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
    if names:
        check_hidden(names)
        showing = context.with_resource(show_secrets(names))
        context.call_on_close(lambda: _tell_unused(showing))


def _tell_unused(showing: Showing) -> None:
    """Warn about names that hid nothing: they may be misspelled, or belong to values that were left out."""
    for name in showing.unused:
        click.echo(f"warning: --show-secret {printable(name)}: nothing here would have been hidden by it", err=True)
