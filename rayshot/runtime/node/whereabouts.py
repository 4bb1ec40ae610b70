"""Where the process of an actor runs, as the process says itself."""

import logging

from rayshot.proving.surroundings import ProcessSurroundings
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import actor_name
from rayshot.runtime.door.roster import Roster

log = logging.getLogger("rayshot")
ANSWER_S = 5.0


def find_surroundings(system: str, life: int, actor: str) -> ProcessSurroundings | None:
    """The surroundings of the actor's process in this life; None if it does not answer."""
    ray_name = Roster(system, life).find(actor) or actor_name(system, life, actor)
    try:
        host = door.find(ray_name)
        found: ProcessSurroundings = door.get(host.surroundings.remote(), timeout=ANSWER_S)
    except (ValueError, door.CallFailed) as error:
        log.info("%s does not say where it runs: %s", actor, error)
        return None
    return found
