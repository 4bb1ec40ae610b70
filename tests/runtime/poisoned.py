"""An actor that some messages kill."""

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
