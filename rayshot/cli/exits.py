"""Exit codes, and errors as one line on stderr; scripts that call `rayshot` rely on both."""

import json
import os
import sys
import traceback
from contextlib import suppress
from typing import Any, Never

import click

from rayshot.cli.json_option import is_json_asked_for
from rayshot.documents.words import printable
from rayshot.errors import (
    ClusterUnreachable,
    ConfigError,
    Damaged,
    Incompatible,
    Interrupted,
    NoAnswer,
    NotFound,
    NotReady,
    RayshotError,
    SnapshotAborted,
    StoreError,
    SystemDown,
    SystemNotFound,
    Untrusted,
    UsageError,
)

FINE = 0
DIFFERENT = 1
NOT_SO = 1
UNSOUND = 1
USAGE = 2
NO_SYSTEM = 10
NO_SNAPSHOT = 11
NOT_TRUSTED = 12
STORE_FAILED = 13
INCOMPATIBLE = 14
MACHINE_FAILED = 15
RAYSHOT_FAILED = 16
DIFF_DAMAGED = 17
NOT_TRIED = 18
NO_CLUSTER = 20
ABORTED = 21
NOT_RUNNING = 22
TIMED_OUT = 23
INTERRUPTED = 130

SHOWN_BY = "rayshot help"
"""A message that names this names a page of its own."""

EPILOG = """Exit codes: 0 fine (diff: no difference; detect: it holds); 1 damaged or inconsistent (diff: there are
differences; detect: it does not hold, or is unknown; drill: something does not come back); 2 wrong use; 10 no such
storage or system; 11 no such snapshot; 12 not signed by a trusted key; 13 the storage failed; 14 made by a newer
rayshot, or by a program whose classes are not here; 15 the machine failed, for example a full disk for the output; 16
rayshot itself failed, which is a bug; 17 diff, detect: damaged or inconsistent; 18 drill: something could not be tried
to the end; 20 no cluster, or it refuses; 21 the snapshot was aborted; 22 the system is stopped, or not yet back; 23
timed out; 130 Ctrl-C. An error is one line on stderr; with --json stdout has {"error": {"kind": ..., "message": ...}}
too, in the place of the document."""


_CODES: tuple[tuple[type[RayshotError], int], ...] = (
    (SystemNotFound, NO_SYSTEM),
    (NotFound, NO_SNAPSHOT),
    (UsageError, USAGE),
    (Untrusted, NOT_TRUSTED),
    (StoreError, STORE_FAILED),
    (Incompatible, INCOMPATIBLE),
    (Damaged, UNSOUND),
    (ClusterUnreachable, NO_CLUSTER),
    (SnapshotAborted, ABORTED),
    (SystemDown, NOT_RUNNING),
    (NotReady, NOT_RUNNING),
    (NoAnswer, TIMED_OUT),
    (Interrupted, INTERRUPTED),
)


def exit_code(error: RayshotError) -> int:
    """The exit code that belongs to `error`."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), UNSOUND)


def fail(error: RayshotError, code: int | None = None) -> Never:
    """As `leave`; with `--json` it also prints the error as the command's document, on one line as `trace` does."""
    if is_json_asked_for():
        click.echo(json.dumps(error.document))
    leave(error, code)


def leave(error: RayshotError, code: int | None = None) -> Never:
    """Print `error` as one line on stderr, and leave with `code`, or with the error's own code if none is given."""
    says_it_all = type(error) in {UsageError, ConfigError} or f"{SHOWN_BY} " in error.message
    page = "" if says_it_all else f" ({SHOWN_BY} {error.page})"
    click.echo(f"error: {error.kind}: {printable(error.message)}{page}", err=True)
    raise click.exceptions.Exit(exit_code(error) if code is None else code) from error


class CommandGroup(click.Group):
    """A group of commands. If rayshot or the machine fails, one line says so, and the exit code is not a verdict's.

    Only a bug of rayshot shows a traceback.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, on a terminal or a file that may know fewer characters than we print."""
        if callable(reconfigure := getattr(sys.stdout, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            _abandon_stdout()
            _complain(f"error: os_error: {error}; what was printed may not be whole")
            sys.exit(MACHINE_FAILED)
        except Exception:  # noqa: BLE001 - the interpreter's own exit code is 1, which has another meaning here
            _abandon_stdout()
            _complain(*traceback.format_exc().splitlines())
            sys.exit(RAYSHOT_FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except RayshotError as error:
            fail(error)
        except click.UsageError as error:  # click shows it, and the correct usage
            if is_json_asked_for():
                click.echo(json.dumps(UsageError(error.format_message()).document))
            raise
        except KeyboardInterrupt:  # click's own exit code is 1, which has another meaning here
            fail(Interrupted("the command waits no longer; the system may still do what it was asked for"))
        except BrokenPipeError as error:  # the reader has seen enough, and wants no line about it
            _abandon_stdout()
            raise click.exceptions.Exit(MACHINE_FAILED) from error


def _complain(*lines: str) -> None:
    """Print on stderr, if that is possible."""
    with suppress(OSError):
        click.echo("\n".join(map(printable, lines)), err=True)


def _abandon_stdout() -> None:
    """Drop output that is not yet printed: else the interpreter would try again at its end, and use its own code."""
    with suppress(OSError, AttributeError):  # it may be closed, or not a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)
