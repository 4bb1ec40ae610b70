"""Run in a cluster of its own, whose control service may keep all it knows on a disk: where do a driver's keys get to?

`python keys_in_ray.py FOLDER`: FOLDER holds the keys. Prints what the snapshots say.
"""

import logging
import os
import signal
import sys
import time
from pathlib import Path

import ray

import rayshot
from rayshot.errors import SnapshotAborted, SystemStopped
from rayshot.runtime.door.door import NAMESPACE
from rayshot.runtime.door.naming import coordinator_name
from tests.runtime.workloads import Account


def kill(name):
    actor = ray.get_actor(name, namespace=NAMESPACE)
    os.kill(ray.get(actor.__ray_call__.remote(lambda self: os.getpid())), signal.SIGKILL)


def kill_all_that_hold_keys():
    for entry in ray.util.list_named_actors(all_namespaces=True):
        if "/vault/" in entry["name"]:
            kill(entry["name"])
    kill(coordinator_name("bank"))


def refused(system):
    """How snapshots end when the new coordinator has taken over."""
    while True:
        try:
            system.snapshot()
        except (SnapshotAborted, SystemStopped) as error:
            if error.evidence.get("reason") != "coordinator_lost":
                return error.evidence.get("reason")
        time.sleep(0.1)


def snapshot_after_take_over(system):
    while True:
        try:
            return system.snapshot()
        except (SnapshotAborted, SystemStopped) as error:
            if error.evidence.get("reason") == "keys_missing":
                raise
            time.sleep(0.1)


def main(folder):
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    os.environ["RAYSHOT_SIGNING_KEY_FILE"] = str(folder / "signing.key")  # behind it: Ray's processes have none of it
    os.environ["RAYSHOT_ENCRYPTION_KEY_FILE"] = str(folder / "encryption.key")
    system = rayshot.init("bank", storage=folder / "shots")
    alice = Account.options(name="alice").remote(1)
    first = system.snapshot()
    kill(coordinator_name("bank"))
    ray.get(alice.deposit.remote(1))
    second = snapshot_after_take_over(system)
    for snapshot in (first, second):
        print("said:", snapshot.verify().trust.value, snapshot.states(), snapshot.manifest.data_key is not None)
    kill_all_that_hold_keys()
    with_keys = dict(os.environ)
    for name in ("RAYSHOT_SIGNING_KEY_FILE", "RAYSHOT_ENCRYPTION_KEY_FILE"):
        del os.environ[name]
    print("said:", refused(system))
    os.environ.update(with_keys)
    ray.get(alice.deposit.remote(1))
    third = system.snapshot()  # the driver gives its keys again
    print("said:", third.verify().trust.value, third.states(), third.manifest.data_key is not None)
    system.shutdown()
    system = rayshot.restore(storage=folder / "shots")
    print("said:", ray.get(system.get_actor("alice").read.remote()))
    system.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
