"""Where this process is in its cluster, and what it is there."""

import warnings

import ray


def node() -> str:
    """The id of its node."""
    return str(ray.get_runtime_context().get_node_id())


def address() -> str:
    """The network address of its node."""
    return str(ray.util.get_node_ip_address())


def place() -> bytes:
    """Where it is, for `state.gone`."""
    return f"{ray.get_runtime_context().get_worker_id()}/{node()}".encode()


def is_worker() -> bool:
    """Whether it is one of Ray's workers, which runs plain tasks or one actor; False for a program."""
    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)


def actor_id() -> str | None:
    """The id of its actor; None if it has none."""
    found: str | None = ray.get_runtime_context().get_actor_id()
    return found


def actor_name() -> str:
    """The name of its actor."""
    found: str = ray.get_runtime_context().get_actor_name()
    return found


def was_restarted() -> bool:
    """Whether Ray started this actor's process again, because an earlier one had died."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray warns of a property that it uses itself
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)
