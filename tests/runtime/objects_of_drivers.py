"""Run as a driver of its own: tells actors of a running system something, and exits at once."""

import logging
import sys

import numpy as np
import ray

import rayshot
from tests.runtime.reader import late

SIZE = 2 << 20


def main(address, storage, system, what):
    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, namespace="other")
    attached = rayshot.resume(system, storage=storage, begin=len)
    reader = attached.get_actor("reader")
    match what:  # nothing waits for it here
        case "put":
            reader.note.tell(ray.put(np.ones(SIZE, np.uint8)))
        case "large":
            reader.note.tell(np.ones(SIZE, np.uint8))
        case "late":
            reader.note.tell(late.remote("late", 2.0))
        case "call":
            reader.note.remote("called")


if __name__ == "__main__":
    main(*sys.argv[1:])
