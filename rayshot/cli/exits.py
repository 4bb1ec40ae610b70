"""Exit codes, and errors as one line on stderr: what scripts that call `rayshot` rely on."""

from typing import Any, Never

import click

from rayshot.cli.words import printable
from rayshot.errors import (
    Damaged,
    Incompatible,
    NotFound,
    RayshotError,
    StoreError,
    SystemNotFound,
    Untrusted,
    UsageError,
)

FINE = 0
DIFFERENT = 1
UNSOUND = 1
USAGE = 2
NO_SYSTEM = 10
NO_SNAPSHOT = 11
NOT_TRUSTED = 12
STORE_FAILED = 13
INCOMPATIBLE = 14

EPILOG = """Exit codes: 0 fine (diff: no difference); 1 damaged or inconsistent (diff: there are differences); 2 wrong
use; 10 no such storage or system; 11 no such snapshot; 12 nobody trusted vouches for it; 13 the storage failed; 14 made
by a newer rayshot, or by a program whose classes are not here."""

_CODES: tuple[tuple[type[RayshotError], int], ...] = (
    (SystemNotFound, NO_SYSTEM),
    (NotFound, NO_SNAPSHOT),
    (UsageError, USAGE),
    (Untrusted, NOT_TRUSTED),
    (StoreError, STORE_FAILED),
    (Incompatible, INCOMPATIBLE),
    (Damaged, UNSOUND),
)


def exit_code(error: RayshotError) -> int:
    """The exit code that belongs to `error`."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), UNSOUND)


def fail(error: RayshotError) -> Never:
    """Print `error` as one line on stderr and leave with its code."""
    click.echo(f"error: {error.kind}: {printable(error.message)}", err=True)
    raise click.exceptions.Exit(exit_code(error)) from error


class Group(click.Group):
    """A group whose commands end with one line where rayshot refuses, never with a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except RayshotError as error:
            fail(error)
