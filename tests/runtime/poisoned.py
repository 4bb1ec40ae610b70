"""Actors that some messages kill, or some items."""

import os
import signal

import rayshot


@rayshot.actor
class Eater:
    """Keeps what it ate, if it lives."""

    def __init__(self):
        self.eaten = []

    def eat(self, what):
        if what == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        self.eaten.append(what)

    def read(self):
        return list(self.eaten)


@rayshot.actor
class Diner(Eater):
    """Eats what a queue gives, for ever."""

    def __init__(self, dishes):
        super().__init__()
        self.dishes = dishes

    def dine(self):
        for what in rayshot.loop(self.dishes.get):
            self.eat(what)
