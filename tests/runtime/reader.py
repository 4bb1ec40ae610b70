"""Actors that are sent objects, in a module that Ray's workers can import."""

import asyncio
import os
import time
from pathlib import Path

import numpy as np
import ray

import rayshot


@rayshot.actor
class Reader:
    def __init__(self, first=None):
        self.seen = [] if first is None else [first]
        self.refs = []

    def note(self, value):
        """Keep what a value says, but not the value."""
        self.seen.append(float(np.sum(value)) if isinstance(value, np.ndarray) else value)

    def total(self, value):
        return float(np.sum(value))

    def notes(self):
        return self.seen

    def drop(self, _value, _refs):
        """Keep nothing."""

    def pass_on(self, other, refs):
        other.drop.tell(refs[0], refs)

    def echo(self, value):
        return value

    def hold(self, value):
        self.value = value

    def place_of_held(self):
        """Where in shared memory the array lies that this actor holds: the file, and the offset in it."""
        address = self.value.__array_interface__["data"][0]
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses, _, offset, _, _, *file = line.split()
            start, end = (int(number, 16) for number in addresses.split("-"))
            if start <= address < end:
                return "".join(file), int(offset, 16) + address - start
        raise LookupError(address)

    def keep(self, refs):
        self.refs = refs

    def get(self, refs):
        return ray.get(refs)

    def kept(self):
        return ray.get(self.refs)

    def kept_as_they_are(self):
        return self.refs

    def give(self, value):
        """A reference that is this actor's own."""
        return ray.put(value)

    def give_inside(self, value):
        return {"at": ray.put(value)}

    def write(self, array):
        """Whether the array can be written to."""
        array[0] = 1
        return float(array[0])

    def is_read_only(self, array):
        return not array.flags.writeable

    def pause(self, seconds):
        time.sleep(seconds)

    def forward(self, other, values):
        other.note.tell(*values)

    def forward_ordered(self, other, seconds):
        """Send what is not there yet, and a word behind it."""
        other.note.tell(late.remote("late", seconds))
        other.note.tell("behind")

    def forward_large(self, other, size):
        """Send an array of this actor's own, and end."""
        other.note.tell(np.ones(size, np.uint8))
        rayshot.current().exit()

    def ask(self, other, value):
        other.give.remote(value).then(self.keep_one)

    def keep_one(self, ref):
        self.refs = [ref]

    def later(self, seconds, refs):
        rayshot.current().after(seconds, self.note, refs[0])

    def tell_oneself(self, me, refs):
        me.note.tell(refs[0])


@ray.remote
def late(value, seconds):
    time.sleep(seconds)
    return value


@ray.remote
def fail():
    raise ValueError("no ink")


@ray.remote
class Gate:
    """Makes an object ready when it is told to."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def open(self):
        self.opened.set()

    async def open_soon(self):
        """Open it while others do something else."""
        await asyncio.sleep(1.0)
        self.opened.set()

    async def passed(self, value):
        await self.opened.wait()
        return value


@ray.remote
class Maker:
    """Owns objects, and tells where it runs, to be killed."""

    def make(self, value):
        return [ray.put(value)], os.getpid()


@rayshot.actor(deterministic=True)
class Adder:
    """Adds up what it is sent."""

    def __init__(self):
        self.sums = []

    def add(self, first, second=0, refs=()):
        self.sums.append(float(np.sum(first)) + float(np.sum(second)) + len(refs))

    def read(self):
        return self.sums
