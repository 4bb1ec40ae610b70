"""Yesterday's classes and today's, side by side."""

import time
from dataclasses import dataclass

import rayshot


@dataclass
class Money:
    amount: int


@dataclass
class Coin:
    """What Money has become."""

    amount: int


@rayshot.actor
class Wallet:
    def __init__(self, amount):
        self.held = [Money(amount)]

    def put(self, money):
        self.held.append(money)

    def pay(self, to, amount):
        to.put.tell(Money(amount))

    def pause(self, seconds):
        time.sleep(seconds)

    def read(self):
        return [(type(one).__name__, one.amount) for one in self.held]

    def befriend(self, other):
        self.friend = other


@rayshot.actor(version=2)
class Purse:
    """What Wallet has become."""

    def put(self, coin):
        self.coins[coin.amount] = coin

    def pay(self, to, amount):
        to.put.tell(Coin(amount))

    def pause(self, seconds):
        time.sleep(seconds)

    def read(self):
        return sorted((type(one).__name__, one.amount) for one in self.coins.values())

    def befriend(self, other):
        self.friend = other

    def count(self):
        return len(self.coins)

    def ask_friend(self):
        self.friend.count.tell()

    @staticmethod
    def migrate(state, from_version):
        assert from_version == 1
        if any(money.amount > 1000 for money in state["held"]):
            raise ValueError("too rich")
        return {**state, "coins": {money.amount: money for money in state.pop("held")}}


class Unwilling:
    """Takes no state."""

    def __setstate__(self, state):
        raise OSError("not today")


@rayshot.actor
class UnwillingWallet(Unwilling):
    pass
