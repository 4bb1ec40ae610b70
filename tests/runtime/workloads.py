"""Actors for the tests of the runtime, in a module that Ray's workers can import."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import rayshot


@rayshot.actor
class Sluggish:
    def __init__(self, seconds):
        time.sleep(seconds)
        self.slept = seconds

    def work(self, seconds):
        time.sleep(seconds)
        self.worked_s = seconds

    def note(self, text):
        pass


@rayshot.actor
class Unfinished:
    def __init__(self, seconds):
        time.sleep(seconds)
        raise ValueError("it cannot be finished")

    def read(self):
        return 1


@dataclass(frozen=True)
class Frozen(Exception):
    reason: str

    def __str__(self):
        return self.reason


@rayshot.actor
class Account:
    def __init__(self, balance):
        self.balance = balance

    def transfer(self, to, amount):
        self.balance -= amount
        to.deposit.tell(amount)

    def deposit(self, amount):
        self.balance += amount

    def read(self):
        return self.balance

    def pause(self, seconds):
        time.sleep(seconds)

    def remember(self, what):
        self.remembered = len(what)

    def flood(self, to, count, size, pause_s):
        for _ in range(count):
            to.remember.tell(bytes(size))
            time.sleep(pause_s)

    def pause_until(self, file):
        while not Path(file).exists():
            time.sleep(0.01)

    def pause_and_say_so(self, file, seconds):
        Path(file).touch()
        time.sleep(seconds)

    def ask(self, other):
        other.read.remote().then(self.on_balance, other.name)

    def ask_and_forget(self, other):
        other.read.remote()

    def on_balance(self, balance, name):
        self.heard = (name, balance)

    def last_heard(self):
        return getattr(self, "heard", None)

    def whoami(self):
        here = rayshot.current()
        return here.name, here.sender, here.system

    def fail(self):
        raise ValueError("no such luck")

    def fail_frozen(self):
        raise Frozen("no such luck")

    def photograph(self):
        rayshot.current().snapshot()

    def leave(self):
        rayshot.current().exit()

    def leave_after(self, other):
        other.deposit.tell(1)  # its end waits until this has arrived
        self.leave()

    def touch(self, file):
        Path(file).touch()

    def leave_with_a_photograph(self):
        self.photograph()
        self.leave()

    def remind(self, seconds):
        rayshot.current().after(seconds, self.deposit, 1)

    def open_account(self, name, balance, amount):
        handle = Account.options(name=name).remote(balance)
        handle.deposit.tell(amount)
        self.child = handle

    async def read_soon(self):
        return self.balance

    def keep(self, value):
        self.kept = value

    def kept_value(self):
        return self.kept

    def kept_as_text(self):
        return f"{type(self.kept).__name__} {self.kept!r}"

    def pay_friend(self, amount):
        self.transfer(self.kept["friend"], amount)
        assert self.kept["me"].name == rayshot.current().name

    def lock(self):
        self.guard = {"conn": threading.Lock()}

    def unlock(self):
        del self.guard


@rayshot.actor
class Source:
    """Sends 1, 2, 3 ... to every sink, a burst per handler, until `total`."""

    def __init__(self, sinks, total, burst):
        self.sinks = sinks
        self.total = total
        self.burst = burst
        self.sent = 0

    def go_on(self, me):
        for _ in range(min(self.burst, self.total - self.sent)):
            self.sent += 1
            for sink in self.sinks:
                sink.take.tell(self.sent)
        if self.sent < self.total:
            me.go_on.tell(me)

    def progress(self):
        return self.sent

    def ready(self):
        return True


@rayshot.actor
class Sink:
    """Counts what is wrong: numbers that came twice or out of order."""

    def __init__(self):
        self.next = {}
        self.wrong = []

    def take(self, number):
        sender = rayshot.current().sender
        if number != self.next.get(sender, 1):
            self.wrong.append((sender, self.next.get(sender, 1), number))
        self.next[sender] = number + 1

    def pause(self, seconds):
        time.sleep(seconds)

    def ready(self):
        return True

    def report(self):
        return {sender: number - 1 for sender, number in self.next.items()}, self.wrong


@rayshot.actor
class Holder:
    """Holds a large array, twice the same one."""

    def __init__(self, size):
        import numpy as np  # every other process here does without

        self.array = np.arange(size)
        self.again = self.array

    def change(self, by):
        self.array += by

    def spoil(self):
        self.spoilt = Spoilt()

    def mend(self):
        del self.spoilt

    def total(self):
        return int(self.array.sum()), self.array is self.again, bool(self.array.flags.writeable)


class Spoilt:
    def __reduce__(self):
        raise ValueError("spoilt")


@rayshot.actor
class Renamed:
    """A class that a later version of the program knows under another name."""

    def __init__(self):
        self.balance = 7


@rayshot.actor
class Metronome:
    """Always has a timer that is due."""

    def __init__(self):
        self.beats = 0
        self.beat()

    def beat(self):
        self.beats += 1
        rayshot.current().after(0.0, self.beat)
        time.sleep(0.002)

    def count(self):
        return self.beats


class Occupant:
    """No actor of a system: it only takes room."""

    def is_there(self):
        return True


@rayshot.actor
class Nursery:
    """Makes actors that have no names of their own."""

    def __init__(self):
        self.children = []

    def pause(self, seconds):
        time.sleep(seconds)

    def make(self, count):
        self.children += [Account.remote(1) for _ in range(count)]

    def names(self):
        return [child.name for child in self.children]
