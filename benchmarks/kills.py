"""The processes of a system, for benchmarks that kill them."""

import os
import time
from collections.abc import Callable
from typing import Any

import ray

import rayshot


def report(system: rayshot.System) -> dict[str, Any]:
    """What the coordinator says now; waits for one that is started again."""
    coordinator = system._identity.coordinator  # noqa: SLF001 - System.status waits for a life that runs
    found: dict[str, Any] = asked(coordinator.status.remote)
    return found


def living(system: rayshot.System) -> dict[str, int]:
    """The processes of all actors that answer, by name."""
    return {name: actor["pid"] for name, actor in report(system)["actors"].items() if actor is not None}


def coordinator_pid(system: rayshot.System) -> int:
    """The process of the coordinator."""
    return pid_of(system._identity.coordinator)  # noqa: SLF001 - who else knows its process


def pid_of(actor: Any) -> int:
    """The process of a Ray actor."""
    return int(asked(lambda: actor.__ray_call__.remote(lambda _: os.getpid())))


def asked(call: Callable[[], Any]) -> Any:
    """The answer of a plain call by Ray; it is made anew if it was lost."""
    while True:
        try:
            return ray.get(call())
        except ray.exceptions.ActorUnavailableError:
            time.sleep(0.05)
