"""An account of a bank on the fake, which the test can stop in a handler."""

from typing import ClassVar

import rayshot
from rayshot.errors import RayshotError
from rayshot.runtime.door import door
from tests.fake.threads import Event, Thread

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

    def transfer_behind(self, gate, to, amount):
        self.wait_at(gate)
        self.transfer(to, amount)

    def deposit(self, amount):
        self.balance += amount

    def read(self):
        return self.balance

    def wait_at(self, gate):
        Account.gates[gate].wait()

    def photograph(self):
        rayshot.current().snapshot()

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


def total(snapshot):
    """All money, in accounts and on its way."""
    held = sum(state["balance"] for state in snapshot.states().values())
    channels = snapshot.channels.values()
    return held + sum(m.args[0] for channel in channels for m in channel.messages if m.method == "deposit")


def photograph(system, **settings):
    """A thread that takes a snapshot, and the list that will have it, or the error of rayshot."""
    taken = []

    def take():
        try:
            taken.append(system.snapshot(**settings))
        except RayshotError as error:
            taken.append(error)

    thread = Thread(take)
    thread.start()
    return thread, taken
