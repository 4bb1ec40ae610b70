"""A system on a Ray of its own that shows all that metrics tell, in a second life, until its stdin ends.

Argument: the storage. Prints the address of the node's metrics.
"""

import logging
import sys
import threading
import time
from contextlib import suppress

import ray

import rayshot
from rayshot.errors import SnapshotAborted


@rayshot.actor
class Account:
    def __init__(self) -> None:
        self.balance = 0
        self.lock: threading.Lock | None = None

    def add(self, amount: int) -> None:
        self.balance += amount

    def fail(self) -> None:
        raise ValueError("no such account")

    def hold(self) -> None:
        self.lock = threading.Lock()

    def let_go(self) -> None:
        self.lock = None


@rayshot.actor
class Till:
    """Slower than the printer, whose outbox is full so."""

    def take(self) -> None:
        time.sleep(0.001)


@rayshot.actor
class Printer:
    def print(self, till: rayshot.ActorHandle, count: int) -> None:
        for _ in range(count):
            till.take.tell()


def begin(_: rayshot.System) -> None:
    Account.options(name="alice").remote()
    Till.options(name="till").remote()
    Printer.options(name="printer").remote()


def main(storage: str) -> None:
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    every = rayshot.SnapshotConfig(interval_s=1)
    rayshot.resume("bank", storage=storage, begin=begin, snapshots=every).shutdown()
    system = rayshot.resume("bank", storage=storage, begin=begin, snapshots=every)
    node = ray.nodes()[0]
    print(f"{node['NodeManagerAddress']}:{node['MetricsExportPort']}", flush=True)
    threading.Thread(target=work, args=(system,), daemon=True).start()
    sys.stdin.read()
    system.shutdown()
    ray.shutdown()


def work(system: rayshot.System) -> None:
    alice, till, printer = (system.get_actor(name) for name in ("alice", "till", "printer"))
    printer.print.tell(till, 100_000)
    while True:
        for _ in range(100):
            alice.add.tell(1)
        alice.fail.tell()
        printer.print.tell(till, 1_000)
        alice.hold.tell()
        with suppress(SnapshotAborted):
            system.snapshot()
        alice.let_go.tell()
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
