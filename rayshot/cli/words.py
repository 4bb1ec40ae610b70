"""The contents of a snapshot as words for a terminal; `format.wording` gives values and calls."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from rayshot.format.figures import BEHIND, FINAL
from rayshot.format.redaction import shown
from rayshot.format.wording import TEXT_LENGTH_MAX, call, message, printable, value

__all__ = [
    "call",
    "duration",
    "figure",
    "local_time",
    "message",
    "plural",
    "printable",
    "proofs",
    "size",
    "state",
    "value",
]
UNIT = 1024
ATTRIBUTES_SHOWN_MAX = 12


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
