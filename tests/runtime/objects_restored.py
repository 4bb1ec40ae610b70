"""Run twice, each time in a cluster of its own: stores messages with objects beside them, then restores them."""

import logging
import sys

import numpy as np
import ray

import rayshot
from tests.runtime.reader import Maker, Reader
from tests.waiting import eventually

SIZE = 2 << 20


def first(storage):
    with rayshot.init("objects", storage=storage) as system:
        reader, other = Reader.options(name="reader").remote(), Reader.options(name="other").remote()
        maker = Maker.remote()
        (ref,), _ = ray.get(maker.make.remote(np.ones(SIZE, np.uint8)))
        ray.get([reader.notes.remote(), other.notes.remote()])
        reader.pause.tell(2.0)
        reader.note.tell(ref)
        reader.note.tell(np.ones(SIZE, np.uint8))
        reader.keep.tell([ref, "beside"])
        other.forward_ordered.tell(reader, 1.0)
        snapshot = system.snapshot()
    return f"stored {snapshot.in_flight}"


def second(storage):
    with rayshot.restore(storage=storage) as system:
        reader = system.get_actor("reader")
        eventually(lambda: len(ray.get(reader.notes.remote())) == 4, seconds=60.0)
        eventually(lambda: ray.get(reader.kept_as_they_are.remote()), seconds=60.0)
        found, (ref, word) = ray.get([reader.notes.remote(), reader.kept_as_they_are.remote()])
        return f"restored {found} {ray.get(ref).sum()} {word} {len(system.dead_letters())}"


if __name__ == "__main__":
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    print({"first": first, "second": second}[sys.argv[1]](sys.argv[2]))
