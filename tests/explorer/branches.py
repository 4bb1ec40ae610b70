"""Branches of a bank that pay each other, so that messages are in flight whenever somebody looks."""

import time

import ray

import rayshot

NAMES = ("lagos", "osaka", "paris", "quito", "turin")


@rayshot.actor
class Branch:
    """Passes payments on, one hop after the other; `pace_s` is how long it takes for one."""

    def __init__(self, seed, pace_s):
        self.balance = 100
        self.seed = seed
        self.pace_s = pace_s
        self.handled = 0
        self.ledger = {"in": 0, "out": 0}
        self.api_key = "sesame"
        self.peers = {}

    def meet(self, peers):
        self.peers = peers

    def ready(self):
        return True

    def move(self, hops):
        self.seed = (self.seed * 7919 + 13) % 10007
        amount = min(self.balance, 1 + self.seed % 9)
        self.balance -= amount
        self.ledger["out"] += amount
        names = sorted(self.peers)
        self.peers[names[self.seed % len(names)]].deposit.tell(amount, hops)

    def deposit(self, amount, hops):
        self.handled += 1
        self.balance += amount
        self.ledger["in"] += amount
        time.sleep(self.pace_s)
        if hops:
            self.move(hops - 1)


def open_branches():
    """Branches that know each other, ready."""
    branches = {
        name: Branch.options(name=name).remote(7 + 3 * place, 0.002 * (1 + place % 3))
        for place, name in enumerate(NAMES)
    }
    for name, branch in branches.items():
        branch.meet.tell({other: one for other, one in branches.items() if other != name})
    ray.get([branch.ready.remote() for branch in branches.values()])
    return branches


def photograph(system):
    """Payments under way, and photographs of them: at once, labelled, and when all is quiet."""
    branches = open_branches()
    for _ in range(6):
        for branch in branches.values():
            branch.move.tell(25)
    time.sleep(0.15)
    first = system.snapshot()
    time.sleep(0.1)
    second = system.savepoint("before the upgrade")
    deadline = time.monotonic() + 60
    while (last := system.snapshot()).in_flight and time.monotonic() < deadline:
        time.sleep(0.2)
    return first, second, last
