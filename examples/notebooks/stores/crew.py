"""Two workers that split jobs until nothing is left, with snapshots that overlap."""

import threading
import time
from pathlib import Path
from typing import Any

import ray

import rayshot
from rayshot import SnapshotConfig

JOB_S = 0.0002
SIZE = 4_096
PAIRS_MAX = 8
BEFORE, BEHIND = 2, 2
"""Snapshots before the two that overlap, and behind the end."""


@rayshot.actor(num_cpus=0)
class Worker:
    """Cuts a job in two, keeps one half for itself and sends the other one to its mate."""

    def __init__(self) -> None:
        self.mate: Any = None
        self.itself: Any = None
        self.done = 0

    def meet(self, itself: Any, mate: Any) -> None:
        """Learn whom jobs go to."""
        self.itself, self.mate = itself, mate

    def job(self, size: int) -> None:
        """Do a job of one piece, or pass two halves on."""
        time.sleep(JOB_S)
        self.done += 1
        if size > 1:
            self.itself.job.tell(size // 2)
            self.mate.job.tell(size - size // 2)

    def count(self) -> int:
        """How many jobs it did."""
        return self.done


def make(storage: Path) -> None:
    """Work, take snapshots, two of them at once, and some more when all is done."""
    with rayshot.init("crew", storage=storage, snapshots=SnapshotConfig(max_concurrent=4)) as system:
        workers = {name: Worker.options(name=name).remote() for name in ("ada", "bob")}
        ada, bob = workers.values()
        ada.meet.tell(ada, bob)
        bob.meet.tell(bob, ada)
        ray.get([ada.count.remote(), bob.count.remote()])
        ada.job.tell(SIZE)
        for _ in range(BEFORE):
            time.sleep(0.3)
            _tell(system.snapshot())
        time.sleep(0.2)
        if not any(_cross(system) for _ in range(PAIRS_MAX)):
            raise SystemExit("no two snapshots crossed: make it again")
        while not _all_done(workers):
            time.sleep(0.1)
        for _ in range(BEHIND):
            time.sleep(0.3)
            _tell(system.snapshot())


def _cross(system: Any) -> bool:
    """Take two snapshots at once, each begun by a worker, and see whether neither lies before the other."""
    begin = threading.Barrier(2)

    def take(name: str) -> None:
        begin.wait()
        _tell(system.snapshot(initiator=name, spread="markers"))

    threads = [threading.Thread(target=take, args=(name,)) for name in ("ada", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = system.snapshots()[-2:]
    return bool(first.relation(second).name == "incomparable")


def _all_done(workers: dict[str, Any]) -> bool:
    return sum(ray.get([worker.count.remote() for worker in workers.values()])) == 2 * SIZE - 1


def _tell(snapshot: Any) -> None:
    done = {name: state["done"] for name, state in snapshot.states().items()}
    print(f"crew: {snapshot.id}: {done}, {snapshot.in_flight} in flight")
