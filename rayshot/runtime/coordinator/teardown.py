"""How a system is ended, even if only parts of it are left."""

import contextlib
from typing import Any

from rayshot.runtime.door import door, notes
from rayshot.runtime.door.naming import find_coordinator, life_of, named_actors, prefix
from rayshot.runtime.door.roster import clear_rosters

SHUTDOWN_S = 60.0
"""Seconds for the coordinator's shutdown: it never needs longer for its last commit and the removal of the rest."""


def take_down(system: str, coordinator: Any, incarnation: int | None = None) -> None:
    """End all that is left of a system, also actors that its coordinator does not know or has no time to end.

    With `incarnation`, end only that life, and what is left of earlier ones: an actor that goes back to a snapshot in
    its place keeps the name of an earlier life. If it was over long ago, the system may have another coordinator now.
    """
    with contextlib.suppress(door.CallFailed):
        door.get(coordinator.shutdown.remote("it was shut down"), timeout=SHUTDOWN_S)
    with contextlib.suppress(door.CallFailed, ValueError):
        door.kill(coordinator)
    if incarnation is not None and find_coordinator(system) not in (None, coordinator):
        return
    before = prefix(system)
    for rest, actor in named_actors(before).items():
        life = life_of(before + rest)
        if incarnation is None or (life is not None and life <= incarnation):
            with contextlib.suppress(door.CallFailed, ValueError):
                door.kill(actor)
    clear_rosters(system, incarnation)
    notes.of_programs(system).clear()
    notes.of_drivers(system).clear()
    notes.of_fits(system).clear()
    notes.of_silence(system).clear()
    notes.of_vain_acts(system).clear()
