"""Eight workers and a parameter server that learn how long a flight takes, killed in the middle; and a `save()` beside.

The server hands out batches of flights, a few to each worker ahead, each with the parameters as they are then. A worker
tells it the gradient. The server takes that step, whatever the parameters have become meanwhile.
"""

import os
import signal
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import ray
from numpy.typing import NDArray

import rayshot
from examples.flights.timetable import read_flights, read_places, write_flights

BATCHES, BATCH, LOOKED_AT = 320, 40, 2_000
"""Batches of an epoch, flights of a batch, and flights that the error is taken of."""
RATE = 0.004
AHEAD = 4
STEP_S = 0.025
"""What a step costs the server; a worker says what a gradient costs it."""
SPEEDS_S = {f"w{number}": 0.12 + 0.02 * number for number in range(1, 8)} | {"w8": 1.2}
"""The last worker is slow."""
STOPS = (40, 90, 150)
"""Steps after which a snapshot is taken, up to the kill, which comes some steps after the last one."""
STOPS_BEHIND = (200, 240)
KILLED_AFTER = 15
SEED = 27
FIRST, BY_HAND = "training", "by_hand"

Numbers = NDArray[np.float64]


@cache
def problem() -> tuple[Numbers, Numbers]:
    """What is known of each flight of an epoch, and its minutes in the air; those that are looked at come first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flights.csv"
        write_flights(path, None)
        year = read_flights(path)
    year = year.filter(pc.is_valid(year["air_time"]))
    known = {name: year[name].to_numpy().astype(float) for name in ("distance", "month", "sched_dep_time", "dep_delay")}
    places = read_places()
    latitudes, longitudes = np.array([places[code] for code in year["dest"].to_pylist()]).T
    winter = np.cos(2 * np.pi * (known["month"] - 1) / 12)
    columns = [
        known["distance"], latitudes, longitudes, winter, winter * (longitudes + 74),  # the wind is of the winter
        known["sched_dep_time"] // 100, known["dep_delay"],
    ]  # fmt: skip
    table = np.stack(columns, axis=1)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    chosen = np.random.default_rng(SEED).permutation(len(table))[: LOOKED_AT + BATCHES * BATCH]
    return np.hstack([np.ones((len(chosen), 1)), table[chosen]]), year["air_time"].to_numpy().astype(float)[chosen]


def gradient(parameters: Numbers, batch: int) -> Numbers:
    """In which direction the squared error of a batch grows, and how fast."""
    known, minutes = problem()
    rows = slice(LOOKED_AT + batch * BATCH, LOOKED_AT + (batch + 1) * BATCH)
    return np.asarray(2 * known[rows].T @ (known[rows] @ parameters - minutes[rows]) / BATCH)


def error_min(parameters: Numbers) -> float:
    """By how many minutes these parameters are wrong: the root of the mean square over flights of no batch."""
    known, minutes = problem()
    missed = known[:LOOKED_AT] @ parameters - minutes[:LOOKED_AT]
    return float(np.sqrt(np.mean(missed**2)))


@rayshot.actor(num_cpus=0)
class Server:
    """Has the parameters. `version` is the number of its steps, `used` the batches of these, `errors` what came out."""

    def __init__(self) -> None:
        self.parameters: Numbers = np.zeros(problem()[0].shape[1])
        self.version = 0
        self.handed_out = 0
        self.used: list[int] = []
        self.errors: list[float] = [round(error_min(self.parameters), 2)]
        self.workers: dict[str, Any] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        problem()  # so that a restore ends when all can begin

    def go_on_from(self, saved: dict[str, Any]) -> None:
        """Take over what a server saved."""
        self.__dict__ |= saved

    def begin(self, workers: dict[str, Any]) -> None:
        """Give each worker its first batches."""
        self.workers = workers
        for name in [*workers] * AHEAD:
            self._hand_out(name)

    def apply(self, batch: int, version: int, gradient: Numbers) -> None:  # noqa: ARG002 - snapshots tell it
        """Take a step with a gradient of that batch, computed from the parameters of that version."""
        time.sleep(STEP_S)
        self.parameters = self.parameters - RATE * gradient
        self.version += 1
        self.used.append(batch)
        self.errors.append(round(error_min(self.parameters), 2))
        self._hand_out(str(rayshot.current().sender))

    def steps(self) -> int:
        """How many steps it took."""
        return self.version

    def _hand_out(self, name: str) -> None:
        if self.handed_out < BATCHES:
            self.workers[name].compute.tell(self.handed_out, self.version, self.parameters)
            self.handed_out += 1


@rayshot.actor(num_cpus=0)
class Worker:
    """Computes gradients, each in so many seconds."""

    def __init__(self, server: Any, gradient_s: float) -> None:
        self.server = server
        self.gradient_s = gradient_s
        self.computed = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        problem()

    def compute(self, batch: int, version: int, parameters: Numbers) -> None:
        """Tell the server the gradient of a batch."""
        time.sleep(self.gradient_s)
        self.computed += 1
        self.server.apply.tell(batch, version, gradient(parameters, batch))

    def ready(self) -> int:
        """Have the flights at hand, and say how many gradients it computed."""
        problem()
        return self.computed


def make(storage: Path) -> None:
    """Begin, take snapshots, kill all of it, restore the last snapshot, and go on to the end of the epoch."""
    stops = rayshot.FailureConfig(scope="stop")
    with rayshot.init(FIRST, storage=storage, failure=stops) as system:
        _begin(Server.options(name="server").remote())
        for stop in STOPS:
            _await(system, stop)
            _tell(system.snapshot())
        steps = _await(system, STOPS[-1] + KILLED_AFTER)
        for actor in system.status().actors.values():
            os.kill(actor.pid, signal.SIGKILL)
        print(f"{FIRST}: killed some time after step {steps}")
    with rayshot.restore(FIRST, storage=storage, failure=stops) as system:
        for stop in (*STOPS_BEHIND, BATCHES):
            _await(system, stop)
            _tell(system.snapshot())


def make_by_hand(storage: Path) -> None:
    """Go on from what a `save()` of the server would have written at that snapshot: all that it knows, and no more."""
    killed = rayshot.open(storage).system(FIRST).snapshots()[len(STOPS) - 1]
    saved = {name: value for name, value in killed.state("server").items() if name != "workers"}
    with rayshot.init(BY_HAND, storage=storage, snapshots=rayshot.SnapshotConfig()) as system:
        server = Server.options(name="server").remote()
        server.go_on_from.tell(saved | {"parameters": np.array(saved["parameters"])})
        _begin(server)
        _await(system, BATCHES - killed.in_flight)
        _tell(system.snapshot())


def _begin(server: Any) -> None:
    workers = {name: Worker.options(name=name).remote(server, seconds) for name, seconds in SPEEDS_S.items()}
    ray.get([worker.ready.remote() for worker in workers.values()])
    server.begin.tell(workers)


def _await(system: Any, stop: int) -> int:
    server = system.get_actor("server")
    while (steps := ray.get(server.steps.remote())) < stop:
        time.sleep(STEP_S)
    return int(steps)


def _tell(snapshot: Any) -> None:
    server = snapshot.state("server")
    print(f"{snapshot.id}: step {server['version']}, {snapshot.in_flight} in flight, {server['errors'][-1]} min wrong")
