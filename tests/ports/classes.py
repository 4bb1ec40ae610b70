"""Classes that many behaviours use, undecorated: each world decorates them in its own way."""

import asyncio
import dataclasses
import enum
import os
import threading
import time

import pydantic
import ray


class Counter:
    """Counts."""

    def __init__(self, value=0):
        self.value = value

    def add(self, amount=1):
        self.value += amount
        return self.value

    def read(self):
        return self.value

    def fail(self, text="no such luck"):
        raise ValueError(text)

    def nap(self, seconds):
        time.sleep(seconds)
        return seconds

    def pid(self):
        return os.getpid()


class Echo:
    """Gives back what it gets, and says what that was."""

    def echo(self, value):
        return value

    def pair(self, first, second=None):
        return first, second

    def kind(self, value):
        return type(value).__name__

    def kinds(self, values):
        return [type(value).__name__ for value in values]

    def total(self, values):
        return sum(ray.get(list(values)))

    def same(self, first, second):
        return first is second


class Keeper:
    """Keeps what it gets."""

    def __init__(self, *values, **named):
        self.values = list(values)
        self.named = named

    def keep(self, value):
        self.values.append(value)

    def all(self):
        return self.values

    def all_named(self):
        return self.named

    def last_kind(self):
        return type(self.values[-1]).__name__


class Log:
    """What others did, in order."""

    def __init__(self):
        self.lines = []

    def write(self, line):
        self.lines.append(line)
        return len(self.lines)

    def read(self):
        return self.lines


class Dial:
    """An actor that reaches others."""

    def tell_all(self, handles, amount):
        for handle in handles:
            handle.add.remote(amount)

    def ask(self, handle):
        return ray.get(handle.add.remote())

    async def ask_async(self, handle):
        return await handle.add.remote()

    def wait_for(self, handle):
        ready, _ = ray.wait([handle.add.remote()])
        return len(ready)

    def pass_on(self, handle):
        return handle

    def ref_of(self, handle):
        return [handle.add.remote()]


class Async:
    """Coroutines."""

    def __init__(self):
        self.lines = []
        self.event = asyncio.Event()

    async def echo(self, value):
        await asyncio.sleep(0)
        return value

    async def work(self):
        self.lines.append("begins")
        await asyncio.sleep(0.01)
        self.lines.append("ends")

    async def wait(self):
        await self.event.wait()
        return "woken"

    async def wake(self):
        self.event.set()

    async def fail(self):
        await asyncio.sleep(0)
        raise ValueError("no such luck")

    async def gather(self):
        return await asyncio.gather(*(self.echo(n) for n in range(3)))

    def read(self):
        return self.lines

    async def thread(self):
        return threading.get_ident()

    def plain_thread(self):
        return threading.get_ident()


@dataclasses.dataclass
class Point:
    """A value."""

    x: int
    y: int = 0


class Colour(enum.Enum):
    """Values that are compared by identity."""

    RED = 1
    BLUE = 2


class Model(pydantic.BaseModel):
    """A value that is checked."""

    count: int


class Refusal(Exception):
    """An error with a field."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code

    def __reduce__(self):
        return Refusal, (*self.args, self.code)


@ray.remote
def double(value):
    """A plain task."""
    return 2 * value


@ray.remote
def later(value, seconds=0.2):
    """A plain task that takes some time."""
    time.sleep(seconds)
    return value


@ray.remote
def break_off(text="no such luck"):
    """A plain task that fails."""
    raise ValueError(text)


def raised(call, *args, **kwargs):
    """The error that a call raises; None where it raises none."""
    try:
        call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - any is looked at
        return error
    return None
