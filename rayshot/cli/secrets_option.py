"""`--show-secrets`: the option of all commands that show values."""

import click

from rayshot.format.redaction import show_secrets


def _show(context: click.Context, _: click.Parameter, shown: bool) -> None:  # noqa: FBT001 - click's own call
    context.with_resource(show_secrets(shown=shown))


secrets_option = click.option(
    "--show-secrets",
    is_flag=True,
    expose_value=False,
    callback=_show,
    help="Show what is named like a password, token or key, too; else it is <redacted>.",
)
