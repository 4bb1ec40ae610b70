"""A pickle's outline: its content, read without importing or calling a class or function of it."""

import io
import itertools
import pickle
from typing import Any


def outline(stream: bytes | memoryview) -> Any:
    """The containers and scalars of a pickle; one placeholder stands for all else. It imports and calls nothing.

    It does not need the buffers, and is as fast as unpickling. Use it only for bytes with a checked signature: only
    their size bounds its work.
    """
    return _Outliner(stream).load()


def globals_of(stream: bytes | memoryview) -> set[tuple[str, str]]:
    """The (module, qualified name) of each class and function that a pickle names. As `outline`."""
    outliner = _Outliner(stream)
    outliner.load()
    return outliner.met


class _Anything(type):
    """The type of a placeholder: a pickle can call it, fill it and make instances of it, and it stays the same."""

    def __call__(cls, *_args: object, **_kwargs: object) -> "_Anything":
        return cls

    def __setitem__(cls, _key: object, _value: object) -> None: ...


class _Placeholder(metaclass=_Anything):
    """Stands in an outline for objects, classes and functions."""

    def __new__(cls, *_args: object, **_kwargs: object) -> Any:
        return cls

    @staticmethod
    def _take(*_args: object) -> None:
        """Ignore everything that a pickle fills an object with."""

    append = extend = add = __setstate__ = _take


class _Outliner(pickle.Unpickler):
    """Reads placeholders; `met` are the globals that they stand for, as (module, qualified name)."""

    def __init__(self, stream: bytes | memoryview) -> None:
        super().__init__(io.BytesIO(stream), buffers=itertools.repeat(b""))
        self.met: set[tuple[str, str]] = set()

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler."""
        self.met.add((module, name))
        return _Placeholder
