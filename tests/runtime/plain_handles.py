"""Run three times, each in a cluster of its own: stores handles of plain Ray actors, then restores them twice."""

import json
import logging
import sys

import ray

import rayshot
from tests.runtime.sides import NAMESPACE, USES, Desk, Side
from tests.waiting import eventually


def first(storage):
    with rayshot.init("desks", storage=storage, snapshots=rayshot.SnapshotConfig()) as system:
        desk = Desk.options(name="desk").remote()
        ray.get(desk.furnish.remote())
        desk.begin_snapshot.tell(desk)
        told = ray.get(desk.answers.remote())
        eventually(system.snapshots)
        return told, ray.get(desk.use.remote("handle", "options", "method", "queue", "named"))


def again(storage):
    with rayshot.restore(storage=storage) as system:
        desk = system.get_actor("desk")
        told, used = ray.get([desk.answers.remote(), desk.use.remote(*USES)])
        Side.options(name="side", namespace=NAMESPACE, lifetime="detached").remote()
        named = ray.get(desk.use.remote("named", "old named"))
        system.snapshot()
        return told, used, named


if __name__ == "__main__":
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    print(json.dumps({"first": first, "again": again}[sys.argv[1]](sys.argv[2])))
