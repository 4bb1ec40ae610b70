"""Callbacks for answered calls and ready objects, without a thread that waits, as in Ray's own futures."""

from collections.abc import Callable
from typing import Any

import ray


def when_answered(reference: ray.ObjectRef, tell: Callable[[Any], None]) -> None:
    """Call `tell` on one of Ray's threads, with the value, or with the error that Ray has instead.

    `tell` must not wait for a lock whose holder calls Ray: this thread may have to answer that call.
    """
    reference._on_completed(tell)  # noqa: SLF001


def when_there(reference: ray.ObjectRef, tell: Callable[[Any], None]) -> None:
    """As `when_answered`, but fetches nothing: when the object is ready or failed, `tell` gets None or the error."""
    reference._on_ready(tell)  # noqa: SLF001
