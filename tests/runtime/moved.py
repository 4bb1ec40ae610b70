"""A process of its own: a large state goes to one storage, is proved, copied to another, and restored from there."""

import logging
import sys
import time

import ray

import rayshot
from tests.runtime.workloads import Holder


def main(source, destination, megabytes):
    size = int(megabytes) * 1_000_000 // 8
    ray.init("local", num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    took = {}

    def timed(name, work):
        began = time.perf_counter()
        result = work()
        took[name] = time.perf_counter() - began
        return result

    system = rayshot.init("moved", storage=source, snapshots=rayshot.SnapshotConfig())
    holder = Holder.options(name="holder").remote(size)
    total, _, _ = ray.get(holder.total.remote())
    snapshot = timed("snapshot", system.snapshot)
    assert timed("verify", snapshot.verify).sound
    system.shutdown()
    copied = timed("copy", lambda: rayshot.copy(source, destination))
    assert copied.record.manifest_digest == snapshot.record.manifest_digest
    restored = timed("restore", lambda: rayshot.restore(storage=destination))
    assert ray.get(restored.get_actor("holder").total.remote()) == (total, True, True)
    assert restored.snapshot().verify().sound
    restored.shutdown()
    print("moved", *(f"{name} {seconds:.1f} s" for name, seconds in took.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
