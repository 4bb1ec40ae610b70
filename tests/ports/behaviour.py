"""What a behaviour of Ray actors is, and the list of all: one body, run once as plain Ray and once as rayshot.

A body gets a `Port`: `port.actor` is the decorator, `port.get_actor` looks a name up and `port.kill` ends an actor,
each in its world's own way. All else is Ray's: `ray.get`, tasks, `ray.put`. What it returns is compared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORKS, DIFFERS, REFUSED = CLASSES = ("works", "differs", "refused")


@dataclass(frozen=True)
class Behaviour:
    """`row` is the anchor of its row in docs/porting.md.

    Of one that differs `values` are what plain Ray and rayshot give. One that is refused gets an error of the class
    `error`, by name, whose text has all of `says` in it.
    """

    body: Callable[[Any], Any]
    row: str
    kind: str
    values: tuple[Any, Any] = (None, None)
    error: str = ""
    says: tuple[str, ...] = ()
    ends_system: bool = False

    @property
    def name(self) -> str:
        """As a sentence without spaces."""
        return self.body.__name__

    @property
    def group(self) -> str:
        """The module that it stands in."""
        return self.body.__module__.rpartition(".")[2]


BEHAVIOURS: list[Behaviour] = []

Body = Callable[[Any], Any]


def works(row: str, **settings: Any) -> Callable[[Body], Body]:
    """The body gives the same value in both worlds."""
    return _adding(row, WORKS, **settings)


def differs(row: str, plain: Any, rayshot: Any, **settings: Any) -> Callable[[Body], Body]:
    """The body gives these values, and docs/porting.md says why."""
    return _adding(row, DIFFERS, values=(plain, rayshot), **settings)


def refused(row: str, error: str, *says: str, **settings: Any) -> Callable[[Body], Body]:
    """Plain Ray does it, and rayshot raises an error that says what to do instead."""
    return _adding(row, REFUSED, error=error, says=says, **settings)


def _adding(row: str, kind: str, **settings: Any) -> Callable[[Body], Body]:
    def add(body: Body) -> Body:
        assert body.__name__ not in {known.name for known in BEHAVIOURS}, body.__name__
        BEHAVIOURS.append(Behaviour(body, row, kind, **settings))
        return body

    return add
