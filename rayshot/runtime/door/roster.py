"""The roster: who should live in one life of a system, and in which process, so that no death is missed.

A coordinator that is started again asks the living actors. If an actor died while no coordinator ran, only the roster
shows this. The roster is in the key-value store of Ray's control service, so it lives as long as the actors can.

It is a directory too. A Ray actor keeps the name under which it was made, and goes back to snapshots in its place; so
only the roster says which Ray actor is `bob` in a later life.
"""

from collections.abc import Iterator

from rayshot.runtime.door import door
from rayshot.runtime.door.naming import actor_name, coordinator_name, life_of, prefix

_NAME_END = b"\n"
"""Behind the Ray name in an entry; the options follow. No name of a system or an actor holds it."""


class Roster:
    """The actors of one life that joined and did not end."""

    def __init__(self, system: str, incarnation: int) -> None:
        self._before = actor_name(system, incarnation, "")
        self._mark = f"{prefix(system, incarnation)}runs"

    def add(self, name: str, ray_name: str, options: bytes = b"") -> None:
        """An actor joined; its Ray actor was made under this name, with these packed `options`."""
        door.write_note(self._before + name, ray_name.encode() + _NAME_END + options)

    def remove(self, name: str) -> None:
        """An actor ended."""
        door.remove_note(self._before + name)

    def find(self, name: str) -> str | None:
        """The name of an actor's Ray actor; None if the actor has not joined, or has ended."""
        found = door.read_note(self._before + name)
        return None if found is None else found.partition(_NAME_END)[0].decode()

    def all(self) -> dict[str, str]:
        """The actors that should live, each with the name of its Ray actor."""
        names = [key.removeprefix(self._before) for key in door.note_keys(self._before)]
        return {name: ray_name for name in names if (ray_name := self.find(name)) is not None}

    def mark(self) -> None:
        """Everybody is on the roster: from now on this life runs."""
        door.write_note(self._mark, b"")

    @property
    def is_marked(self) -> bool:
        """Whether this life runs, or has run."""
        return door.read_note(self._mark) is not None


def has_rosters(system: str) -> bool:
    """Whether a life of the system runs in this cluster, or has run and was not taken down."""
    return bool(door.note_keys(prefix(system)))


def packed_options(system: str, last: int) -> dict[str, bytes]:
    """What Ray was told when it made each actor of the lives up to `last`; of several lives the latest counts."""
    return {name: packed for name, _, packed in _entries(system, last)}


def names_by_ray_name(system: str, last: int) -> dict[str, str]:
    """The actors of the lives up to `last`, by the names of their Ray actors."""
    return {ray_name: name for name, ray_name, _ in _entries(system, last)}


def _entries(system: str, last: int) -> Iterator[tuple[str, str, bytes]]:
    """What the rosters of the lives up to `last` hold, the earliest life first: name, Ray name, packed options."""
    keys = door.note_keys(prefix(system))
    for life, key in sorted((life, key) for key in keys if (life := life_of(key)) is not None and life <= last):
        name = key.removeprefix(actor_name(system, life, ""))
        entry = door.read_note(key)
        if name != key and entry is not None:
            ray_name, _, packed = entry.partition(_NAME_END)
            yield name, ray_name.decode(), packed


def system_with(name: str) -> str | None:
    """The system that has an actor of that name, or had one a moment ago; None if no system has."""
    keys = door.note_keys(coordinator_name(""))
    for known in (*door.names(), *keys):  # one that is being made is on no roster yet
        if (life := life_of(known)) is not None:
            system = str(known.split("/")[1])
            if known == actor_name(system, life, name):
                return system
    return None


def clear_rosters(system: str, last: int | None) -> None:
    """Forget the actors of all lives of a system, or of those up to life `last`: these lives are over."""
    keys = door.note_keys(prefix(system))
    for life in {life for key in keys if (life := life_of(key)) is not None}:
        if last is None or life <= last:
            door.remove_notes(prefix(system, life))
