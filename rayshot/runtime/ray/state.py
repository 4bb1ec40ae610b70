"""What Ray's control service knows of actors and nodes, and says nowhere else."""

from typing import Any

import ray


def actor_id(handle: Any) -> str:
    """The id of a Ray actor, in hex."""
    found: str = handle._actor_id.hex()  # noqa: SLF001 - the way Ray's own tools go
    return found


def actors_in_the_making() -> set[str]:
    """The ids of all actors whose constructors have not returned. Without a dashboard Ray says it only here."""
    states = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
    return {found for state in states for found in ray._private.state.actors(actor_state_name=state)}  # noqa: SLF001


def draining_nodes() -> dict[str, int]:
    """The nodes that Ray is about to take away, and when, in milliseconds of Unix time; 0 where it does not say.

    Raises whatever Ray raises where the control service is away: this is not documented.
    """
    found: dict[str, int] = ray._private.state.state.get_draining_nodes()  # noqa: SLF001 - as Ray's own trainers ask
    return found
