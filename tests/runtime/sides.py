"""Actors that hold handles of plain Ray actors, in a module that Ray's workers can import."""

import copy

import ray
from ray.util import ActorPool
from ray.util.queue import Queue

import rayshot
from rayshot.errors import StaleHandle

NAMESPACE = "sides"


@ray.remote(num_cpus=0)
class Side:
    def note(self):
        return "noted"


class AsRayPickles:
    """A handle as an older rayshot has stored it."""

    def __init__(self, handle):
        self.handle = handle

    def __reduce__(self):
        return self.handle.__reduce__()


USES = {
    "handle": lambda desk: desk.handle.note.remote(),
    "options": lambda desk: desk.listed[0].note.options(name="noting").remote(),
    "method": lambda desk: desk.methods["of"].remote(),
    "queue": lambda desk: desk.queue.size(),
    "pool": lambda desk: copy.deepcopy(desk.pool).submit(lambda side, _: side.note.remote(), 1),
    "old": lambda desk: desk.old.note.remote(),
    "killed": lambda desk: ray.kill(desk.killed),
    "named": lambda desk: desk.named.note.remote(),
    "old named": lambda desk: desk.old_named.note.remote(),
}


@rayshot.actor
class Desk:
    def __init__(self):
        self.told = []

    def furnish(self):
        """Keep what is used in all the ways of USES."""
        sides = [Side.remote() for _ in range(6)]
        named = Side.options(name="side", namespace=NAMESPACE).remote()
        ray.get([side.note.remote() for side in [*sides, named]])
        self.handle, self.listed, self.methods = sides[0], [sides[1]], {"of": sides[2].note}
        self.queue, self.pool = Queue(), ActorPool([sides[3]])
        self.old, self.killed = AsRayPickles(sides[4]), sides[5]
        self.named, self.old_named = named, AsRayPickles(named)

    def keep(self, handle):
        self.handle = handle

    def begin_snapshot(self, own):
        """The snapshot has this message in flight, and its handle."""
        own.take.tell(self.handle)
        rayshot.current().snapshot()

    def take(self, side):
        self.told.append(what_comes_of(side.note.remote))

    def answers(self):
        return self.told

    def use(self, *kinds):
        return {kind: what_comes_of(USES[kind], self) for kind in kinds}


@rayshot.actor(capture="fork")
class ForkingDesk(Desk):
    pass


def what_comes_of(use, *what):
    """The result of a use of a handle, or its refusal."""
    try:
        result = use(*what)
        return ray.get(result) if isinstance(result, ray.ObjectRef) else result
    except StaleHandle as error:
        return f"StaleHandle: {error}"
