"""Run by itself: `python herald_program.py ADDRESS SYSTEM STORAGE` begins a system, and tells until it is killed."""

import logging
import sys

import ray

import rayshot
from rayshot import SnapshotConfig
from tests.runtime.heralds import Court


def main(address: str, name: str, storage: str) -> None:
    ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
    system = rayshot.init(name, storage=storage, snapshots=SnapshotConfig(interval_s=None))
    court = Court.assemble(system)
    court.tell()
    system.snapshot()
    print("begun", flush=True)
    while True:
        court.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
