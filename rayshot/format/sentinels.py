"""Objects that mean something by being themselves, as `UNSET = object()` of a module: states hold them by their names.

Otherwise each load makes another one, and `value is UNSET` is false from then on. Such objects are a bare `object()`
that a module has under a name, and objects without a state of a class in whose module they stand, as
`dataclasses.MISSING`. A module's dict, configuration or cache is none: its content belongs to the state.
"""

import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

log = logging.getLogger("rayshot")

Place = tuple[str, str]
"""A module, and a name in it."""

PLACES_MAX = 8
"""So many names of one object are recorded: a later version of the program may have lost some."""
_PICKLE_PROTOCOL = 5
_KINDS_MAX = 10_000
_HEAP_TYPE = 1 << 9
"""The flag of a type that a class statement made; see the documentation of Py_TPFLAGS_HEAPTYPE."""


def named(places: tuple[Place, ...], kind: Any = object) -> Any:
    """The object of class `kind` that stands in one of these places. Snapshots hold this function by name.

    A new object of the class, as pickle makes it, if none is there any more: a name may be gone, may mean something
    else by now, or an object that has attributes since then.
    """
    for module, name in places:
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        if type(found) is kind and found.__getstate__() is None:
            return found
    if kind is object:
        names = " or ".join(f"{module}.{name}" for module, name in places)
        log.warning("no bare object has the name %s here: where a state held it, another object is now", names)
    return kind.__new__(kind)


class BareObjects:
    """The bare objects that modules have while one state is pickled. Modules are searched when the state holds one."""

    def __init__(self) -> None:
        self._places: dict[int, list[Place]] | None = None

    def reduce(self, found: object) -> Any:
        """For the dispatch table, under the type `object`."""
        if self._places is None:
            self._places = {}
            for module in sorted(sys.modules.copy()):
                for value, place in _places_in(module, object):
                    self._places.setdefault(id(value), []).append(place)
        return _by_name(found, self._places.get(id(found), ()))


@lru_cache(_KINDS_MAX)
def reducer_of(kind: type) -> Callable[[Any], Any] | None:
    """How objects of a class are pickled, if its own module has some without a state; else None."""
    if not has_only_attributes(kind):
        return None
    places: dict[int, list[Place]] = {}
    for value, place in _places_in(kind.__module__, kind):
        if value.__getstate__() is None:
            places.setdefault(id(value), []).append(place)

    def reduce(found: Any) -> Any:
        return _by_name(found, places.get(id(found), ()) if found.__getstate__() is None else ())

    return reduce if places else None


def _by_name(found: Any, places: Any) -> Any:
    """The reduction of an object: to those of its names that it still has, if any."""
    there = [place for place in places if _content(place[0]).get(place[1]) is found]
    there.sort(key=lambda place: not place[1].isupper())  # a constant: other names may mean something else later
    kind = () if type(found) is object else (type(found),)
    return (named, (tuple(there[:PLACES_MAX]), *kind)) if there else found.__reduce_ex__(_PICKLE_PROTOCOL)


def has_only_attributes(kind: Any) -> bool:
    """Whether objects of a class have nothing but attributes, and the class does not say how they are pickled."""
    ways = ("__reduce_ex__", "__reduce__", "__getstate__")
    plain = all(getattr(kind, way) is getattr(object, way) for way in ways)
    return plain and all(one is object or one.__flags__ & _HEAP_TYPE for one in kind.__mro__)


def _places_in(module: str, kind: type) -> Iterator[tuple[Any, Place]]:
    """The objects of exactly this type in a module, in the order of their names' definition.

    `__main__` is another module in another process.
    """
    if module != "__main__":
        for name, value in _content(module).items():
            if type(value) is kind:
                yield value, (module, name)


def _content(module: str) -> dict[str, Any]:
    """The globals of a module now, without waking a lazy one; some stand in for modules and have none."""
    found = sys.modules.get(module)
    return dict(object.__getattribute__(found, "__dict__")) if issubclass(type(found), ModuleType) else {}
