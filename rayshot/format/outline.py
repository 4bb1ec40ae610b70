"""A pickle's outline: its content, read without importing or calling a class or function of it."""

import io
import itertools
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from rayshot.format.classes_by_value import CLOUDPICKLE_MODULE
from rayshot.inert.pickle_machine import NONSENSE

UNREADABLE = (*NONSENSE, pickle.UnpicklingError, EOFError, AttributeError)
"""What an outline raises for bytes that are no pickle, or that call what placeholders stand for."""


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


def uses_of(stream: bytes | memoryview, asked: Mapping[str, Callable[[Any], str]]) -> dict[str, set[str]]:
    """For each of these classes ("module.Qualname") what its function says of the values of its objects.

    It is given the arguments with which a pickle makes an object, a tuple that is not empty, and the state that an
    object gets. Empty words are left out. As `outline`. Classes by value count too.
    """
    reader = _ReaderOfUses(stream, asked)
    reader.load()
    return reader.said


class _Use(_Anything):
    """The type of a class whose objects are noted: a call, an instance or a state of it is passed to `note`."""

    note: Callable[[Any], None]

    def __call__(cls, *args: object, **_kwargs: object) -> "_Anything":
        cls.note(args)
        return cls


def _new_use(ask: Callable[[Any], str], said: set[str]) -> Any:
    def note(values: Any) -> None:
        if values and (words := ask(values)):
            said.add(words)

    def make(cls: Any, *args: object) -> Any:
        note(args)
        return cls

    members = {"__new__": make, "__setstate__": staticmethod(note), "note": staticmethod(note)}
    return _Use("_Used", (_Placeholder,), members)


class _ReaderOfUses(_Outliner):
    def __init__(self, stream: bytes | memoryview, asked: Mapping[str, Callable[[Any], str]]) -> None:
        super().__init__(stream)
        self.said: dict[str, set[str]] = {name: set() for name in asked}
        self._kinds = {name: _new_use(ask, self.said[name]) for name, ask in asked.items()}

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler. Of cloudpickle's functions it finds those that make classes."""
        if module == CLOUDPICKLE_MODULE.__name__:
            makers = {"_make_skeleton_class": self._class, "_make_skeleton_enum": self._enum}
            return makers.get(name, _Placeholder)
        return self._kinds.get(f"{module}.{name}", _Placeholder)

    def _class(self, _type: Any, name: str, _bases: Any, keywords: Any, *_: object) -> Any:
        return self._kinds.get(f"{keywords.get('__module__')}.{keywords.get('__qualname__', name)}", _Placeholder)

    def _enum(self, _bases: Any, _name: str, qualified: str, _members: Any, module: str, *_: object) -> Any:
        return self._kinds.get(f"{module}.{qualified}", _Placeholder)
