"""Coordinators that tests kill, and the wait until another one has taken over."""

import os
import signal
import time

import ray

from rayshot.errors import SnapshotAborted, SystemStopped
from tests.waiting import eventually


def kill_coordinator(system, *with_it):
    """At once with the processes of the ids `with_it`: no new coordinator can have asked them."""
    actor = ray.get_actor(f"rayshot/{system.name}", namespace="rayshot")
    for pid in (ray.get(actor.__ray_call__.remote(lambda self: os.getpid())), *with_it):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)


def after_take_over(ask):
    """What `ask` returns, as soon as it raises no error of a system whose coordinator died and returns something."""

    def try_now():
        try:
            return ask()
        except (SnapshotAborted, SystemStopped):
            return None

    return eventually(try_now, 30)
