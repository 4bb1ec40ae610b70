"""Facts about actors and nodes that Ray's control service knows, and that Ray shows nowhere else."""

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import ray

from rayshot.runtime.door import here, private_names
from rayshot.runtime.door.door import OwnerDied, when_answered
from rayshot.runtime.door.door import ask_control_service as _ask
from rayshot.runtime.door.private_names import WorkerTableData, accessor, actors, id_of
from rayshot.runtime.door.private_names import draining_nodes as _draining
from rayshot.runtime.door.survived_errors import survived

N = TypeVar("N", bound=Hashable)
LOOK_S = 1.0
"""Seconds between two looks at owners of objects, on a Ray that tells of their deaths a minute late."""


def actor_id(handle: Any) -> str:
    """The id of a Ray actor, in hex."""
    found: str = id_of(handle).hex()
    return found


def actors_in_the_making() -> set[str]:
    """The ids of all actors whose constructors have not returned. Without a dashboard, Ray says this only here."""
    states = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
    return {found for state in states for found in _ask(actors, actor_state_name=state)}


def draining_nodes() -> dict[str, int]:
    """The nodes that Ray will soon remove, with the time in Unix milliseconds; 0 if Ray does not say when.

    Raises CallFailed if the control service does not answer now, as all functions here.
    """
    found: dict[str, int] = _ask(_draining)
    return found


def was_just_away(handle: Any, within_s: float) -> bool:
    """Whether an actor died, and Ray starts it again or did so in the last `within_s` seconds.

    It compares the clocks of this node and of the head.
    """
    found: dict[str, Any] = _ask(actors, actor_id(handle))
    if not found:
        return False
    began_s: float = found["Timestamp"] / 1000
    return found["State"] == "RESTARTING" or (found["NumRestarts"] > 0 and time.time() - began_s < within_s)


def runs_here(handle: Any) -> bool:
    """Whether a Ray actor is on the node of this process, and its constructor has returned.

    Until then its calls wait, though nothing is wrong.
    """
    found: dict[str, Any] = _ask(actors, actor_id(handle))
    if not found:  # it was just made, and the control service has not heard of it yet
        return False
    return (found["State"], found["Address"]["NodeID"]) == ("ALIVE", here.node())


def gone(places: Mapping[N, bytes]) -> list[N]:
    """Those whose process at its place, or its node, is dead as far as Ray knows."""
    if not places:
        return []
    dead_nodes = {node["NodeID"] for node in _ask(ray.nodes) if not node["Alive"]}
    connection = _ask(accessor)

    def is_gone(place: bytes) -> bool:
        worker, node = place.decode().split("/")
        found = _ask(connection.get_worker_info, ray.WorkerID.from_hex(worker))
        return node in dead_nodes or (found is not None and not WorkerTableData.FromString(found).is_alive)

    return [name for name, place in places.items() if is_gone(place)]


def when_owner_dies(reference: ray.ObjectRef, place: bytes, tell: Callable[[], None]) -> None:
    """Call `tell` on a thread when the process is dead that owns an object which is never ready.

    `place` is where this process is, see `here.place`. The caller keeps the reference, as Ray forgets it otherwise.
    """
    if private_names.tells_of_owners_at_once():
        when_answered(reference, lambda value: tell() if isinstance(value, OwnerDied) else None)
    else:
        _vigil.watch(place, tell)


class Vigil:
    """One thread that asks which processes that own objects are dead, for a Ray that tells of it a minute late."""

    def __init__(self) -> None:
        self._watched: dict[Callable[[], None], bytes] = {}
        self._changing = threading.Lock()
        self._looks = False

    def watch(self, place: bytes, tell: Callable[[], None]) -> None:
        """Call `tell` once, when the process at `place` is dead; on the thread that asks, which it may not keep."""
        with self._changing:
            self._watched[tell] = place
            if not self._looks:
                self._looks = True
                threading.Thread(target=self._look, name="rayshot-owners", daemon=True).start()

    def _look(self) -> None:
        while watched := self._still_watched():
            with survived("whether the owners of objects live cannot be asked now", level=logging.INFO):
                for tell in gone(watched):
                    del self._watched[tell]
                    tell()
            time.sleep(LOOK_S)

    def _still_watched(self) -> dict[Callable[[], None], bytes]:
        with self._changing:
            self._looks = bool(self._watched)  # the thread ends where nothing is left
            return dict(self._watched)


_vigil = Vigil()
