"""Values and calls in a few words. Bytes of a snapshot may be hostile, so control characters are escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

from rayshot.format.codec import RecordedMessage
from rayshot.format.inert import short_repr
from rayshot.format.redaction import shown_call

TEXT_LENGTH_MAX = 400


def printable(text: str) -> str:
    """`text` with escapes for all characters that could move a cursor or change a colour."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode() for char in text
    )


def value(anything: Any) -> str:
    """Any value of a snapshot, short."""
    return printable(short_repr(anything))[:TEXT_LENGTH_MAX]


def message(recorded: RecordedMessage) -> str:
    """A recorded message as a call: `deposit(30)`."""
    return call(recorded.method, recorded.kind, recorded.args, recorded.kwargs)


def call(method: str, kind: str, args: Sequence[Any], kwargs: Mapping[Any, Any]) -> str:
    """A message as a call: `deposit(30)`. A message without a method shows its kind."""
    args, kwargs = shown_call(method, args, kwargs)
    named = (f"{_keyword(name)}={value(item)}" for name, item in kwargs.items())
    return f"{printable(method or kind)}({', '.join([*map(value, args), *named])})"[:TEXT_LENGTH_MAX]


def _keyword(name: Any) -> str:
    """The name of an argument. It is a string, except in a forged message."""
    return printable(name) if isinstance(name, str) else value(name)
