"""Names of Ray actors, and names for drivers.

The names of Ray actors hold the incarnation, so that the next life of a system meets no orphans of the last one.
"""

import contextlib
import time
import uuid
from typing import Any

from rayshot.protocol.identity import DRIVER_PREFIX, GUEST_PREFIX, LABEL_SIGN
from rayshot.runtime.door import door, here

_MARK_LENGTH = 8


def new_driver_name(label: str = "") -> str:
    """A name for the driver in this process: a program, or a Ray worker that runs plain tasks or a plain actor.

    `label` is the name under which it attached, if any. Drivers of one label are sorted by the time at which they
    attached: so a restored actor has what it did not handle of them in that order.
    """
    mark = uuid.uuid4().hex[:_MARK_LENGTH]
    if label:
        mark = f"{time.time_ns() // 1_000_000:011x}{mark}{LABEL_SIGN}{label}"
    return f"{GUEST_PREFIX if here.is_worker() else DRIVER_PREFIX}{mark}"


def coordinator_name(system: str) -> str:
    """The Ray name of a system's coordinator."""
    return f"rayshot/{system}"


def actor_name(system: str, incarnation: int, name: str) -> str:
    """The Ray name of the actor `name` in one life of the system."""
    return f"rayshot/{system}/{incarnation}/actor/{name}"


def spare_name(system: str, incarnation: int, mark: str) -> str:
    """The Ray name of a process that waits in this life to become an actor. It keeps this name as an actor."""
    return f"rayshot/{system}/{incarnation}/spare/{mark}"


def vault_name(system: str, incarnation: int, node: str) -> str:
    """The Ray name of the vault on one node."""
    return f"rayshot/{system}/{incarnation}/vault/{node}"


def prefix(system: str, incarnation: int | None = None) -> str:
    """The common prefix of the Ray names of all hosts and vaults of a system, or of one life of it."""
    return f"rayshot/{system}/" if incarnation is None else f"rayshot/{system}/{incarnation}/"


def life_of(ray_name: str) -> int | None:
    """The life in the Ray name of a host or vault, or in a key of a roster; None for other names."""
    parts = ray_name.split("/", 3)
    return int(parts[2]) if len(parts) == 4 and parts[2].isdecimal() else None  # noqa: PLR2004 - see `actor_name`


def named_actors(before: str) -> dict[str, Any]:
    """The Ray handles of all our Ray actors whose names begin with `before`, by the rest of the name."""
    found = {}
    for name in door.names():
        if name.startswith(before):
            with contextlib.suppress(ValueError):  # it has ended since it was listed
                found[name.removeprefix(before)] = door.find(name)
    return found


def find_coordinator(system: str) -> Any | None:
    """The coordinator that Ray knows for the system, maybe a dead one; None if Ray knows none."""
    try:
        return door.find(coordinator_name(system))
    except ValueError:
        return None


def is_coordinator(system: str, coordinator: Any) -> bool:
    """Whether this is the system's coordinator: its process runs, or Ray starts it again.

    A call that Died does not say that it is gone for good. On a node that is drained, Ray raises this for every call
    that gets lost, although it starts the actor on another node then.
    """
    return bool(find_coordinator(system) == coordinator)


def running_systems() -> list[str]:
    """The names of all systems that have a coordinator in this cluster, sorted."""
    before = coordinator_name("")
    systems = (name.removeprefix(before) for name in door.names() if name.startswith(before))
    return sorted(system for system in systems if "/" not in system)
