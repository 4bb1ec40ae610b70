"""The program that `walk` follows: `python -m benchmarks.walked FOLDER TELLS DEATHS REST_S`.

It tells an actor some times, lets one die some times, rests before and behind, and says when. It asks nothing of the
system meanwhile: a question passes files as well.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ray

import rayshot
from benchmarks.cluster import fresh_cluster, wait_for

ACTORS = 4
TELL_S, DEATH_S = 0.5, 12.0
"""How long each is looked at. In a quiet system a tell is handled after some milliseconds, and a death is over after
some seconds, although a process that is followed loads rayshot from its source."""
QUIET_S = 2.0
"""What a snapshot and questions leave behind is over by then."""
WINDOWS, RESTS, TELLS, DEATHS, RECOVERED_S = "windows.json", "rests", "tells", "deaths", "seconds until all ran again"

Window = tuple[float, float]
"""When it began and ended, by the clock that all processes of the machine share."""


class Counter:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        """One more."""
        self.count += 1

    def read(self) -> int:
        """The count."""
        return self.count


def main(folder: Path, tells: int, deaths: int, rest_s: float) -> None:
    """Run, and write when each window began and ended into the folder."""
    quiet = rayshot.SnapshotConfig(interval_s=None)
    with fresh_cluster() as storage, rayshot.init("walked", storage=storage, snapshots=quiet) as system:
        actors = [rayshot.actor(num_cpus=0)(Counter).options(name=f"c{k}").remote() for k in range(ACTORS)]
        ray.get([actor.read.remote() for actor in actors])
        actors[0].add.tell()  # what happens only once is over with it
        time.sleep(QUIET_S)
        rests = [_window(rest_s)]
        told = [_window(TELL_S, actors[0].add.tell) for _ in range(tells)]
        died, recovered_s = list[Window](), list[float]()
        for number in range(deaths):  # each of another actor: for the same one the system pauses, and stops in the end
            system.snapshot()
            pid = system.status().actors[f"c{number}"].pid
            assert pid is not None
            time.sleep(QUIET_S)
            died.append(_window(DEATH_S, partial(os.kill, pid, signal.SIGKILL)))
            recovered_s.append(wait_for(partial(_recovered_s, system, len(recovered_s)), "the system"))
        time.sleep(QUIET_S)
        rests.append(_window(rest_s))
        counts = ray.get([actor.read.remote() for actor in actors])
        assert counts == [tells + 1, 0, 0, 0], f"told {tells + 1} times, counted {counts}"
    found = {RESTS: rests, TELLS: told, DEATHS: died, RECOVERED_S: recovered_s}
    (folder / WINDOWS).write_text(json.dumps(found), encoding="utf-8")


def _window(seconds: float, do: Callable[[], None] = lambda: None) -> Window:
    """When it began, just before `do`, and when it ended."""
    began = time.monotonic()
    do()
    time.sleep(seconds)
    return began, time.monotonic()


def _recovered_s(system: rayshot.System, earlier: int) -> float | None:
    """What the recovery behind so many took; None before it is over."""
    found = system.status()
    assert found.state != "stopped", found.detail
    running = len(found.recoveries) > earlier and found.state == "running"
    return found.recoveries[-1].seconds if running else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
