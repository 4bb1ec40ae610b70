"""Classes that cloudpickle writes by value: their names, what stands for moved ones, and what decorated ones have.

cloudpickle gives each such class an id, so that a process which unpickles it again finds the same class. Two tables of
its module map ids to classes. cloudpickle leaves out the qualified name, without which `Outer.Inner` looks like another
`Inner`. This module adds it.
"""

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

Names = Mapping[str, object]
"""What stands for a global of a pickle, or a class by value, by its recorded name ("module.Qualname")."""
CLOUDPICKLE_MODULE: ModuleType = cloudpickle.cloudpickle
"""The module whose functions make classes by value, and whose tables map ids to classes."""
ON_CLASS = ("remote", "options", "bind")
"""What `@rayshot.actor` puts on a class: see OnClass."""


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
        taken = self._take(f"{keywords.get('__module__')}.{qualified}")
        if taken is not None:
            return taken
        return CLOUDPICKLE_MODULE._make_skeleton_class(metaclass, name, bases, keywords, *rest)  # noqa: SLF001

    def _make_enum(
        self, bases: tuple[type, ...], name: str, qualified: str, members: Any, module: str, *rest: Any
    ) -> Any:
        taken = self._take(f"{module}.{qualified}")
        if taken is not None:
            return taken
        return CLOUDPICKLE_MODULE._make_skeleton_enum(bases, name, qualified, members, module, *rest)  # noqa: SLF001

    def _take(self, recorded: str) -> Any:
        """The replacement for the recorded class."""
        moved = self._names.get(recorded)
        if moved is not None:
            self._taken.add(id(moved))
        return moved

    def _fill(self, cls: Any, state: Any) -> Any:
        return cls if id(cls) in self._taken else CLOUDPICKLE_MODULE._class_setstate(cls, state)  # noqa: SLF001


class OnClass:
    """An attribute that a decorated class has: its instances and its subclasses do not, and find the user's own.

    `answer` makes it, of the class and the name. `own` is what stood in its place in the class, if anything did.
    Classes by value hold these objects, and so do snapshots: keep the classes and their fields.
    """

    __slots__ = ("_answer", "_name", "_own")

    def __init__(self, name: str, answer: Callable[[type, str], Any], *own: Any) -> None:
        self._name = name
        self._answer = answer
        self._own = own

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None and vars(owner).get(self._name) is self:
            return self._answer(owner, self._name)
        return self.bound(instance, owner)

    def bound(self, instance: object, owner: type) -> Any:
        """The user's own attribute, of an instance or of a class. Raises AttributeError if there is none."""
        for found in self.own(owner):
            return _bound(found, instance, owner)
        if instance is None:
            raise AttributeError(f"{owner.__qualname__} is not decorated with @rayshot.actor itself")
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}", name=self._name, obj=instance
        )

    def own(self, owner: type) -> Iterator[Any]:
        """The user's own attributes as they stand in the class and in its bases, the one that counts first."""
        yield from self._own
        classes = iter(owner.__mro__)
        while vars(next(classes)).get(self._name) is not self:
            pass
        for base in classes:
            found = vars(base).get(self._name, self)
            yield from found._own if isinstance(found, OnClass) else (found,)  # noqa: SLF001 - of its own class


class OnClassOverData(OnClass):
    """One that stands over the user's own slot or property, which instances go on to set."""

    __slots__ = ()

    def __set__(self, instance: object, value: object) -> None:
        found = next(self.own(type(instance)))
        type(found).__set__(found, instance, value)

    def __delete__(self, instance: object) -> None:
        found = next(self.own(type(instance)))
        type(found).__delete__(found, instance)


def _bound(found: Any, instance: object, owner: type) -> Any:
    bind = getattr(type(found), "__get__", None)
    return found if bind is None else bind(found, instance, owner)


def attribute_of(user_class: type, name: str) -> Any:
    """The user's own attribute of a class, as `getattr` gives it; None if there is none."""
    if name in ON_CLASS:
        return _bound(raw_attribute_of(user_class, name), None, user_class)
    return getattr(user_class, name, None)


def raw_attribute_of(user_class: type, name: str) -> Any:
    """The user's own attribute of a class, as it stands there; None if there is none."""
    found = next((vars(base)[name] for base in user_class.__mro__ if name in vars(base)), None)
    return next(found.own(user_class), None) if isinstance(found, OnClass) else found
