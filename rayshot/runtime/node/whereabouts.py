"""Where the process of an actor runs, as the process says itself."""

import logging

import ray

from rayshot.proving.surroundings import Surroundings
from rayshot.runtime.door.naming import NAMESPACE, actor_name
from rayshot.runtime.door.roster import Roster

log = logging.getLogger("rayshot")
ANSWER_S = 5.0


def find_surroundings(system: str, life: int, actor: str) -> Surroundings | None:
    """The surroundings of the actor's process in this life; None if it does not answer."""
    ray_name = Roster(system, life).find(actor) or actor_name(system, life, actor)
    try:
        host = ray.get_actor(ray_name, namespace=NAMESPACE)
        found: Surroundings = ray.get(host.surroundings.remote(), timeout=ANSWER_S)
    except (ValueError, ray.exceptions.RayError) as error:
        log.info("%s does not say where it runs: %s", actor, error)
        return None
    return found
