"""Values as words for a terminal. What comes out of a snapshot may be hostile: no control character gets through."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from rayshot.format.codec import RecordedMessage
from rayshot.format.inert import short_repr
from rayshot.format.redaction import shown, shown_call

UNIT = 1024
TEXT_LENGTH_MAX = 400
ATTRIBUTES_SHOWN_MAX = 12


def printable(text: str) -> str:
    """`text` with everything that could move a cursor or change a colour written as an escape."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode() for char in text
    )


def size(count: int) -> str:
    """Bytes for people: 812 B, 1.4 KiB, 23 MiB."""
    value, units = float(count), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    for larger in units:
        if value < UNIT:
            break
        value, unit = value / UNIT, larger
    shown = f"{value:.0f}" if unit == "B" or value >= 99.95 else f"{value:.1f}"  # noqa: PLR2004 - three digits are enough
    return f"{shown} {unit}"


def plural(count: int, noun: str) -> str:
    """`1 actor`, `2 actors`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def local_time(moment: datetime, *, with_year: bool = True) -> str:
    """A moment on the clock of whoever reads."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S" if with_year else "%m-%d %H:%M:%S")


def value(anything: Any) -> str:
    """Any value of a snapshot, short."""
    return printable(short_repr(anything))[:TEXT_LENGTH_MAX]


def state(anything: Any) -> str:
    """A state as `name=value, ...`; one that is no dict of attributes as a value."""
    if not isinstance(anything, dict) or not all(isinstance(name, str) for name in anything):
        return value(anything)
    parts = [
        f"{printable(name)}={value(shown(name, item))}" for name, item in islice(anything.items(), ATTRIBUTES_SHOWN_MAX)
    ]
    if len(anything) > ATTRIBUTES_SHOWN_MAX:
        parts.append("...")
    return ", ".join(parts)[:TEXT_LENGTH_MAX] or "(empty)"


def message(recorded: RecordedMessage) -> str:
    """A recorded message as the call that it is."""
    return call(recorded.method, recorded.kind, recorded.args, recorded.kwargs)


def call(method: str, kind: str, args: Sequence[Any], kwargs: Mapping[Any, Any]) -> str:
    """A message as the call that it is: `deposit(30)`; one without a method has the name of its kind."""
    args, kwargs = shown_call(method, args, kwargs)
    named = (f"{_keyword(name)}={value(item)}" for name, item in kwargs.items())
    return f"{printable(method or kind)}({', '.join([*map(value, args), *named])})"[:TEXT_LENGTH_MAX]


def _keyword(name: Any) -> str:
    """The name of an argument, which is a text unless somebody forged it."""
    return printable(name) if isinstance(name, str) else value(name)
