"""The roster: who should live in one life of a system, and in which process, so that no death is missed.

A coordinator that is started again asks the living actors. If an actor died while no coordinator ran, only the roster
shows this. The roster is in the key-value store of Ray's control service, so it lives as long as the actors can.

It is a directory too. A Ray actor keeps the name of the life that made it, and goes back to snapshots in its place; so
only the roster says which Ray actor is `bob` in a later life.
"""

import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put

from rayshot.runtime.ray.naming import NAMESPACE, actor_name, life_of, prefix


class Place(NamedTuple):
    """Where an actor lives: in the Ray actor that life `made_in` made for it. `options` are what Ray was told then."""

    made_in: int
    options: Mapping[str, Any]


class Roster:
    """The actors of one life that joined and did not end."""

    def __init__(self, system: str, incarnation: int) -> None:
        self._before = actor_name(system, incarnation, "")
        self._mark = f"{prefix(system, incarnation)}runs"

    def add(self, name: str, place: Place) -> None:
        """An actor joined."""
        _internal_kv_put(self._before + name, pickle.dumps(place), namespace=NAMESPACE)

    def remove(self, name: str) -> None:
        """An actor ended."""
        _internal_kv_del(self._before + name, namespace=NAMESPACE)

    def find(self, name: str) -> Place | None:
        """Where an actor lives; None if it has not joined, or has ended."""
        packed = _internal_kv_get(self._before + name, namespace=NAMESPACE)
        return None if packed is None else pickle.loads(packed)  # noqa: S301 - `add` wrote it

    def places(self) -> dict[str, Place]:
        """Where the actors should live."""
        keys = _internal_kv_list(self._before, namespace=NAMESPACE)
        names = [key.decode().removeprefix(self._before) for key in keys]
        return {name: place for name in names if (place := self.find(name)) is not None}

    def mark(self) -> None:
        """Everybody is on the roster: from now on this life runs."""
        _internal_kv_put(self._mark, b"", namespace=NAMESPACE)

    @property
    def is_marked(self) -> bool:
        """Whether this life runs, or has run."""
        return _internal_kv_get(self._mark, namespace=NAMESPACE) is not None


def all_places(system: str, last: int) -> dict[str, Place]:
    """The latest place of each actor in the lives up to `last`."""
    keys = [key.decode() for key in _internal_kv_list(prefix(system), namespace=NAMESPACE)]
    known = sorted((life, key) for key in keys if (life := life_of(key)) is not None and life <= last)
    found = {}
    for life, key in known:
        name = key.removeprefix(actor_name(system, life, ""))
        if name != key and (place := Roster(system, life).find(name)) is not None:
            found[name] = place
    return found


def clear_rosters(system: str, last: int | None) -> None:
    """Forget the actors of all lives of a system, or of those up to life `last`: these lives are over."""
    keys = [key.decode() for key in _internal_kv_list(prefix(system), namespace=NAMESPACE)]
    for life in {life for key in keys if (life := life_of(key)) is not None}:
        if last is None or life <= last:
            _internal_kv_del(prefix(system, life), del_by_prefix=True, namespace=NAMESPACE)
