"""A program that ends while a thread of it still tells.

Arguments: the addresses of the cluster and of the storage, and "ends"; or "leaves": it calls `ray.shutdown()` before.
It prints its last snapshot, and the error that ended the thread.
"""

import atexit
import sys
import threading
import time

tellers = []
atexit.register(lambda: [teller.join(60.0) for teller in tellers])  # the first one, so it runs when Ray has ended

import ray  # noqa: E402

import rayshot  # noqa: E402
from rayshot import SnapshotConfig  # noqa: E402
from rayshot.errors import SystemStopped  # noqa: E402
from tests.runtime.healed import Counter  # noqa: E402


def main(address, storage, how):
    ray.init(address, log_to_driver=False)
    system = rayshot.init(how, storage=storage, snapshots=SnapshotConfig(interval_s=3600.0, num_to_keep=3))
    counter = Counter.options(name="counter").remote()
    ray.get(counter.read.remote())
    system.snapshot()

    def tell():
        try:
            while True:
                counter.add.tell()
                time.sleep(0.002)
        except SystemStopped as error:
            print(error.message, flush=True)

    tellers.append(threading.Thread(target=tell, daemon=True))
    tellers[0].start()
    time.sleep(1.0)
    print(str(system.snapshot().id), flush=True)
    if how == "leaves":
        ray.shutdown()
        tellers[0].join(60.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
