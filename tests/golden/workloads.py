"""The actors whose snapshots are kept: change nothing here, a recorded state holds their names."""

import asyncio
import dataclasses
import enum
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import ray

import rayshot


@rayshot.actor(deterministic=True, version=2)
class Account:
    def __init__(self, balance):
        self.balance = balance
        self.heard = None

    def deposit(self, amount, *, note=None):
        self.balance += amount

    def pay(self, to, amount):
        self.balance -= amount
        to.deposit.tell(amount, note=("paid by", rayshot.current().name))

    def read(self):
        return self.balance

    def ask(self, other):
        other.read.remote().then(self.on_balance, "asked")

    def on_balance(self, balance, context):
        self.heard = (balance, context)

    def remind(self, seconds):
        rayshot.current().after(seconds, self.deposit, 1)

    def open_account(self, name, balance):
        self.child = Account.options(name=name).remote(balance)
        self.child.deposit.tell(5)

    def pause(self, seconds):
        time.sleep(seconds)


@rayshot.actor
class Museum:
    """Holds one of everything."""

    def __init__(self):
        array = np.arange(20_000, dtype=np.int64)
        shared = [1, 2]
        self.things = {
            "array": array,
            "view": array[10:20],
            "float32": np.linspace(0, 1, 5, dtype=np.float32),
            "objects": np.array([None, "x", (1, 2)], dtype=object),
            "nan": float("nan"),
            "big": 2**70,
            (1, "tuple"): frozenset({1, 2}),
            "shared": (shared, shared),
            "empty": ([], {}, (), set(), "", b"", None),
        }
        self.things["cycle"] = self.things
        self.method = self.look

    def look(self):
        return sorted(map(repr, self.things))


@rayshot.actor
class Gallery:
    """Holds arrays that share memory."""

    def __init__(self):
        self.frame = np.arange(8.0)
        self.left, self.back = self.frame[:4], self.frame[::-1]
        table = np.zeros(2, dtype=[("x", "f8"), ("n", "i4")])
        self.fields = [table["x"], table["x"][::-1]]
        self.raw = bytearray(4)
        self.words = np.frombuffer(self.raw, "u1")

    def look(self):
        return self.frame.tolist(), self.raw


class Level(enum.Enum):
    LOW = enum.auto()
    HIGH = enum.auto()


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Price:
    cents: int
    currency: str


class Row(NamedTuple):
    who: str
    n: int


@rayshot.actor
class Till:
    """Holds values of classes whose shapes are recorded."""

    def __init__(self):
        self.held = [Level.HIGH, Right.READ | Right.WRITE, Price(500, "USD"), Row("w", 3)]

    def look(self):
        return [repr(one) for one in self.held]


@rayshot.actor
class Worker:
    """Takes items until one is None."""

    def __init__(self, queue):
        self.queue, self.taken = queue, []

    def work(self):
        for item in rayshot.loop(self.queue.get):
            if item is None:
                break
            self.taken.append(item)

    def look(self):
        return self.taken


@rayshot.actor(max_concurrency=4)
class Gate:
    """Lets nobody in until it is opened."""

    def __init__(self):
        self.opened, self.inside = asyncio.Event(), []

    @rayshot.waits_first
    async def come(self, who):
        await self.opened.wait()
        self.inside.append(who)

    async def open(self):
        self.opened.set()

    async def came(self):
        return self.inside


@rayshot.actor
class Keeper:
    """Has an account without a name, and ends it while that one is busy."""

    def make(self):
        self.account = Account.remote(5)
        return ray.get(self.account.read.remote())

    def end(self):
        self.account.pause.tell(3.0)
        self.account.deposit.tell(1)
        rayshot.kill(self.account)

    def read(self):
        return ray.get(self.account.read.remote())


@rayshot.actor
class Trainer:
    """Has files outside, which it writes beside its handlers."""

    def __init__(self):
        self.steps = 3

    def on_snapshot(self, cut):
        def write():
            folder = Path(cut.folder)
            (folder / "rank 0").mkdir()
            (folder / "rank 0" / "shard.pt").write_bytes(b"zero" * self.steps)
            (folder / ".metadata").write_bytes(b"")
            return {"steps": self.steps, "names": ["ä", None, 0.5]}

        return write

    def look(self):
        return self.steps
