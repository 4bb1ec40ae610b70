"""The one shape of the calls that begin a system, go on with it, go back, and find it.

The name comes first, and the storage by its word. `snapshot` is a snapshot, `snapshots` says when they are taken. A
call that has it otherwise, as calls of earlier versions had, is refused with the line to write instead.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from rayshot.errors import ConfigError
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.protocol.identity import SnapshotId

P = ParamSpec("P")
R = TypeVar("R")
_ORDER = ("storage", "address", "begin", "snapshot", "snapshots")
"""Words that come first in a line, in this order."""
_SNAPSHOTS = {"snapshot", "snapshots"}
_SNAPSHOT = re.compile(r"\d+-.+-\d+")


def in_one_shape(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse calls of another shape with a ConfigError that has the line to write."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        verb = function.__name__
        meant = _meant(verb, list(args), dict(kwargs))
        if meant != (list(args), dict(kwargs)):
            assert _meant(verb, *meant) == meant, "the line to write would be refused too"
            words = "`snapshot` is one to go back to, `snapshots` says when they are taken. "
            raise ConfigError(
                f"rayshot.{verb} takes the name of the system first, and all else by its word. "
                f"{words if meant[1].keys() & _SNAPSHOTS else ''}Write {_line(verb, *meant)}"
            )
        return function(*args, **kwargs)

    return call


def _meant(verb: str, args: list[Any], given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the call that the user means; equal to his own if their shape is right."""
    given = dict(given)
    if isinstance(given.get("snapshot"), SnapshotConfig):
        given["snapshots"] = given.pop("snapshot")
    if verb == "restore":
        args = _meant_to_restore(args, given)
    elif verb == "attach":
        given.pop("storage", None)  # a system that runs knows its own
    return (_placed(verb, args, given) if len(args) > 1 else args), given


def _meant_to_restore(args: list[Any], given: dict[str, Any]) -> list[Any]:
    if "config" in given:
        given["snapshots"] = given.pop("config")
    if isinstance(given.get("snapshots"), str | SnapshotId):
        given["snapshot"] = given.pop("snapshots")
    if "system" in given:
        name = given.pop("system")
        given.setdefault("storage", args[0] if args else ...)
        return [*([] if name is None else [name]), *args[1:]]
    if len(args) == 1 and "storage" not in given:
        is_name = isinstance(args[0], str) and "/" not in args[0] and not os.path.isdir(args[0])  # noqa: PTH112
        given["storage"] = ... if is_name else args[0]
        return args if is_name else []
    return args


def _placed(verb: str, args: list[Any], given: dict[str, Any]) -> list[Any]:
    """The name among these; the others get their words. All of them, if nobody can know what they are."""
    name = next((one for one in args if _word(verb, one) == "name"), None)
    rest = [one for one in args if one is not name and one is not None]
    words = {_word(verb, one, is_name=False): one for one in rest}
    if len(words) < len(rest) or words.keys() & given.keys():
        return args
    given.update(words)
    if verb == "attach":
        given.pop("storage", None)
    else:
        given.setdefault("storage", ...)
    if name is None:
        return [] if verb in {"attach", "restore"} else [...]
    return [name]


def _word(verb: str, value: Any, *, is_name: bool = True) -> str:
    """The word of this argument, which was given without one. `is_name`: it may be the name."""
    if isinstance(value, SnapshotConfig):
        return "snapshots"
    if isinstance(value, FailureConfig):
        return "failure"
    if verb == "restore" and (isinstance(value, SnapshotId) or _SNAPSHOT.fullmatch(str(value))):
        return "snapshot"
    if callable(value):
        return "begin"
    is_path = isinstance(value, os.PathLike) or "/" in str(value)
    if is_name and isinstance(value, str) and not is_path and ":" not in value:
        return "name"
    return "address" if verb == "attach" and not is_path else "storage"


def _line(verb: str, args: list[Any], given: Mapping[str, Any]) -> str:
    words = [*(word for word in _ORDER if word in given), *(word for word in given if word not in _ORDER)]
    return f"rayshot.{verb}({', '.join([*map(_shown, args), *(f'{word}={_shown(given[word])}' for word in words)])})"


def _shown(value: Any) -> str:
    """A value as a program writes it."""
    if value is ...:
        return "..."
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, SnapshotId):
        return repr(str(value))
    if isinstance(value, SnapshotConfig | FailureConfig):
        chosen = [one.name for one in fields(value) if getattr(value, one.name) != one.default]
        return f"rayshot.{type(value).__name__}({', '.join(f'{name}={getattr(value, name)!r}' for name in chosen)})"
    return str(getattr(value, "__name__", None) or repr(value))
