"""Run in a cluster of its own, whose object store is full: a snapshot of states that would not fit into it."""

import logging
import sys

import numpy as np
import ray

import rayshot
from tests.runtime.workloads import Account, Holder

STORE_BYTES = 80 << 20


def main(storage):
    ray.init(
        num_cpus=8,
        object_store_memory=STORE_BYTES,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        _system_config={"automatic_object_spilling_enabled": False, "object_store_full_delay_ms": 10},
    )
    pinned = [ray.put(np.zeros(STORE_BYTES // 8, np.uint8)) for _ in range(12)]  # what is beyond goes to slow storage
    with rayshot.init("full", storage=storage, snapshots=rayshot.SnapshotConfig()) as system:
        holders = [Holder.options(name=how, capture=how).remote(2_000_000) for how in ("fork", "inline")]
        account = Account.options(name="account").remote(0)
        ray.get([account.read.remote(), *(holder.total.remote() for holder in holders)])
        account.pause.tell(1.0)
        for _ in range(40):
            account.remember.tell(bytes(100_000))
        snapshot = system.snapshot()
        assert snapshot.verify().sound
        states = snapshot.states()
        assert all(np.array_equal(states[how]["array"], np.arange(2_000_000)) for how in ("fork", "inline"))
    print(f"committed beside {len(pinned)} objects, with {snapshot.in_flight} messages in flight")


if __name__ == "__main__":
    main(sys.argv[1])
