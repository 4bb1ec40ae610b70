"""Coordinators that tests kill, and the wait until another one has taken over."""

import os
import signal

import ray

from rayshot.errors import SnapshotAborted, SystemStopped
from tests.processes import runs
from tests.runtime.healed import pid_behind
from tests.waiting import eventually


def kill_coordinator(system, *with_it):
    """At once with the processes of the ids `with_it`: no new coordinator can have asked them.

    Behind this the old one answers no more: whoever answers is the new one.
    """
    pids = (pid_behind(ray.get_actor(f"rayshot/{system.name}", namespace="rayshot")), *with_it)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(map(runs, pids)))


def after_take_over(ask):
    """What `ask` returns, as soon as it raises no error of a system whose coordinator died and returns something."""

    def try_now():
        try:
            return ask()
        except (SnapshotAborted, SystemStopped):
            return None

    return eventually(try_now, 30)
