"""References to objects. The runtime defines them; the format does not know Ray."""

from collections.abc import Callable
from typing import Any


class References:
    """The runtime's definition. Without it, nothing is a reference."""

    kind: type | None = None
    get: Callable[[Any], Any]
    put: Callable[[Any], Any]


references = References()


def provide_references(kind: type, get: Callable[[Any], Any], put: Callable[[Any], Any]) -> None:
    """Define references: `get(reference)` waits for its value, `put(value)` makes a new one."""
    references.kind, references.get, references.put = kind, get, put
