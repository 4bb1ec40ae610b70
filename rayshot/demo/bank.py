"""The actors of the demo, and the driver that sends them orders."""

import random
import time
from collections.abc import Mapping, Sequence
from hashlib import pbkdf2_hmac
from typing import Any

import rayshot
from rayshot.demo import SYSTEM
from rayshot.runtime.door import door

ACCOUNTS = ("alice", "bob", "carol", "dave")
INSPECTOR = "inspector"
OPENING_BALANCE = 1_000
STAMP_ROUNDS = 4_000
"""Rounds of hashing for a receipt: some milliseconds, so that messages queue at accounts, as in any busy system."""
RECEIPTS_KEPT = 3
ORDERS_AT_ONCE = 12
FIRST_ORDERS = 5
AMOUNT_MAX = 40

Accounts = Mapping[str, rayshot.ActorHandle]


@rayshot.actor(deterministic=True)
class BankAccount:
    """Money, and the last receipts. Between two accounts money is in a message and nowhere else."""

    def __init__(self, owner: str, balance: int) -> None:
        self.balance = balance
        self.owner = owner
        self.paid: dict[str, int] = {}
        self.receipts: list[str] = []
        self.refused = 0

    def transfer(self, to: rayshot.ActorHandle, payee: str, amount: int) -> None:
        """Send money to another account, if there is enough."""
        if amount > self.balance:
            self.refused += 1
            return
        self.balance -= amount
        self.paid[payee] = self.paid.get(payee, 0) + amount
        to.deposit.tell(amount, f"{amount} from {self.owner} #{self._stamp(amount)}")

    def deposit(self, amount: int, receipt: str) -> None:
        """Take money in, with the receipt of its sender."""
        self.balance += amount
        self.receipts = [*self.receipts, f"{receipt} #{self._stamp(amount)}"][-RECEIPTS_KEPT:]

    def read(self) -> int:
        """The balance."""
        return self.balance

    def _stamp(self, amount: int) -> str:
        """A proof that the account has seen the transfer."""
        return pbkdf2_hmac("sha256", str(amount).encode(), self.owner.encode(), STAMP_ROUNDS, dklen=2).hex()


@rayshot.actor(deterministic=True)
class Inspector:
    """Asks one account after the other, and adds up: money in flight meanwhile is missing, or counted twice."""

    def __init__(self) -> None:
        self.sums: list[int] = []

    def inspect(self, accounts: Sequence[rayshot.ActorHandle]) -> None:
        """Begin a round."""
        self._ask(0, accounts)

    def add(self, balance: int, so_far: int, others: Sequence[rayshot.ActorHandle]) -> None:
        """Add the answer of an account."""
        if others:
            self._ask(so_far + balance, others)
        else:
            self.sums = [*self.sums, so_far + balance]

    def _ask(self, so_far: int, accounts: Sequence[rayshot.ActorHandle]) -> None:
        accounts[0].read.remote().then(self.add, so_far, accounts[1:])


def open_accounts(system: rayshot.System) -> None:
    """Make the first actors, and give them work."""
    accounts = {name: BankAccount.options(name=name).remote(name, OPENING_BALANCE) for name in ACCOUNTS}  # type: ignore[attr-defined]
    Inspector.options(name=INSPECTOR).remote()  # type: ignore[attr-defined]
    for seed in range(FIRST_ORDERS):
        order(accounts, random.Random(seed))  # noqa: S311 - each demo gives the same orders
    send_inspector(system, accounts)


def send_inspector(system: rayshot.System, accounts: Accounts) -> None:
    """Let the inspector make a round."""
    system.get_actor(INSPECTOR).inspect.tell(list(accounts.values()))


def order(accounts: Accounts, chance: random.Random) -> None:
    """Order some transfers, and wait for none of them."""
    for _ in range(ORDERS_AT_ONCE):
        payer, payee = chance.sample(ACCOUNTS, 2)
        accounts[payer].transfer.tell(accounts[payee], payee, chance.randint(1, AMOUNT_MAX))


def shop(accounts: Accounts, seconds: float, seed: int) -> None:
    """Order transfers for so many seconds. Read a balance in between: that call waits behind the orders before it."""
    chance, until = random.Random(seed), time.monotonic() + seconds  # noqa: S311
    while time.monotonic() < until:
        order(accounts, chance)
        door.get(accounts[chance.choice(ACCOUNTS)].read.remote())


class Shop:
    """A plain actor of Ray, outside the system, that sends messages into it."""

    @door.method("orders")
    def shop(self, accounts: Accounts, seconds: float, seed: int) -> None:
        """See `shop`."""
        shop(accounts, seconds, seed)

    @door.method("orders")
    def is_open(self) -> bool:
        """True as soon as its process runs."""
        return True


def open_shop() -> Any:
    """Make the shop, which ends with its cluster."""
    return door.make(Shop, {"orders": 1}, f"{SYSTEM}-shop", num_cpus=0)
