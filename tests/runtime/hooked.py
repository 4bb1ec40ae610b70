"""Actors with hooks."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import time
from pathlib import Path

import rayshot


@rayshot.actor
class Clerk:
    """Keeps its counts in the state, and a connection beside it, which only the thread that opened it may use."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0
        self.open()

    def open(self):
        self.file = sqlite3.connect(Path(self.folder) / "book.db")
        self.file.execute("create table if not exists said (what text)")

    def __getstate__(self):
        return {"folder": self.folder, "count": self.count}

    def say(self, what):
        self.file.execute("insert into said values (?)", (f"{what} {os.getpid()} {self.count}",))
        self.file.commit()

    def on_rollback(self):
        self.say("goes back")
        self.file.close()

    def on_restore(self):
        self.open()
        self.say("is back")

    def add(self):
        self.count += 1
        self.say("adds")

    def read(self):
        return self.count

    def said(self):
        return [what for (what,) in self.file.execute("select what from said")]


@rayshot.actor
class Odd:
    """What its hooks do says a file, so that it can change: the state goes back."""

    def __init__(self, folder):
        self.folder, self.heard = folder, []

    def does(self, hook, what):
        return (Path(self.folder) / f"{hook}-{what}").exists()

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.does("set_state", "raises"):
            raise ConnectionRefusedError("no such database")
        if self.does("set_state", "mistakes"):
            with (Path(self.folder) / "set_state-mistakes").open("a") as file:
                file.write(".")
            raise TypeError("this class takes no such state")
        if self.does("set_state", "kills"):
            os.kill(os.getpid(), signal.SIGKILL)

    def on_rollback(self):
        if self.does("on_rollback", "raises"):
            raise OSError("the connection is gone")
        until = time.monotonic() + (60.0 if self.does("on_rollback", "sleeps") else 0.0)
        while time.monotonic() < until:
            time.sleep(0.01)
        while self.does("on_rollback", "hangs"):
            with contextlib.suppress(BaseException):
                time.sleep(0.05)
        (Path(self.folder) / "on_rollback-ended").touch()

    def on_restore(self):
        if self.does("on_restore", "raises"):
            raise OSError("no such socket")
        if self.does("on_restore", "is_cancelled"):
            raise asyncio.CancelledError

    def read(self):
        return self.heard


@rayshot.actor
class Teller:
    def __init__(self, to):
        self.to = to

    def on_restore(self):
        self.to.hear.tell(os.getpid())
        self.to.hear.remote(0)

    def ready(self):
        return True
