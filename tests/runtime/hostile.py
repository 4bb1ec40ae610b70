"""Actors that do what they should not, in a module that Ray's workers can import."""

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import ray

import rayshot
import rayshot.model.port
from rayshot.errors import SystemStopped
from rayshot.runtime.actor.host import Host
from rayshot.runtime.coordinator.coordinator import Coordinator


@rayshot.actor
class Rogue:
    def __init__(self):
        self.count = 0

    def read(self):
        return self.count

    def take(self, number, stop_at=0):
        self.count += 1
        if number == stop_at:
            raise SystemStopped("another system is down")

    def hold_process_lock(self):
        self.lock = multiprocessing.Lock()

    def let_go(self):
        vars(self).pop("lock", None)
        vars(self).pop("leaver", None)

    def hold_leaver(self, error):
        self.leaver = Leaver(error)

    def begin_a_system(self, begin, name, storage):
        if begin == "init":
            rayshot.init(name, storage=storage)
        else:
            rayshot.restore(name, storage=storage)

    def cancel(self):
        raise asyncio.CancelledError

    def remind_of_a_lock(self):
        rayshot.current().after(0.01, self.take, threading.Lock())

    def remind_in(self, seconds):
        rayshot.current().after(seconds, self.take, 1)


class Leaver:
    """Raises what is not an Exception while it is pickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error(3)


@rayshot.actor(on_error="stop")
class Strict:
    def read(self):
        return 1

    def fail(self):
        raise ValueError("never again")


class Stuck:
    """Hangs while it is pickled in a forked child, as what waits for a lock that another thread had held."""

    def __init__(self):
        self.home = os.getpid()

    def __reduce__(self):
        if os.getpid() != self.home:
            time.sleep(600)
        return Stuck, ()


@rayshot.actor(capture="fork")
class Sticky:
    def __init__(self):
        self.part = Stuck()

    def read(self):
        return 1


@rayshot.actor
class Saboteur:
    """Kills the coordinator while it is restored, where the file `fuse` is there."""

    def __init__(self, fuse):
        self.fuse = fuse

    def read(self):
        return 1

    def __setstate__(self, state):
        vars(self).update(state)
        if self.fuse and Path(self.fuse).exists():
            Path(self.fuse).unlink()
            system = rayshot.model.port.process_port().system
            ray.kill(ray.get_actor(f"rayshot/{system}", namespace="rayshot"), no_restart=False)
            time.sleep(1.0)


@rayshot.actor
class Stillborn:
    """Tells its friend, makes a child, and fails."""

    def __init__(self, friend, seconds):
        friend.deposit.tell(5)
        Strict.options(name="child").remote()
        time.sleep(seconds)
        raise ValueError("no such luck")


@rayshot.actor(capture="inline")
class Slow:
    """Takes its time to be pickled, once: its process can neither send nor be asked meanwhile."""

    def __init__(self, seconds):
        self.seconds = seconds

    def read(self):
        return 1

    def __getstate__(self):
        seconds, self.seconds = self.seconds, 0.0
        time.sleep(seconds)
        return vars(self)


def die_if_doomed(storage):
    """End this process as often as the file `doom` says, as if it had been placed on a node that was dead already."""
    doom = Path(storage) / "doom"
    if left := int(doom.read_text()):
        doom.write_text(str(left - 1))
        os.kill(os.getpid(), signal.SIGKILL)


class DoomedCoordinator(Coordinator):
    """Ends before it has begun anything."""

    def __init__(self, settings):
        die_if_doomed(settings.storage)
        super().__init__(settings)


class DoomedHost(Host):
    """Ends before it is a member of its system."""

    def __init__(self, identity):
        die_if_doomed(identity.storage)
        super().__init__(identity)
