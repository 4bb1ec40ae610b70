"""A program that starts a system in a cluster that runs, to be killed while it does.

`python starter.py restore|restore_slowly|resume ADDRESS STORAGE FLAG`: what is begun, or loaded, waits while the file
FLAG is there; and `restore_slowly` says what to restore only then.
"""

import logging
import os
import sys
import time
from pathlib import Path

import ray

import rayshot
from rayshot.runtime.opening import from_snapshot


@rayshot.actor
class Waiter:
    """Cannot be loaded while a file is there."""

    def __init__(self, flag):
        self.flag = flag

    def read(self):
        return self.flag

    def __setstate__(self, state):
        wait_while_there(state["flag"])
        self.__dict__.update(state)


def wait_while_there(flag):
    while Path(flag).exists():
        time.sleep(0.02)


def begin(flag):
    def make(_system):
        Waiter.options(name="waiter").remote(flag)
        wait_while_there(flag)

    return make


def main(what, address, storage, flag):
    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    if what.startswith("restore"):
        if what == "restore_slowly":
            from_snapshot.order_restore = lambda *_: wait_while_there(flag)
        rayshot.restore(storage=storage)
    else:
        rayshot.resume("bank", storage=storage, begin=begin(flag))
    os.write(1, b"started\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
