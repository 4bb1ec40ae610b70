"""What all three programs do with their actor: ask it, kill it, and wait until it has done so much."""

import os
import signal
import time
from typing import Any

import ray
from ray.exceptions import RayActorError

import rayshot
from rayshot.errors import SystemDown

BETWEEN_S = 0.02


def ask(method: Any) -> Any:
    """Call a method. If its process dies before the answer is here, ask the actor of the next life.

    Raises SystemDown: there is none, the system has stopped.
    """
    while True:
        try:
            return ray.get(method.remote())
        except SystemDown:
            raise
        except RayActorError:
            time.sleep(BETWEEN_S)


def kill(system: rayshot.System, name: str) -> None:
    """SIGKILL for the process of an actor that has one."""
    while (actor := system.status().actors.get(name)) is None or actor.pid is None:
        time.sleep(BETWEEN_S)
    os.kill(actor.pid, signal.SIGKILL)


def wait_for(actor: Any, count: int) -> None:
    """Wait until its `progress` is so much."""
    while ask(actor.progress) < count:
        time.sleep(BETWEEN_S)
