"""A pickle's outline: what it holds, without a class or function of it being imported or called."""

import io
import itertools
import pickle
from typing import Any


def outline(stream: bytes | memoryview) -> Any:
    """The containers and scalars of a pickle; one placeholder stands for all else. Imports and calls nothing.

    Buffers need not be at hand, and it is as fast as unpickling. For bytes whose signature was checked: it is bounded
    by nothing but their size.
    """
    return _Outliner(stream).load()


def globals_of(stream: bytes | memoryview) -> set[tuple[str, str]]:
    """The (module, qualified name) of each class and function that a pickle names. As `outline`."""
    outliner = _Outliner(stream)
    outliner.load()
    return outliner.met


class _Anything(type):
    """The type of a placeholder: it may be called, filled and made an instance of, and stays what it is."""

    def __call__(cls, *_args: object, **_kwargs: object) -> "_Anything":
        return cls

    def __setitem__(cls, _key: object, _value: object) -> None: ...


class _Placeholder(metaclass=_Anything):
    """What an outline holds in the place of objects, classes and functions."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Any:
        return cls

    @staticmethod
    def _take(*_args: object) -> None:
        """Take what pickles fill an object with."""

    append = extend = add = __setstate__ = _take


class _Outliner(pickle.Unpickler):
    """Gives placeholders; `met` are the globals that they stand for, as (module, qualified name)."""

    def __init__(self, stream: bytes | memoryview) -> None:
        super().__init__(io.BytesIO(stream), buffers=itertools.repeat(b""))
        self.met: set[tuple[str, str]] = set()

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler."""
        self.met.add((module, name))
        return _Placeholder
