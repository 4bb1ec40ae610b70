"""Actors whose answers are others behind a rollback, and a plain actor that acts on them."""

import os
import queue

import ray

import rayshot


@rayshot.actor
class Wavering:
    """Answers with the process and with how often it was asked in this process, which no snapshot has."""

    asked = 0

    def ask(self):
        Wavering.asked += 1
        return [os.getpid(), Wavering.asked]

    def steady(self):
        return "always"


@rayshot.actor
class Listener:
    def __init__(self):
        self.heard = 0

    def hear(self):
        self.heard += 1


@ray.remote(num_cpus=0)
class Actor:
    """Acts on answers, and says which it heard to have changed."""

    def begin(self, name):
        self.system = rayshot.attach(name)
        self.changed = []
        self.system.on_changed_answer(self.changed.append)

    def act(self):
        ray.get(self.system.get_actor("wavering").ask.remote())
        self.system.get_actor("listener").hear.tell()

    def heard(self):
        return self.changed


@ray.remote(num_cpus=0)
def act_until_told(name, began, within_s):
    """Acts on an answer, makes the file `began`, and returns what it hears to have changed by then."""
    system, changed = rayshot.attach(name), queue.SimpleQueue()
    system.on_changed_answer(changed.put)
    ray.get(system.get_actor("wavering").ask.remote())
    system.get_actor("listener").hear.tell()
    ray.get(system.get_actor("wavering").steady.remote())
    began.write_text("")
    return changed.get(timeout=within_s)


def acted(system):
    """The two actors, in a snapshot, and then a program that acts on an answer."""
    wavering = Wavering.options(name="wavering").remote()
    listener = Listener.options(name="listener").remote()
    ray.get(wavering.steady.remote())
    system.snapshot()
    ray.get(wavering.ask.remote())
    listener.hear.tell()
    return wavering, listener
