"""What an error in a state keeps of the errors before it: its `__cause__`, `__context__` and `__suppress_context__`.

No pickle of an error holds them. A state does: among the attributes of the error, as `BaseException.__setstate__` sets
them by their names. Tracebacks are left out.

Python gives an error its context by itself, and with it values that the state's owner never meant to keep. A state must
not be refused for them, nor fail to load. So an error becomes a link only if it is made again without running code of
any class: by its built-in base (see `exceptions`), from plain values, from objects that have nothing but attributes,
and from errors of that kind. Where one is not, it and all behind it are left out.
"""

import copyreg
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import sys
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rayshot.format.exceptions import LINKS, exception_again, made_by_base, reduce
from rayshot.format.late_keys import REFUSALS
from rayshot.format.sentinels import has_only_attributes

LINKS_MAX = 16
"""An error keeps at most so many errors before it, the nearest first."""
VALUES_MAX, BYTES_MAX = 1_000, 1 << 20
"""An error that holds more values, or longer texts and bytes, becomes no link."""
_PICKLE_PROTOCOL = 5
_TEXTS = frozenset((str, bytes))
_SCALARS = frozenset(
    (
        *(type(None), bool, int, float, complex),
        *(dt.date, dt.timedelta, dt.timezone),
        *(decimal.Decimal, fractions.Fraction, pathlib.PosixPath, uuid.UUID),
    )
)
_SEQUENCES = frozenset((list, tuple, deque))
_HASHED = frozenset((set, frozenset, dict))
_SAYS = ("__setstate__", "__getnewargs__", "__getnewargs_ex__", "__del__")
"""What a class has that runs code of its own when an object is made again, or dropped."""


@dataclass(slots=True)
class _Known:
    """An error that the state holds, or that is a link; it is kept alive, as it is known by its identity.

    `is_made`: what makes it is in the pickle. Until then its arguments may hold an error that must not refer to it.
    """

    error: BaseException
    is_link: bool
    is_made: bool = False
    links: dict[str, Any] = field(default_factory=dict)


