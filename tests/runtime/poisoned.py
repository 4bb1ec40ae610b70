"""Actors that some messages kill."""

import os
import signal
from pathlib import Path

import rayshot
from tests.runtime.healed import is_new


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@rayshot.actor
class Eater:
    """Keeps what it ate. `folder` has a file for each poison to which an antidote was found."""

    def __init__(self, folder):
        self.folder, self.eaten = folder, []

    def eat(self, what):
        if str(what).startswith("poison") and not (Path(self.folder) / what).exists():
            die()
        self.eaten.append(what)

    def read(self):
        return list(self.eaten)

    def die_once(self, name):
        if is_new(str(Path(self.folder) / name)):
            die()

    def eat_later(self, what):
        rayshot.current().after(0.1, self.eat, what)

    def raise_again(self, what):
        raise ValueError(what)


@rayshot.actor
class Cook:
    """Feeds an eater by a call, and keeps what came of it."""

    def __init__(self, eater):
        self.eater, self.said = eater, []

    def feed(self, what):
        self.eater.eat.remote(what).then(self.fine, what, on_error=self.failed)

    def fine(self, _result, what):
        self.said.append((what, "fine"))

    def failed(self, error, what):
        self.said.append((what, type(error).__name__))

    def read(self):
        return list(self.said)


@rayshot.actor
class Stillborn:
    def __init__(self):
        die()

    def ready(self):
        return True
