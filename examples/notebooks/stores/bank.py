"""A bank of five branches that loses money, once."""

import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rayshot

BRANCHES = ("lagos", "osaka", "paris", "quito", "turin")
BALANCE = 1_000
DAYS = 6
TRANSFERS_A_DAY = 12
SEED = 31_396
BUSY_S = 2.0


@rayshot.actor(deterministic=True)
class Branch:
    """A branch of a bank: its money, and the numbers of the payments that it took in."""

    def __init__(self, balance: int, first_number: int) -> None:
        self.balance = balance
        self.number = first_number
        self.seen: list[int] = []

    def transfer(self, to: Any, amount: int) -> None:
        """Send money on its way, under a number of three digits."""
        self.balance -= amount
        to.deposit.tell(amount, self.number)
        self.number = next_number(self.number)

    def deposit(self, amount: int, number: int) -> None:
        """Take money in. A payment that comes twice counts once."""
        if number in self.seen:
            return
        self.seen.append(number)
        self.balance += amount

    def close_the_books(self, seconds: float) -> None:
        """Be busy; what comes meanwhile waits."""
        time.sleep(seconds)

    def read(self) -> int:
        """What it has."""
        return self.balance


def next_number(number: int) -> int:
    """The number of a branch's next payment: as good as random, and always the same."""
    return (number * 421 + 17) % 1_000


@dataclass(frozen=True)
class Transfer:
    """One order to a branch; `number` is that of the payment which follows from it."""

    day: int
    sender: str
    receiver: str
    amount: int
    number: int


def plan(seed: int) -> list[Transfer]:
    """All transfers of all days."""
    dice = random.Random(seed)
    numbers = {name: dice.randrange(1_000) for name in BRANCHES}
    found = []
    for day in range(1, DAYS + 1):
        for _ in range(TRANSFERS_A_DAY):
            sender, receiver = dice.sample(BRANCHES, 2)
            found.append(Transfer(day, sender, receiver, 5 * dice.randint(1, 16), numbers[sender]))
            numbers[sender] = next_number(numbers[sender])
    return found


def busy_on(day: int) -> str:
    """The branch that closes its books on that day."""
    return BRANCHES[day % len(BRANCHES)]


def lost(transfers: list[Transfer]) -> list[Transfer]:
    """Payments whose number their receiver has seen already."""
    seen: defaultdict[str, Counter[int]] = defaultdict(Counter)
    found = []
    for transfer in transfers:
        if seen[transfer.receiver][transfer.number]:
            found.append(transfer)
        seen[transfer.receiver][transfer.number] += 1
    return found


def make(storage: Path) -> None:
    """Run the bank for some days. Take a snapshot each evening, while one branch is busy, and one when all is done."""
    import ray  # noqa: PLC0415 - who replays a snapshot imports this module, and needs no Ray

    transfers = plan(SEED)
    (gone,) = lost(transfers)
    of_the_day = [transfer.sender for transfer in transfers if transfer.day == gone.day]
    assert gone.receiver == busy_on(gone.day), "it is to be in flight in the evening of its day"
    assert gone.receiver not in of_the_day, "and its receiver is to send nothing then, so that books tell who it was"
    with rayshot.init("bank", storage=storage, trace="full", snapshots=rayshot.SnapshotConfig()) as system:
        numbers = {transfer.sender: transfer.number for transfer in reversed(transfers)}
        branches = {name: Branch.options(name=name).remote(BALANCE, numbers[name]) for name in BRANCHES}
        for day in range(1, DAYS + 1):
            busy = busy_on(day)
            branches[busy].close_the_books.tell(BUSY_S)
            for transfer in transfers:
                if transfer.day == day:
                    branches[transfer.sender].transfer.tell(branches[transfer.receiver], transfer.amount)
            open_ones = [branch for name, branch in branches.items() if name != busy]
            for _ in ("their own transfers", "what these sent"):
                ray.get([branch.read.remote() for branch in open_ones])
            evening = system.snapshot()
            for _ in ("what waited at the busy branch", "what that sent"):
                ray.get([branch.read.remote() for branch in branches.values()])
            night = system.snapshot()
            print(
                f"bank, day {day}: {busy} is busy, {evening.in_flight} messages in flight, {night.in_flight} at night"
            )
    print(f"bank: {gone} was lost")
