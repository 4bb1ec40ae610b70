"""An actor whose state depends on `hash()`, and a program that restores its system in a cluster of its own.

Arguments: the storage, and the numbers of words. It prints how many words it finds.
"""

import os
import sys

import ray

import rayshot

WORDS = [f"word{number}" for number in range(100)]


@rayshot.actor
class Index:
    """Finds words by their hash."""

    def __init__(self):
        self.found = {}
        self.copy = None

    def put(self, word):
        self.found[hash(word)] = word

    def look(self):
        return sum(self.found.get(hash(word)) == word for word in WORDS)

    def seed(self):
        return os.environ.get("PYTHONHASHSEED")

    def make(self, name):
        self.copy = Index.options(name=name).remote()
        for word in self.found.values():
            self.copy.put.tell(word)


if __name__ == "__main__":
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    with rayshot.restore(storage=sys.argv[1]) as system:
        print(*(ray.get(actor.look.remote()) for actor in map(system.get_actor, system.actors())))
