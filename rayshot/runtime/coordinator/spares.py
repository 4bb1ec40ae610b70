"""The spare processes of a system: they wait to become actors in place of those that die."""

import logging
import uuid
from dataclasses import dataclass
from typing import Any

from rayshot.model.specification import ActorSpecification
from rayshot.runtime.actor.spare import Spare
from rayshot.runtime.actor.spawning import spawn_spare
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import spare_name
from rayshot.runtime.door.state import draining_nodes

log = logging.getLogger("rayshot")
PAUSE_S = 10.0
"""After a spare process has died while it waited, or none could be started, it is tried again so many seconds later."""


@dataclass(frozen=True)
class Waiting:
    """A spare process that imports `modules`. `answer` is that of `Spare.ready`; `end` fails when the process dies."""

    host: Any
    ray_name: str
    modules: frozenset[str]
    answer: Any
    end: Any

    @property
    def is_over(self) -> bool:
        """Whether it is dead, or cannot be watched any more."""
        return bool(door.wait([self.end], timeout=0)[0])

    @property
    def node(self) -> str | None:
        """The node on which it is ready; None before it is."""
        try:
            return str(door.get(self.answer, timeout=0))
        except door.CallFailed:
            return None


class Spares:
    """Keeps `count` processes ready, with the system's `hash_seed`.

    Not for several threads at once, but any may read `ready`, and call `close`.
    """

    def __init__(self, system: str, count: int, hash_seed: int | None = None) -> None:
        self._system, self._count, self._hash_seed = system, count, hash_seed
        self._waiting: tuple[Waiting, ...] = ()
        self._paused_until = 0.0

    @property
    def ready(self) -> dict[str, Any]:
        """Those that could become an actor now, by Ray name."""
        return {one.ray_name: one.host for one in self._waiting if one.node is not None}

    def keep(self, life: int, modules: frozenset[str], now: float) -> None:
        """End one that is of no use, and start one that is missing, for a life that runs. Call it again and again.

        Each imports `modules`. `now` is by time.monotonic.
        """
        if any(one.is_over for one in self._waiting):
            log.warning("system %r: a spare process died", self._system)
            self._paused_until = now + PAUSE_S
        useless = [one for one in self._waiting if one.is_over] or [
            one for one in self._waiting if not modules <= one.modules
        ]
        for one in useless[:1]:
            self._remove(one)
            door.kill(one.host)
        if len(self._waiting) < self._count and now >= self._paused_until:
            try:
                self._waiting = (*self._waiting, self._start(life, modules))
            except Exception as error:  # noqa: BLE001 - Ray's control service may not answer now, with any error
                log.warning("system %r: no spare process can be started now: %r", self._system, error)
                self._paused_until = now + PAUSE_S

    def _start(self, life: int, modules: frozenset[str]) -> Waiting:
        ray_name = spare_name(self._system, life, uuid.uuid4().hex)
        host = spawn_spare(Spare, ray_name, modules, self._hash_seed)
        return Waiting(host, ray_name, modules, host.ready.remote(), host.until_taken.remote())

    def _remove(self, gone: Waiting) -> None:
        self._waiting = tuple(one for one in self._waiting if one is not gone)

    def take(self, name: str, specification: ActorSpecification) -> Waiting | None:
        """A process that is ready to become this actor. None if none is, or its class asks Ray for more.

        It is on no node that will soon be removed.
        """
        wishes = specification.ray_options
        if not self._waiting or wishes.keys() - {"num_cpus"} or wishes.get("num_cpus"):
            return None
        leaving = self._find_leaving()
        for one in self._waiting:
            if not one.is_over and (node := one.node) is not None and node not in leaving:
                self._remove(one)
                log.info("system %r: %s becomes a spare process on node %s", self._system, name, node[:12])
                return one
        return None

    def _find_leaving(self) -> frozenset[str]:
        try:
            return frozenset(draining_nodes())
        except door.CallFailed as error:
            log.warning("nobody can say now which nodes are drained: %r", error)
            return frozenset()

    def close(self) -> None:
        """End all that wait, and start none any more."""
        self._count = 0
        for one in self._waiting:
            door.kill(one.host)
        self._waiting = ()
