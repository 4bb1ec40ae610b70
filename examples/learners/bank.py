"""Four accounts that pay each other, pass a token on, and keep orders and prices."""

import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import rayshot


@dataclass
class Order:
    """Something that a customer wants to have."""

    item: str
    amount: Decimal
    tags: list[str] = field(default_factory=list)


@rayshot.actor
class Account:
    """An account: money, maybe the token, orders by their number, and the prices that it knows."""

    def __init__(self, balance: int, *, has_token: bool = False) -> None:
        self.balance = balance
        self.has_token = has_token
        self.orders: dict[str, Order] = {}
        self.prices = {f"k{number:03}": number / 4 for number in range(100)}

    def deposit(self, amount: int) -> None:
        """Take what another account paid."""
        self.balance += amount

    def pay(self, to: Any, amount: int) -> None:
        """Send money on its way."""
        self.balance -= amount
        to.deposit.tell(amount)

    def pass_on(self, to: Any) -> None:
        """Give the token away."""
        self.has_token = False
        to.take.tell()

    def take(self) -> None:
        """Have the token from now on."""
        self.has_token = True

    def order(self, number: str, item: str, amount: str) -> None:
        """Note an order."""
        self.orders[number] = Order(item, Decimal(amount), ["new"])

    def tick(self) -> None:
        """All prices go up."""
        self.prices = {key: price + 0.25 for key, price in self.prices.items()}

    def read(self) -> int:
        """What it has."""
        return self.balance

    def work(self, seconds: float) -> None:
        """Be busy."""
        time.sleep(seconds)
