"""What a reference to an object is, as the runtime says it: the format knows of none."""

from collections.abc import Callable
from typing import Any


class References:
    """What the runtime provided; without it nothing is a reference."""

    kind: type | None = None
    get: Callable[[Any], Any]
    put: Callable[[Any], Any]


references = References()


def provide_references(kind: type, get: Callable[[Any], Any], put: Callable[[Any], Any]) -> None:
    """Say what a reference is; `get(reference)` waits for its value, `put(value)` makes a new one."""
    references.kind, references.get, references.put = kind, get, put
