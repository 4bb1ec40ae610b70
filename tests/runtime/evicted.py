"""A program that leaves with a savepoint when it is told to end: ADDRESS STORAGE SCOPE WITHIN_S BUSY_S are arguments.

With a sixth one, `watching`, it looks at its system all the time, and is done when that is down.
"""

import os
import sys
import time

import ray

import rayshot
from rayshot import FailureConfig, SnapshotConfig
from rayshot.errors import SystemDown
from tests.runtime.workloads import Sluggish


def begin(_system):
    Sluggish.options(name="worker").remote(0)


def main(address, storage, scope, within_s, busy_s, how=""):
    ray.init(address, logging_level="ERROR", log_to_driver=False)
    settings = {"snapshots": SnapshotConfig(), "failure": FailureConfig(scope=scope)}
    system = rayshot.resume("bank", storage=storage, begin=begin, **settings)
    system.stop_on_sigterm("evicted", float(within_s))
    system.stop_on_sigterm("evicted", float(within_s))  # twice does no harm
    worker = system.get_actor("worker")
    worker.work.tell(float(busy_s))
    while not any(actor.handler or not float(busy_s) for actor in system.status().actors.values()):
        time.sleep(0.05)
    os.write(1, b"ready\n")
    try:
        while True:
            system.status() if how == "watching" else time.sleep(0.05)
    except SystemDown:
        os.write(1, b"it is down\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
