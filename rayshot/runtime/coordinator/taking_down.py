"""How a system is ended, even if only parts of it are left."""

import contextlib
from typing import Any

import ray

from rayshot.runtime.ray.naming import find_coordinator, named_actors, prefix
from rayshot.runtime.ray.roster import clear_rosters

SHUTDOWN_S = 60.0
"""Seconds for the coordinator's shutdown: it never needs longer for its last commit and the removal of the rest."""


def take_down(system: str, coordinator: Any, incarnation: int | None = None) -> None:
    """End all that is left of a system, also actors that its coordinator does not know or has no time to end.

    With `incarnation`, end only that life. If it was over long ago, the system may have another coordinator now.
    """
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(coordinator.shutdown.remote("it was shut down"), timeout=SHUTDOWN_S)
    with contextlib.suppress(ray.exceptions.RayError, ValueError):
        ray.kill(coordinator)
    if incarnation is not None and find_coordinator(system) not in (None, coordinator):
        return
    before = prefix(system, incarnation)
    clear_rosters(before)
    for actor in named_actors(before).values():
        with contextlib.suppress(ray.exceptions.RayError, ValueError):
            ray.kill(actor)
