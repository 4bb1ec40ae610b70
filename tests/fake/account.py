"""An account of a bank on the fake, which the test can stop in a handler."""

from typing import ClassVar

import rayshot
from rayshot.runtime.door import door
from tests.fake.threads import Event

NAMES = ("a", "b", "c", "d")


@rayshot.actor(capture="inline")
class Account:
    """`gates` are events by name, for which handlers wait."""

    gates: ClassVar = {}

    def __init__(self, balance):
        self.balance = balance

    def transfer(self, to, amount):
        self.balance -= amount
        to.deposit.tell(amount)

    def deposit(self, amount):
        self.balance += amount

    def read(self):
        return self.balance

    def wait_at(self, gate):
        Account.gates[gate].wait()

    def leave(self):
        rayshot.current().exit()


def new_gate(name):
    gate = Account.gates[name] = Event()
    return gate


def accounts():
    """One of each name, with 100 in it, that runs."""
    made = {name: Account.options(name=name).remote(100) for name in NAMES}
    door.get([account.read.remote() for account in made.values()])
    return made
