"""Actors whose states are in memory that they share with others; Ray's workers can import this module."""

import os
import threading
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pyarrow as pa
import ray

import rayshot
from rayshot.runtime.door.shared_memory import held_buffers

BYTES = 30 << 20


class Gate:
    """A child that pickles it says so with the file `reached`, and waits for the file `open`; who reads it, reads 1."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.pid = os.getpid()

    def __reduce__(self):
        if os.getpid() != self.pid:
            (self.folder / "reached").touch()
            while not (self.folder / "open").exists():
                time.sleep(0.01)
        return int, (1,)


class Forked:
    """Is pickled as whether another process than its own does so."""

    def __init__(self):
        self.pid = os.getpid()

    def __reduce__(self):
        return bool, (os.getpid() != self.pid,)


class Box:
    """Holds something, as an object of a user's class does."""

    def __init__(self, content):
        self.content = content


@rayshot.actor
class Keeper:
    """Reads values of Ray's object store without a copy."""

    def fetch(self, folder):
        self.gate = Gate(folder)
        self.array = ray.get(make.remote())

    def drop(self):
        self.array = None

    def fetch_all(self):
        self.forked = Forked()
        self.nested = Box({"deep": ray.get(ray.put([1, {"array": np.arange(100_000)}]))})
        self.strided = ray.get(ray.put(np.arange(100_000)))[::2]
        self.small = ray.get(ray.put(np.arange(3)))
        self.table = ray.get(ray.put(pa.table({"n": np.arange(100_000)})))
        reader = threading.Thread(target=lambda: setattr(self, "by_thread", ray.get(ray.put(np.arange(100_000)))))
        reader.start()
        reader.join()

    def forget_all(self):
        self.__dict__.clear()

    def held(self):
        return len(held_buffers())


@rayshot.actor
class Mapper:
    """Keeps a mapped file, or an open one."""

    def open(self, path):
        self.log = {"file": Path(path).open()}  # noqa: SIM115 - that it stays open is the point

    def close(self):
        self.log.pop("file").close()

    def send(self, other, path):
        other.take.tell([Path(path).open()])  # noqa: SIM115 - so it is here

    def take(self, value):
        self.taken = value

    def wait_in_child(self, folder):
        self.gate = Gate(folder)

    def map(self, path):
        self.numbers = np.asarray(np.memmap(path, np.uint8, "r+"))

    def write(self, value):
        self.numbers[:] = value

    def put_block(self):
        self.block = SharedMemory(create=True, size=100)
        self.put = ray.put({"block": self.block})

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "block"}

    def remove_block(self):
        self.block.unlink()

    def read(self):
        return 1


@ray.remote
def make():
    return np.full(BYTES, 7, np.uint8)
