"""Run twice, each time in a cluster of its own: stores a bank, then restores it."""

import logging
import sys

import ray

import rayshot


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

    def read(self):
        return self.balance


def first(storage):
    with rayshot.init("bank", storage=storage) as system:
        alice = Account.options(name="alice").remote(100)
        bob = Account.options(name="bob").remote(100)
        alice.transfer.tell(bob, 10)
        system.snapshot()
    return "stored"


def second(storage):
    with rayshot.restore(storage=storage) as system:
        alice, bob = system.get_actor("alice"), system.get_actor("bob")
        ray.get(alice.read.remote())
        while ray.get(bob.read.remote()) != 110:
            pass
        told = f"restored alice={ray.get(alice.read.remote())} bob=110 life={system.incarnation}"
        ray.shutdown()
    assert not ray.is_initialized(), "the system's end has started a cluster"
    return told


if __name__ == "__main__":
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    print({"first": first, "second": second}[sys.argv[1]](sys.argv[2]))
