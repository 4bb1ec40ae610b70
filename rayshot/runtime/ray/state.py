"""Facts about actors and nodes that Ray's control service knows, and that Ray shows nowhere else."""

import warnings
from typing import Any

import ray


def actor_id(handle: Any) -> str:
    """The id of a Ray actor, in hex."""
    found: str = handle._actor_id.hex()  # noqa: SLF001 - the way Ray's own tools go
    return found


def actors_in_the_making() -> set[str]:
    """The ids of all actors whose constructors have not returned. Without a dashboard, Ray says this only here."""
    states = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
    return {found for state in states for found in ray._private.state.actors(actor_state_name=state)}  # noqa: SLF001


def draining_nodes() -> dict[str, int]:
    """The nodes that Ray will soon remove, with the time in Unix milliseconds; 0 if Ray does not say when.

    If the control service does not answer, raises any error that Ray raises: this is not documented.
    """
    found: dict[str, int] = ray._private.state.state.get_draining_nodes()  # noqa: SLF001 - as Ray's own trainers ask
    return found


def was_restarted() -> bool:
    """Whether Ray started this actor's process again, because an earlier one had died."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray warns of a property that it uses itself
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)
