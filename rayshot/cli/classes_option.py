"""`--rename-class` and `--skip-missing-classes`: the options of all commands that load what a restore loads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import click

from rayshot.errors import CodeMismatch


class Classes(NamedTuple):
    """Where classes went, and whether to leave out the actors whose classes are gone."""

    moved: Mapping[str, str]
    skip_missing: bool


def classes_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command both options, as its argument `classes`."""

    @wraps(command)
    def with_classes(*args: Any, moved: Sequence[str], skip_missing_classes: bool, **others: Any) -> Any:
        return command(*args, classes=Classes(_renamed(moved), skip_missing_classes), **others)

    rename = click.option(
        "--rename-class",
        "moved",
        metavar="OLD=NEW",
        multiple=True,
        help="A class that moved: old.module.Class=new.module.Class; several times if you like.",
    )
    skip = click.option(
        "--skip-missing-classes", is_flag=True, help="Leave out actors whose class is gone, as a restore can."
    )
    return rename(skip(with_classes))


@contextmanager
def finding_classes() -> Iterator[None]:
    """Inside, the error for actors whose classes are gone says what to do at a command line."""
    try:
        yield
    except CodeMismatch as error:
        lost = error.evidence.get("classes")
        if not lost:
            raise
        raise CodeMismatch(
            f"the actors' code cannot be found: no {', '.join(lost)} here. Run this in the folder in which the "
            "application runs, say with PYTHONPATH where its modules are, with --rename-class where a class "
            "went, or with --skip-missing-classes that its actors are left out",
            **error.evidence,
        ) from error


def _renamed(moved: Sequence[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in moved]
    for old, _, new in pairs:
        if not old or not new:
            raise click.UsageError("--rename-class takes old.module.Class=new.module.Class")
    return {old: new for old, _, new in pairs}
