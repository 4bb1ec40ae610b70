"""A line on the terminal while a long step runs: how far it is, and which actors it waits for."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

QUIET_S = 0.5
"""Steps that take fewer seconds than this show nothing."""
WIDTH = 110


class ProgressLine:
    """One line on stderr that is overwritten, and removed at the end. Shows nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._shown = False
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    @property
    def wanted(self) -> bool:
        """Whether stderr is a terminal, so that a person may read the line."""
        return self._terminal

    def show(self, text: str) -> None:
        """Write `text` over the old text."""
        if self._terminal:
            self._shown = True
            line = "".join(char if char.isprintable() else "?" for char in text[:WIDTH])  # the text has names of actors
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()


def describe(status: dict[str, Any]) -> str:
    """The snapshots under way in `Coordinator.status`, in one line."""
    parts = []
    for snapshot, report in status["snapshots"].items():
        actors = len(status["actors"])
        if report["recorded"]:
            parts.append(f"snapshot {snapshot}: recorded, writing ({report['seconds']:.1f} s)")
            continue
        waiting = [_why(name, report["handlers"].get(name)) for name in report["missing"][:3]]
        more = len(report["missing"]) - len(waiting)
        text = f"snapshot {snapshot}: {actors - len(report['missing'])}/{actors} recorded"
        if waiting:
            text += f", waiting for {', '.join(waiting)}{f' and {more} more' if more else ''}"
        elif report["open_channels"]:
            text += f", {len(report['open_channels'])} channels open"
        parts.append(f"{text} ({report['seconds']:.1f} s)")
    return "; ".join(parts)


def _why(name: str, progress: tuple[Any, ...] | None) -> str:
    if progress is None:
        return f"{name} (no answer)"
    _, handler, seconds = progress
    return f"{name} (in {handler} for {seconds:.1f} s or more)" if handler else name


def wait_with_progress(poll: Callable[[float], bool], describe_now: Callable[[], str]) -> None:
    """Call `poll(timeout_s)` until it is true. After QUIET_S seconds, show `describe_now()` on the terminal."""
    began = time.monotonic()
    with ProgressLine() as line:
        while not poll(QUIET_S if line.wanted else 60.0):
            if line.wanted and time.monotonic() - began >= QUIET_S:
                line.show(describe_now())
