"""All behaviours: importing a group adds them."""

from tests.ports import (
    arguments,
    asynchronous,
    calling,
    concurrency,
    context,
    creating,
    failing,
    handles,
    lives,
    naming,
    options,
    patterns,
    references,
)
from tests.ports.behaviour import BEHAVIOURS

GROUPS = (
    creating,
    calling,
    arguments,
    references,
    failing,
    asynchronous,
    lives,
    naming,
    options,
    concurrency,
    handles,
    patterns,
    context,
)

__all__ = ["BEHAVIOURS", "GROUPS"]
