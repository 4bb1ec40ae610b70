"""Proof by the interpreter itself that a reader imports, opens, runs and calls nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

FORBIDDEN = (
    "builtins.breakpoint",
    "builtins.input",
    "code.",
    "compile",
    "ctypes.",
    "exec",
    "import",
    "marshal.",
    "mmap.",
    "open",
    "os.",
    "pickle.",
    "shutil.",
    "signal.",
    "socket.",
    "subprocess.",
    "sys.",
    "tempfile.",
)
"""How audit events begin that no reader may cause."""


class _Watch:
    """Audit hooks cannot be removed, so there is one, which looks away while nothing is watched."""

    installed = False
    watching = False
    seen: list[str]


_watch = _Watch()


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _watch.watching and event.startswith(FORBIDDEN):
        _watch.watching = False  # what is done to tell of it is not to be told
        _watch.seen.append(f"{event} {arguments!r:.200}")
        _watch.watching = True


@contextmanager
def nothing_is_done() -> Iterator[None]:
    """Fail if anything is imported, opened, run or unpickled inside. For one thread."""
    if not _watch.installed:
        sys.addaudithook(_hear)
        _watch.installed = True
    _watch.seen = []
    modules = len(sys.modules)
    _watch.watching = True
    try:
        yield
    finally:
        _watch.watching = False
    assert len(sys.modules) == modules, "reading imported something"
    assert not _watch.seen, f"reading did what reading must not do: {_watch.seen}"
