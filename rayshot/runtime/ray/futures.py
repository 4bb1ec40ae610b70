"""Being told when a call is answered or an object is there, without a thread that waits, as Ray's own futures do."""

from collections.abc import Callable
from typing import Any

import ray


def when_answered(reference: ray.ObjectRef, tell: Callable[[Any], None]) -> None:
    """Call `tell`, on a thread of Ray's, with the value, or with the error that Ray has in its place.

    It must not wait for a lock whose holder calls Ray: this thread may have to answer that call.
    """
    reference._on_completed(tell)  # noqa: SLF001


def when_there(reference: ray.ObjectRef, tell: Callable[[Any], None]) -> None:
    """As `when_answered`, when the object is ready or has failed. Fetches nothing: `tell` gets the error or None."""
    reference._on_ready(tell)  # noqa: SLF001
