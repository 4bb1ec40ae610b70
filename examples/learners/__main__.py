"""Run the bank on Ray for some seconds and take four snapshots of it into docs/learners."""

import logging
import shutil
import time
from pathlib import Path

import ray

import rayshot
from examples.learners.bank import Account

STORAGE = Path(__file__).parents[2] / "docs" / "learners"
SNAPSHOTS = 4
BUSY_S = 1.5


def main() -> None:
    """Make the storage anew."""
    shutil.rmtree(STORAGE, ignore_errors=True)
    ray.init("local", num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with rayshot.init("bank", storage=STORAGE, snapshots=rayshot.SnapshotConfig()) as system:
        names = ("alice", "bob", "carol", "dave")
        accounts = [Account.options(name=name).remote(100, has_token=name == "alice") for name in names]
        alice, bob, carol, dave = accounts
        for number, account in enumerate(accounts):
            account.order.tell(f"o{number}", "book" if number % 2 else "lamp", f"{12 + number}.50")
        for _ in range(3 * SNAPSHOTS):
            dave.work.tell(BUSY_S)  # what comes behind it waits
        ray.get([account.read.remote() for account in accounts[:3]])
        time.sleep(BUSY_S)
        for count in range(1, SNAPSHOTS + 1):
            alice.pay.tell(dave, 10 * count)
            bob.pay.tell(carol, count)
            carol.pay.tell(alice, 2 * count)
            bob.tick.tell()
            alice.order.tell(f"n{count}", "chair", f"{20 * count}.25")
            accounts[(count - 1) % 3].pass_on.tell(accounts[count % 3])
            ray.get([account.read.remote() for account in accounts[:3]])
            snapshot = system.snapshot(label="last" if count == SNAPSHOTS else None)
            print(f"{snapshot.id}: {snapshot.in_flight} messages in flight, {snapshot.size_bytes:,} bytes")
    ray.shutdown()


if __name__ == "__main__":
    main()
