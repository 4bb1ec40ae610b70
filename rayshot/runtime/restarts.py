"""What a Ray actor can know of its own earlier lives."""

import warnings

import ray


def was_restarted() -> bool:
    """Whether Ray started this actor anew after its process died."""
    with warnings.catch_warnings():  # Ray's own property uses what Ray deprecates
        warnings.simplefilter("ignore")
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)
