"""Actors that end in many ways, in a module that Ray's workers can import."""

import dataclasses
import os
import sys
import threading
import time

import pydantic
import ray

import rayshot
from rayshot.errors import ConfigError


class Unlucky(Exception):
    """Has an argument that it requires, and that is not what it says."""

    def __init__(self, what, *, times):
        super().__init__(f"{what} happened {times} times")
        self.what = what
        self.times = times


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Line(pydantic.BaseModel):
    count: int


class Order(pydantic.BaseModel):
    item: str
    lines: list[Line]


@rayshot.actor
class Quiet:
    def __init__(self):
        self.noted = []

    @ray.method(num_returns=0)
    def note(self, word):
        self.noted.append(word)

    @ray.method(num_returns=1)
    def words(self):
        return self.noted


@rayshot.actor
class Mortal:
    def __init__(self, fails=None):
        self.count = 0
        self.peer = None
        if fails == "exit":
            sys.exit(4)
        if fails is not None:
            raise fails

    def __repr__(self):
        return f"Mortal-{self.count}-and-well"

    def add(self, number=1):
        self.count += number
        return self.count

    def read(self):
        return self.count

    def wait(self, seconds):
        time.sleep(seconds)
        return "awake"

    def leave(self, how):
        if how == "exit_actor":
            ray.actor.exit_actor()
        sys.exit(3)

    def leave_from_a_thread(self):
        raised = []

        def leave():
            try:
                ray.actor.exit_actor()
            except ConfigError as error:
                raised.append(str(error))

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        return raised

    def keep(self, peer):
        self.peer = peer

    def kill(self, peer=None):
        rayshot.kill(peer or self.peer)

    def remind(self):
        rayshot.current().after(3600.0, self.add)

    def make_and_drop(self):
        return Mortal.remote().name

    def make_and_keep(self):
        self.peer = Mortal.remote()
        return self.peer.name

    def make_named(self, name, **options):
        return Mortal.options(name=name, **options).remote()

    def make_and_return(self):
        return Mortal.remote()

    def let_go(self):
        self.peer = None

    def own_handle(self):
        context = ray.get_runtime_context()
        context.current_actor.add.tell()
        return context.current_actor, context.get_actor_name(), repr(context.current_actor)

    def rows(self):
        yield self.count

    def fail(self, error):
        raise error

    def give(self, value):
        return value

    def parse(self, fields):
        return Order(**fields)

    def say(self, words):
        print(words)


@rayshot.actor
class Placed:
    def variable(self, name):
        return os.environ.get(name)

    def cpus(self):
        return ray.get_runtime_context().get_assigned_resources().get("CPU", 0)

    def in_group(self):
        return ray.util.get_current_placement_group() is not None

    def make(self, name, **options):
        Placed.options(name=name, **options).remote()
