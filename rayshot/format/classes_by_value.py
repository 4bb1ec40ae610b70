"""Classes that cloudpickle writes by value: their names, and the replacements of moved ones.

cloudpickle gives each such class an id, so that a process which unpickles it again finds the same class. Two tables of
its module map ids to classes. cloudpickle leaves out the qualified name, without which `Outer.Inner` looks like another
`Inner`. This module adds it.
"""

from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

Names = Mapping[str, object]
"""What stands for a global of a pickle, or a class by value, by its recorded name ("module.Qualname")."""
CLOUDPICKLE_MODULE: ModuleType = cloudpickle.cloudpickle
"""The module whose functions make classes by value, and whose tables map ids to classes."""


def with_qualified_name(reduced: Any, cls: type) -> Any:
    """The reduction of a class by value, with the qualified name added; another reduction unchanged."""
    if reduced is not NotImplemented and reduced[0] is CLOUDPICKLE_MODULE._make_skeleton_class:  # noqa: SLF001
        add_qualified_name(reduced[1], cls)
    return reduced


def add_qualified_name(arguments: tuple[Any, ...], cls: type) -> tuple[Any, ...]:
    """The arguments that make a class, with the qualified name added to the keywords, as in a class statement."""
    arguments[3]["__qualname__"] = "".join(_qualified_name(cls))  # a copy, else bytes depend on who interned the text
    return arguments


def _qualified_name(cls: type) -> str:
    """The qualified name. A process without rayshot leaves it out of the class; then its methods still have it."""
    for name, member in vars(cls).items():
        if isinstance(member, FunctionType) and member.__module__ == cls.__module__:
            outer, _, method = member.__qualname__.rpartition(".")
            if method == name and outer.rpartition(".")[2] == cls.__name__:
                return outer
    return cls.__qualname__


class ClassMakers:
    """Replaces cloudpickle's functions that make classes, for a pickle with moved globals.

    If a class by value is recorded under one of `names`, it is not made: its replacement is used, unchanged.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._taken: set[int] = set()
        self._makers: Mapping[str, Callable[..., Any]] = {
            "_make_skeleton_class": self._make_class,
            "_make_skeleton_enum": self._make_enum,
            "_class_setstate": self._fill,
        }

    def find(self, module: str, name: str) -> Any:
        """The replacement for a function of cloudpickle; None for all others."""
        return self._makers.get(name) if module == CLOUDPICKLE_MODULE.__name__ else None

    def _make_class(
        self, metaclass: type, name: str, bases: tuple[Any, ...], keywords: dict[str, Any], *rest: Any
    ) -> Any:
        qualified = keywords.get("__qualname__", name)  # rayshot did not always write it
        taken = self._take(f"{keywords.get('__module__')}.{qualified}", metaclass)
        if taken is not None:
            return taken
        return CLOUDPICKLE_MODULE._make_skeleton_class(metaclass, name, bases, keywords, *rest)  # noqa: SLF001

    def _make_enum(
        self, bases: tuple[type, ...], name: str, qualified: str, members: Any, module: str, *rest: Any
    ) -> Any:
        taken = self._take(f"{module}.{qualified}", type(bases[-1]))
        if taken is not None:
            return taken
        return CLOUDPICKLE_MODULE._make_skeleton_enum(bases, name, qualified, members, module, *rest)  # noqa: SLF001

    def _take(self, recorded: str, metaclass: type) -> Any:
        """The replacement for the recorded class: for a decorated one the user's class, if that was recorded."""
        moved = self._names.get(recorded)
        user_class = getattr(moved, "__rayshot_user_class__", moved)
        if user_class is not moved and not issubclass(metaclass, type(moved)):
            moved = user_class
        if moved is not None:
            self._taken.add(id(moved))
        return moved

    def _fill(self, cls: Any, state: Any) -> Any:
        return cls if id(cls) in self._taken else CLOUDPICKLE_MODULE._class_setstate(cls, state)  # noqa: SLF001
