"""Leaves the Ray cluster of a system and joins another, then the first one again; prints what its old objects said."""

import json
import logging
import os
import sys
import time

import ray

import rayshot
from rayshot.errors import RayshotError
from rayshot.runtime.driver import subscription

subscription.SILENT_S = 1.0
QUIET = {"logging_level": logging.ERROR, "log_to_driver": False}


@rayshot.actor
class Account:
    """A script's own class."""

    def __init__(self, balance):
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount
        return self.balance


def words(*attempts):
    """What each of these says: its error's message or its result."""
    for attempt in attempts:
        try:
            yield str(attempt())
        except RayshotError as error:
            yield error.message


def main(storage):
    here = os.environ.pop("RAY_ADDRESS")
    ray.init(here, **QUIET)
    system = rayshot.init("savings", storage=storage)
    alice = Account.options(name="alice").remote(100)
    said = [str(ray.get(alice.deposit.remote(1)))]
    system.snapshot()

    ray.shutdown()
    ray.init("local", num_cpus=1, include_dashboard=False, **QUIET)
    time.sleep(3 * subscription.SILENT_S)  # by then the first driver would have asked for news again
    said += words(lambda: alice.deposit.tell(1), system.status, lambda: Account.remote(1), system.shutdown)

    ray.shutdown()
    ray.init(here, **QUIET)
    said += words(lambda: ray.get(alice.deposit.remote(1)))
    with rayshot.attach("savings"):
        said += words(lambda: ray.get(alice.deposit.remote(1)))
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
