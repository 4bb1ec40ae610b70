"""The program of a system that commands reach: `python operated.py STORAGE NAME`. It stays until its system ends."""

import sys
import time

import ray

import rayshot
from rayshot.errors import SystemDown


@rayshot.actor
class Account:
    """Lives in a script: no other process can import it."""

    def __init__(self, balance):
        self.balance = balance

    def transfer(self, to, amount):
        self.balance -= amount
        to.deposit.tell(amount)

    def deposit(self, amount):
        self.balance += amount

    def nap(self, seconds):
        time.sleep(seconds)


def begin(_system):
    for name in ("alice", "bob"):
        Account.options(name=name).remote(100)


def main(storage, name):
    ray.init(log_to_driver=False, logging_level="ERROR")
    system = rayshot.resume(name, storage=storage, begin=begin, snapshots=rayshot.SnapshotConfig())
    alice, bob = system.get_actor("alice"), system.get_actor("bob")
    print(f"life {system.incarnation}", flush=True)
    try:
        for line in sys.stdin:
            seconds = float(line)
            alice.transfer.tell(bob, 1)
            bob.nap.tell(seconds)
            print("told", flush=True)
    except SystemDown as error:
        print(f"ended: {error.kind}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
