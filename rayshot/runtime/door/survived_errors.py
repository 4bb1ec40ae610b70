"""Errors that a thread survives: it does something again and again, and one failure must not end it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("rayshot")


@contextmanager
def survived(text: str, *args: object, level: int = logging.ERROR) -> Iterator[None]:
    """Log any Exception that is raised inside, behind this text, and go on. A logged error has its traceback."""
    try:
        yield
    except Exception as error:
        log.log(level, "%s: %r", text % args, error, exc_info=error if level >= logging.ERROR else None)
