"""Gives an object the state that a pickle holds for it."""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def fill(made: Any, state: Any) -> None:
    """Fill an object as pickle does: by `__setstate__`, else attributes, or a pair of these and slots.

    The class is asked for `__setstate__`. pickle asks the object, and `__getattr__` of an object without its attributes
    may never end. A frozen dataclass is filled too, and so are slots from the attributes of an object that had none.
    """
    given = getattr(type(made), "__setstate__", None)
    if given is not None:
        given(made, state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)  # noqa: PLR2004
    if attributes and not type(made).__dictoffset__:
        slots, attributes = {**attributes, **(slots or {})}, None
    for name, value in (attributes or {}).items():
        made.__dict__[sys.intern(name) if type(name) is str else name] = value
    for name, value in (slots or {}).items():
        try:
            setattr(made, name, value)
        except dataclasses.FrozenInstanceError:
            object.__setattr__(made, name, value)


@contextmanager
def lent(made: Any, state: Any) -> Iterator[None]:
    """Within it a bare object has its state, unless its class has a `__setstate__`, which must not be called twice."""
    if hasattr(type(made), "__setstate__"):
        yield
        return
    has_attributes = type(made).__dictoffset__ != 0  # its own `__getattr__` may not be asked
    before = dict(made.__dict__) if has_attributes else {}
    fill(made, state)
    yield
    if has_attributes:
        made.__dict__.clear()
        made.__dict__.update(before)
