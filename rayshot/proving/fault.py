"""Whose fault an error is that a state raises when it is loaded: its own, or that of the outside, such as a server.

Python's own errors of mistakes are the state's, and all that are derived from them. Packages have errors of their own
for what does not answer now, under any name, so every other error that Python does not define itself is of the outside.
What is left, as RuntimeError and Exception themselves, may be either.
"""

import pickle
from collections.abc import Iterator
from typing import Any

from rayshot.errors import Incompatible, StaleHandle

_CHAIN_MAX = 16
_OUTSIDE = (OSError, EOFError, MemoryError)
_OWN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    pickle.PickleError,
    Incompatible,
)
MISSING = (ImportError, StaleHandle)
"""What is missing in this process or cluster: no state is to blame, and no other try helps."""


def is_own(error: BaseException) -> bool:
    """Whether the state or a class of it is to blame for an error, unless an error of the outside led to it."""
    return isinstance(error, _OWN) and not isinstance(error, _OUTSIDE)


def is_of_outside(error: BaseException) -> bool:
    """Whether an error, or one that led to it, is of the outside: another try may do better."""
    return any(_is_outside(one) for one in chain(error))


def _is_outside(error: BaseException) -> bool:
    by_package = type(error).__module__ != "builtins" and not isinstance(error, (*_OWN, *MISSING))
    return by_package or isinstance(error, _OUTSIDE)


def chain(error: Any) -> Iterator[BaseException]:
    """The error, and those behind it."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _CHAIN_MAX:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]
