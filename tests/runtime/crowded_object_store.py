"""Run in a cluster of its own: others fill the object store while a child reads an array that its actor dropped."""

import logging
import sys
import threading
from pathlib import Path

import numpy as np
import ray

import rayshot
from tests.runtime.zero_copy import BYTES, Keeper
from tests.waiting import eventually


def main(folder, how):
    ray.init(
        num_cpus=4,
        object_store_memory=BYTES * 5 // 2,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        _system_config={"automatic_object_spilling_enabled": False, "object_store_full_delay_ms": 10},
    )
    store = mapped_at(ray.get(ray.put(np.zeros(BYTES, np.uint8))))
    with rayshot.init("crowded", storage=folder / "shots", snapshots=rayshot.SnapshotConfig()) as system:
        keeper = Keeper.options(name="keeper", capture=how).remote()
        ray.get(keeper.fetch.remote(str(folder)))
        if how == "auto":
            system.snapshot()  # shows how large the state is
        taken = []
        photographer = threading.Thread(target=lambda: taken.append(system.snapshot()))
        photographer.start()
        eventually((folder / "reached").exists, 30.0)
        ray.get(keeper.drop.remote())
        others = [ray.put(np.full(BYTES, 9, np.uint8)) for _ in range(8)]  # what finds no room goes to slow storage
        (folder / "open").touch()
        photographer.join()
        assert taken[0].verify().sound
        print("recorded", np.unique(taken[0].states()["keeper"]["array"]), "beside", len(others), "others")
        others.clear()
        assert eventually(lambda: ray.get(keeper.held.remote()) == 0)
        eventually(lambda: all(mapped_at(ray.get(one)) == store for one in [put_again(), put_again()]))
        print("then there was room for two")


def put_again():
    return ray.put(np.zeros(BYTES, np.uint8))


def mapped_at(array):
    """The file that the memory of an array is a part of."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return line.split(maxsplit=5)[-1]
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
