"""The properties for `rayshot detect`: ready-made ones by their names, and the user's own."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from rayshot.errors import ConfigError
from rayshot.format.suggestion import did_you_mean
from rayshot.properties import (
    Property,
    conserved_sum,
    counter_reached,
    deadlock,
    lost_reply,
    quantity,
    termination,
    token_census,
    unreferenced,
)


class _ReadyMade(NamedTuple):
    """How to make a property from texts. `takes` are names of arguments; optional ones end with a `?`."""

    takes: tuple[str, ...]
    make: Callable[[Mapping[str, str], Sequence[str]], Property]


READY_MADE: Mapping[str, _ReadyMade] = MappingProxyType(
    {
        "termination": _ReadyMade(("source?",), lambda _, several: termination(_pairs(several))),
        "lost-reply": _ReadyMade((), lambda _, __: lost_reply()),
        "deadlock": _ReadyMade(
            ("waits_for", "needs?"),
            lambda given, _: deadlock(given["waits_for"], needs=_needs(given.get("needs", "all"))),
        ),
        "token-census": _ReadyMade(
            ("holds", "carries?", "expected?", "at_least?"),
            lambda given, _: token_census(
                given["holds"],
                given.get("carries"),
                expected=int(_number(given.get("at_least", given.get("expected", "1")))),
                or_more="at_least" in given,
            ),
        ),
        "conserved-sum": _ReadyMade(
            ("attribute", "method?", "total", "tolerance?"),
            lambda given, _: conserved_sum(
                quantity(given["attribute"], given.get("method")),
                _number(given["total"]),
                tolerance=_number(given.get("tolerance", "0")),
            ),
        ),
        "counter-reached": _ReadyMade(
            ("actor", "attribute", "least"),
            lambda given, _: counter_reached(given["actor"], given["attribute"], _number(given["least"])),
        ),
        "unreferenced": _ReadyMade(
            ("actor", "root?"), lambda given, several: unreferenced(given["actor"], roots=several)
        ),
    }
)
"""Ready-made properties, by their names on the command line."""

_SEVERAL = frozenset({"source", "root"})


def find_property(name: str, given: Sequence[str]) -> Property:
    """The property of that name, or the user's own as `module:name`; `given` are texts of the form NAME=VALUE.

    Raises ConfigError, which lists the existing properties, or the arguments that the property takes.
    """
    arguments = [(key, value) for key, _, value in (text.partition("=") for text in given)]
    if ":" in name:
        if arguments:
            raise ConfigError(f"{name} is a property of your own and takes no --with")
        return _own(*name.split(":", 1))
    made = READY_MADE.get(name)
    if made is None:
        there = f"{', '.join(READY_MADE)}, and module:name for your own{did_you_mean(name, READY_MADE)}"
        raise ConfigError(f"no property {name!r}: there is {there}")
    single = {key: value for key, value in arguments if key not in _SEVERAL}
    several = [value for key, value in arguments if key in _SEVERAL]
    known = {key.removesuffix("?") for key in made.takes}
    missing = [key for key in made.takes if not key.endswith("?") and key not in single]
    unknown = [key for key, value in arguments if key not in known or not value]
    if missing or unknown:
        wrong = f"needs {', '.join(missing)}" if missing else f"does not take {', '.join(unknown)}"
        takes = ", ".join(f"--with {key.removesuffix('?')}=..." for key in made.takes) or "nothing"
        raise ConfigError(f"{name} {wrong}; it takes {takes}", exists=sorted(known))
    return made.make(single, several)


def _own(module: str, name: str) -> Property:
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as text, as in sys.path
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError, SystemExit) as error:  # its code may leave the program
        raise ConfigError(f"{module}:{name} cannot be found here: {type(error).__name__}: {error}") from error
    return found  # type: ignore[no-any-return]  # `detect` refuses an object that is not a property


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.rpartition(":") for text in texts]
    if not all(actor and attribute for actor, _, attribute in pairs):
        raise ConfigError("--with source=ACTOR:ATTRIBUTE names an actor, and what of it is true at its end")
    return {actor: attribute for actor, _, attribute in pairs}


def _number(text: str) -> float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ConfigError(f"{text!r} is not a number")


def _needs(text: str) -> Any:
    if text not in {"all", "any"}:
        raise ConfigError(f"needs is all or any, not {text!r}")
    return text
