"""The contents of a snapshot in words. Bytes of a snapshot may be hostile, so control characters are escaped."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from rayshot.format.codec import RecordedMessage
from rayshot.format.manifest import BEHIND, FINAL
from rayshot.inert.inert_object import short_repr
from rayshot.inert.redaction import shown, shown_call

TEXT_LENGTH_MAX = 400
UNIT = 1024
ATTRIBUTES_SHOWN_MAX = 12


def printable(text: str) -> str:
    """`text` with escapes for all characters that could move a cursor or change a colour."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode() for char in text
    )


def value(anything: Any) -> str:
    """Any value of a snapshot, short."""
    return printable(short_repr(anything))[:TEXT_LENGTH_MAX]


def state(anything: Any) -> str:
    """A state as `name=value, ...`; a state that is not a dict of attributes as a single value."""
    if not isinstance(anything, dict) or not all(isinstance(name, str) for name in anything):
        return value(anything)
    parts = [
        f"{printable(name)}={value(shown(name, item))}" for name, item in islice(anything.items(), ATTRIBUTES_SHOWN_MAX)
    ]
    if len(anything) > ATTRIBUTES_SHOWN_MAX:
        parts.append("...")
    return ", ".join(parts)[:TEXT_LENGTH_MAX] or "(empty)"


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


def duration(seconds: float) -> str:
    """A duration for people: 0.68 ms, 81 ms, 1.23 s, 12 s, 3 min."""
    if seconds < 1:
        return f"{seconds * 1000:.2g} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"  # noqa: PLR2004 - digits
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"  # noqa: PLR2004


def figure(name: str, number: float) -> str:
    """A number with the unit at the end of its name: `stored_s` 0.0179 is `stored 18 ms`."""
    what, _, unit = name.rpartition("_")
    if name in (BEHIND, FINAL):  # its number has no meaning
        return name
    known = {"s": lambda: duration(number), "ms": lambda: duration(number / 1000), "bytes": lambda: size(round(number))}
    if not what or unit not in known:
        what, known, unit = name, {"": lambda: f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"}, ""
    return f"{printable(what.replace('_', ' ').strip())} {known[unit]()}"


def plural(count: int, noun: str) -> str:
    """`1 actor`, `2 actors`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def proofs(counts: Mapping[str, int]) -> str:
    """How many states are proved, and how: `3 proved, 1 unproved`."""
    return ", ".join(f"{count:,} {word}" for word, count in counts.items())


def local_time(moment: datetime, *, with_year: bool = True) -> str:
    """A moment on the reader's clock."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S" if with_year else "%m-%d %H:%M:%S")
