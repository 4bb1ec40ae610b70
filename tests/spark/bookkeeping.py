"""Actors in a module that Ray's workers can import."""

import time
from pathlib import Path

import rayshot


@rayshot.actor
class Account:
    def __init__(self, balance):
        self.balance = balance

    def transfer(self, to, amount):
        self.balance -= amount
        to.deposit.tell(amount, memo=f"payment of {amount}")

    def deposit(self, amount, memo=""):
        self.balance += amount

    def pause_until(self, file):
        while not Path(file).exists():
            time.sleep(0.01)

    def read(self):
        return self.balance
