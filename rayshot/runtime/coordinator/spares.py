"""The spare processes of a system: they wait to become actors in place of those that die."""

import contextlib
import logging
import uuid
from dataclasses import dataclass
from typing import Any

import ray

from rayshot.model.specification import ActorSpecification
from rayshot.runtime.actor.spare import Spare
from rayshot.runtime.actor.spawning import spawn_spare
from rayshot.runtime.ray.naming import spare_name
from rayshot.runtime.ray.state import draining_nodes

log = logging.getLogger("rayshot")
PAUSE_S = 10.0
"""After a spare process has died while it waited, or none could be started, it is tried again so many seconds later."""


@dataclass(frozen=True)
class Waiting:
    """A spare process. `node` is the answer of `Spare.ready`, `dead` fails when the process dies."""

    host: Any
    ray_name: str
    node: Any
    dead: Any


class Spares:
    """Keeps `count` processes ready. Not for several threads at once, but any may read `ready_count`."""

    def __init__(self, system: str, count: int) -> None:
        self._system, self._count = system, count
        self._waiting: tuple[Waiting, ...] = ()
        self._paused_until = 0.0

    @property
    def ready_count(self) -> int:
        """How many could become an actor now."""
        return sum(_is_answered(one.node) for one in self._waiting)

    def keep(self, life: int, modules: frozenset[str], now: float) -> None:
        """Start what is missing, for a life that runs; each imports `modules`. `now` is by time.monotonic."""
        living = tuple(one for one in self._waiting if not _is_answered(one.dead))
        if len(living) < len(self._waiting):
            log.warning("system %r: %d spare processes died", self._system, len(self._waiting) - len(living))
            self._paused_until = now + PAUSE_S
        self._waiting = living
        try:
            while len(self._waiting) < self._count and now >= self._paused_until:
                self._waiting = (*self._waiting, self._start(life, modules))
        except Exception as error:  # noqa: BLE001 - Ray's control service may not answer now, with any error
            log.warning("system %r: no spare process can be started now: %r", self._system, error)
            self._paused_until = now + PAUSE_S

    def _start(self, life: int, modules: frozenset[str]) -> Waiting:
        ray_name = spare_name(self._system, life, uuid.uuid4().hex)
        host = spawn_spare(Spare, ray_name, modules)
        return Waiting(host, ray_name, host.ready.remote(), host.wait.remote())

    def take(self, specification: ActorSpecification) -> Waiting | None:
        """A process that is ready to become an actor of this class. None if none is, or the class asks Ray for more.

        It is on no node that will soon be removed.
        """
        wishes = specification.ray_options
        if not self._waiting or wishes.keys() - {"num_cpus"} or wishes.get("num_cpus"):
            return None
        leaving: set[str] = set()
        with contextlib.suppress(Exception):  # the control service does not answer now
            leaving.update(draining_nodes())
        for one in self._waiting:
            if _is_answered(one.node) and not _is_answered(one.dead) and _node(one) not in leaving:
                self._waiting = tuple(other for other in self._waiting if other is not one)
                return one
        return None

    def close(self) -> None:
        """End all that wait."""
        for one in self._waiting:
            ray.kill(one.host)
        self._waiting = ()


def _is_answered(ref: Any) -> bool:
    """Whether there is an answer or an error."""
    return bool(ray.wait([ref], timeout=0)[0])


def _node(one: Waiting) -> str | None:
    with contextlib.suppress(ray.exceptions.RayError):
        return str(ray.get(one.node))
    return None
