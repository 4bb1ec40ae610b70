"""How long do users stay on a page? A stream whose averages survive a crash: `python examples/dwell.py`.

The source can replay its events from any offset, and the offset is its state; the task's state is what it added up. One
snapshot holds both, and the events between them: so each event counts once, whatever dies. Run it twice: the second run
goes on from the snapshot of the first.
"""

import logging
import os
import random
import signal
import sys
import time
from collections.abc import Iterator

import ray

import rayshot

EVENTS, USERS, BURST = 30_000, 5, 50


def events(offset: int) -> Iterator[tuple[str, int]]:
    """The log from `offset` on, the same each time it is read: a user, and the milliseconds on a page."""
    for number in range(offset, EVENTS):
        dice = random.Random(number)
        yield f"user-{dice.randrange(USERS)}", dice.randrange(100, 60_000)


@rayshot.actor
class Dwell:
    """Adds up pages and times by user."""

    def __init__(self) -> None:
        self.pages: dict[str, int] = {}
        self.times_ms: dict[str, int] = {}

    def visit(self, user: str, dwell_ms: int) -> None:
        """Take one event in."""
        self.pages[user] = self.pages.get(user, 0) + 1
        self.times_ms[user] = self.times_ms.get(user, 0) + dwell_ms

    def averages(self) -> tuple[int, dict[str, float]]:
        """How many events came, and the milliseconds on a page by user."""
        return sum(self.pages.values()), {user: self.times_ms[user] / self.pages[user] for user in sorted(self.pages)}


@rayshot.actor
class Source:
    """Sends the log to the task, a burst at a time."""

    def __init__(self, task: rayshot.ActorHandle) -> None:
        self.task = task
        self.offset = 0

    def replay(self) -> None:
        """Send what comes next, and come back soon."""
        for _, event in zip(range(BURST), events(self.offset), strict=False):
            self.task.visit.tell(*event)
            self.offset += 1
        if self.offset < EVENTS:
            rayshot.current().after(0.005, self.replay)


def wait_for(task: rayshot.ActorHandle, count: int) -> dict[str, float]:
    """Wait until the task has seen `count` events; returns the averages."""
    while True:
        seen, averages_ms = ray.get(task.averages.remote())
        if seen >= count:
            return dict(averages_ms)
        time.sleep(0.02)


def begin(_system: rayshot.System) -> None:
    """Make the task and the source, and let the source begin."""
    task = Dwell.options(name="task").remote()
    source = Source.options(name="source").remote(task)
    source.replay.tell()


def main(storage: str = "./shots") -> None:
    """Stream, photograph, kill, and compare with a stream that nothing happened to."""
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    undisturbed = Dwell()  # a decorated class still makes plain objects
    for event in events(0):
        undisturbed.visit(*event)

    system = rayshot.resume("dwell", storage=storage, begin=begin)
    task = system.get_actor("task")
    wait_for(task, EVENTS // 3)
    snap = system.snapshot()
    offset, seen = snap.state("source")["offset"], sum(snap.state("task")["pages"].values())
    print(f"snapshot: offset {offset:,} = {seen:,} added up + {snap.channel('source', 'task').count:,} on their way")

    wait_for(task, EVENTS // 2)
    os.kill(system.status().actors["task"].pid or 0, signal.SIGKILL)
    while not system.status().recoveries:  # all go back to the last snapshot, and on from there, by themselves
        time.sleep(0.02)
    averages = wait_for(task, EVENTS)
    system.shutdown()
    ray.shutdown()

    for user, average_ms in averages.items():
        print(f"{user}: {average_ms:,.2f} ms on a page")
    same = (EVENTS, averages) == undisturbed.averages()
    print(f"the same as without the crash: {same}, over {EVENTS:,} events")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
