"""The end of a system, whatever of it is left."""

import contextlib
from typing import Any

import ray

from rayshot.runtime.ray.naming import find_coordinator, named_actors, prefix
from rayshot.runtime.ray.roster import clear_rosters

SHUTDOWN_S = 60.0
"""Longer than a coordinator that lives takes at most for its last commit and to remove what is left."""


def take_down(system: str, coordinator: Any, incarnation: int | None = None) -> None:
    """End a system, whatever of it is left: also actors that its coordinator does not know, or has no time for.

    With `incarnation` only that life of it, which may have been over long ago: then there is another coordinator.
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
