"""Classes decorated by Ray and by rayshot, in either order, in a module that Ray's workers can import."""

import time

import ray

import rayshot
from rayshot.errors import RayshotError


class Plain:
    def __init__(self, number):
        self.number = number

    def read(self):
        return self.number

    def resources(self):
        return ray.get_runtime_context().get_assigned_resources()

    def add(self, number):
        self.number += number

    def have_no_room(self):
        """Ray's object store takes nothing of this process any more."""

        def refuse(_value):
            raise ray.exceptions.ObjectStoreFullError

        ray.put = refuse

    def send(self, to, size_bytes):
        self.number += 1
        to.add.tell("x" * size_bytes)

    def give(self, size_bytes):
        return ["x" * size_bytes]

    def ask_and_give(self, other):
        return [other.read.remote()]

    def ask(self, other, size_bytes):
        other.give.remote(size_bytes).then(self.on_given, on_error=self.on_refused)

    def on_given(self, value):
        self.number = len(value[0])

    def on_refused(self, error):
        self.number = type(error).__name__


@ray.remote(num_cpus=2)
@rayshot.actor
class RayOver(Plain):
    pass


@rayshot.actor(capture="inline")
@ray.remote(num_cpus=0)
class RayUnder(Plain):
    pass


@rayshot.actor(num_cpus=3)
class Alone(Plain):
    pass


@rayshot.actor(num_cpus=0)
class Light(Plain):
    pass


@ray.remote(num_cpus=0)
class Outsider:
    """A driver of its own, that outlives the system."""

    def attach(self, name, storage):
        self.handle = rayshot.init(name, storage=storage).get_actor("alice")
        return ray.get(self.handle.read.remote())

    def send_until_refused(self, kind, patience_s):
        """The first error of rayshot's own, and how often Ray was first to say that the actor is gone."""
        deadline, died = time.monotonic() + patience_s, 0
        while time.monotonic() < deadline:
            try:
                if kind == "tell":
                    self.handle.add.tell(1)
                else:
                    ray.get(self.handle.read.remote(), timeout=patience_s)
            except RayshotError as error:
                return type(error).__name__, died
            except ray.exceptions.RayActorError:
                died += 1
            time.sleep(0.01)
        return "nothing was refused", died
