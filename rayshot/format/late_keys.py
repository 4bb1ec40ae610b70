"""Keys of sets and dicts that come late: their hash needs the state of an object that is still being loaded.

An object may hold a set of itself. Its pickle fills that set before the object has its attributes, so `__hash__` fails.
Such a key waits, and with it all later ones of the same set or dict, so that their order stays.

So do the items of a dict whose own `__setitem__` needs its attributes. Its pickle holds what that method made of them
too, so they are put in without it, before the dict gets its attributes.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

REFUSALS = (TypeError, AttributeError, LookupError, ValueError, RecursionError)
"""What the code of an object that has not all of its state may raise."""

_Item = tuple[Any, ...]
"""(member,) of a set, (key, value) of a dict."""
_Put = Callable[..., object]


class _Waiting:
    """The items that are not yet in a set or dict. `put` puts one in."""

    def __init__(self, target: Any, put: _Put, items: Iterable[_Item]) -> None:
        self.target = target
        self.put = put
        self.items = deque(items)

    def put_some(self) -> None:
        """Put in what can be hashed by now, in order."""
        while self.items:
            try:
                self.put(self.target, *self.items[0])
            except REFUSALS:
                return
            self.items.popleft()

    def put_all(self) -> None:
        while self.items:
            self.put(self.target, *self.items.popleft())


class LateKeys:
    """The sets and dicts of one pickle that wait for keys."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._of_objects: dict[int, list[_Waiting]] = defaultdict(list)

    def put(self, target: Any, put: _Put, items: Sequence[_Item]) -> None:
        """Put items into a set or dict, from the first one that cannot be hashed yet on later."""
        waiting = self._waiting.get(id(target))
        if waiting is not None:
            waiting.items += items
            return
        done = 0
        try:
            for item in items:
                put(target, *item)
                done += 1
        except REFUSALS:
            waiting = self._waiting[id(target)] = _Waiting(target, put, items[done:])
            self._note(waiting)

    def gets_state(self, made: Any) -> None:
        """This object gets its state next. If its items wait, nothing of its class sees them any more."""
        waiting = self._waiting.get(id(made)) if self._waiting else None
        if waiting is not None and (put := _own_put(made)) is not None:
            waiting.put = put
            self._go_on(waiting)

    def object_filled(self, made: Any) -> None:
        """An object has its state now: put in what waited for it."""
        for waiting in self._of_objects.pop(id(made), ()) if self._waiting else ():
            self._go_on(waiting)

    def wait_for(self, made: object) -> bool:
        """Whether keys wait for the state of this object."""
        return made is not None and id(made) in self._of_objects

    def put_all(self) -> None:
        """The pickle is read: put in what is left. Raises what the keys raise."""
        for waiting in self._waiting.values():
            waiting.put_all()

    def first_of(self, values: Iterable[Any]) -> Any:
        """The first of these values that waits for keys; None if there is none."""
        return next((value for value in values if id(value) in self._waiting), None) if self._waiting else None

    def _go_on(self, waiting: _Waiting) -> None:
        waiting.put_some()
        if waiting.items:
            self._note(waiting)
        else:
            self._waiting.pop(id(waiting.target), None)

    def _note(self, waiting: _Waiting) -> None:
        for part in _parts(waiting.items[0][0]):
            self._of_objects[id(part)].append(waiting)


def _own_put(target: Any) -> _Put | None:
    """Puts an item into a dict without code of its class; None if its class makes the items of a pickle by itself."""
    kind = OrderedDict if isinstance(target, OrderedDict) else dict
    return kind.__setitem__ if getattr(type(target), "items", None) is kind.items else None


def _parts(key: Any) -> Iterator[Any]:
    """The objects whose hashes make that of a key."""
    if isinstance(key, tuple | frozenset):
        for part in key:
            yield from _parts(part)
    else:
        yield key