class ErrorLinks:
    """The errors of one state, and their links."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._left_out = False

    def reducers(self, given: Mapping[type, Any]) -> dict[type, Any]:
        """For the dispatch table of the next pickler, which has the reducers `given`: those of learned classes."""
        self._known = {}
        return {kind: self._reduce for kind, by in given.items() if by is reduce}

    def reducer_of(self, kind: type) -> Any | None:
        """For a dispatch table too: that of any other class of errors, else None."""
        return self._reduce if issubclass(kind, BaseException) else None

    def leave_out(self) -> bool:
        """From now on pickle errors without links. Returns whether any had been pickled."""
        found = not self._left_out and any(known.links for known in self._known.values())
        self._left_out = True
        return found

    def _reduce(self, error: BaseException) -> Any:
        if id(error) not in self._known:
            self._known[id(error)] = _Known(error, is_link=False)
            if not self._left_out:
                self._find_links(error)
        known = self._known[id(error)]
        by_base = known.is_link or type(error) in copyreg.dispatch_table
        reduced = reduce(error) if by_base else error.__reduce_ex__(_PICKLE_PROTOCOL)
        return reduced if self._left_out else _with_links(reduced, known, self._links_now(known))

    def _find_links(self, stored: BaseException) -> None:
        """Note the links of an error that the state holds, of these links, and so on."""
        waiting = deque([self._known[id(stored)]])
        count = 0
        while waiting:
            known = waiting.popleft()
            for name in LINKS[:2]:
                link = getattr(BaseException, name).__get__(known.error)
                if link is None:
                    continue
                if id(link) not in self._known and count < LINKS_MAX and self._admit(link):
                    count += 1
                    waiting.append(self._known[id(link)])
                if id(link) in self._known:
                    known.links[name] = link

    def _links_now(self, known: _Known) -> dict[str, Any]:
        """The attributes of an error that are links."""
        links = {name: link for name, link in known.links.items() if link is known.error or self._is_there(link)}
        suppress = BaseException.__suppress_context__.__get__(known.error)  # type: ignore[attr-defined]
        if suppress != ("__cause__" in links):  # which a cause sets
            links["__suppress_context__"] = suppress
        return links

    def _is_there(self, error: Any) -> bool:
        """Whether the attributes of another error may refer to this one where the pickler is now."""
        known = self._known.get(id(error))
        return known is not None and (known.is_link or known.is_made)

    def _admit(self, link: BaseException) -> bool:
        """Note an error, and those that it holds, as links, if it may be one."""
        errors: dict[int, BaseException] = {}
        waiting: list[Any] = [link]
        values, size = 0, 0
        while waiting:
            part = waiting.pop()
            if self._is_there(part):
                continue
            content = _content(part)
            values += 1
            size += len(part) if type(part) in _TEXTS else 0
            if content is None or id(part) in self._known.keys() | errors or values > VALUES_MAX or size > BYTES_MAX:
                return False
            if isinstance(part, BaseException):
                errors[id(part)] = part
            waiting += content
        self._known.update((key, _Known(error, is_link=True)) for key, error in errors.items())
        return True


def _with_links(reduced: Any, known: _Known, links: dict[str, Any]) -> Any:
    """The reduction of an error with its links among the attributes, unless its class says itself how it gets these."""
    kind = type(known.error)
    if not isinstance(reduced, tuple) or len(reduced) > 3 or kind.__setstate__ is not BaseException.__setstate__:  # noqa: PLR2004
        return reduced
    make, args, attributes = (*reduced, None)[:3]
    if getattr(make, "func", make) not in {kind, exception_again}:
        return reduced
    return make, args, {**(attributes or {}), **links} or None, _note_made(known)


def _note_made(known: _Known) -> Iterator[Any]:
    """No items: a pickler asks for these when it has written what makes the object."""
    known.is_made = True
    yield from ()


def _content(part: Any) -> Iterable[Any] | None:
    """What a value holds; None if making it again may run code of a class."""
    kind: Any = type(part)
    if kind in _SCALARS or kind in _TEXTS:
        return ()
    if (kind in _SEQUENCES or kind in _HASHED) and len(part) > VALUES_MAX:
        return None
    if kind in _SEQUENCES:
        return part  # type: ignore[no-any-return]
    if kind in _HASHED:
        plain = all(type(key) in _SCALARS or type(key) in _TEXTS for key in part)
        return (*part, *(part.values() if kind is dict else ())) if plain else None
    if kind is dt.datetime or kind is dt.time:
        return (part.tzinfo,)
    if not _can_be_found(kind):
        return None
    if isinstance(part, BaseException):
        return _content_of_error(part)
    if isinstance(part, enum.Enum):
        return (part.value,) if kind.__reduce_ex__ is enum.Enum.__reduce_ex__ else None
    return _attributes(part)


def _content_of_error(error: BaseException) -> Iterable[Any] | None:
    kind = type(error)
    if hasattr(kind, "__del__"):
        return None
    try:
        make, (_, args, attributes) = reduce(error)
        made_by_base(kind, args)
    except REFUSALS:  # a class that only its own constructor can make
        return None
    return (args, attributes) if make is exception_again else None


def _attributes(value: Any) -> Iterable[Any] | None:
    """The attributes of an object that has nothing else."""
    kind: Any = type(value)
    if kind in copyreg.dispatch_table or kind.__new__ is not object.__new__ or any(hasattr(kind, way) for way in _SAYS):
        return None
    if not has_only_attributes(kind):
        return None
    state = value.__getstate__()
    return (state,) if type(state) is dict or kind.__setattr__ is object.__setattr__ else None


def _can_be_found(kind: type) -> bool:
    """Whether another process finds the class by its name, or gets it by value as one of the program's own module."""
    found: Any = sys.modules.get(kind.__module__)
    if kind.__module__ == "__main__":
        return True
    if getattr(found, "__spec__", None) is None:
        return False
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind
