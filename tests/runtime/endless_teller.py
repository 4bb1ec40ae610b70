"""A program that ends while a thread of it still tells. Arguments: the address of the cluster, and of the storage."""

import atexit
import sys
import threading
import time

import ray

over = threading.Event()
atexit.register(over.set)  # registered between the two: it runs after rayshot has waited, and before Ray ends

import rayshot  # noqa: E402
from rayshot import SnapshotConfig  # noqa: E402
from rayshot.errors import SystemDown  # noqa: E402
from tests.runtime.healed import Counter  # noqa: E402


def main(address, storage):
    ray.init(address, log_to_driver=False)
    system = rayshot.init("endless", storage=storage, snapshot=SnapshotConfig(interval_s=3600.0, num_to_keep=3))
    counter = Counter.options(name="counter").remote()
    ray.get(counter.read.remote())
    system.snapshot()

    def tell():
        try:
            while not over.is_set():
                counter.add.tell()
                time.sleep(0.002)
        except SystemDown:
            return

    threading.Thread(target=tell, daemon=True).start()
    time.sleep(1.0)
    print(str(system.snapshot().id), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
