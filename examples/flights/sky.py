"""The running system as the demo's driver sees it: the airports, the schedules, and how far they are."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import ray

import rayshot
from examples.flights.airport import ELSEWHERE, Airport
from examples.flights.ledger import Totals
from examples.flights.schedule import Schedule

SYSTEM = "sky"
SCHEDULES = 3
WHEN_ASKED = rayshot.SnapshotConfig()
"""No snapshots at an interval: the photographs are those that the demo shows."""
SCHEDULE_NAMES = tuple(f"schedule-{share}" for share in range(SCHEDULES))


@contextmanager
def ray_cluster(actors: int, words_of_ray: Path) -> Iterator[None]:
    """A Ray cluster of its own on this machine, with room for so many actors; nothing is left of it afterwards.

    What Ray prints meanwhile goes to the file `words_of_ray`.
    """
    ray.init("local", num_cpus=actors, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with words_of_ray.open("a") as aside, redirect_stdout(aside):  # long warnings, also of what dies on purpose
        try:
            yield
        finally:
            ray.shutdown()


@dataclass(frozen=True)
class Progress:
    """How many flights were replayed, departed and landed so far."""

    replayed: int
    departures: int
    arrivals: int


class Sky:
    """A life of the system."""

    def __init__(
        self,
        system: rayshot.System,
        airports: dict[str, rayshot.ActorHandle],
        schedules: list[rayshot.ActorHandle],
    ) -> None:
        self.system = system
        self.airports = airports
        self._schedules = schedules

    @classmethod
    def create(cls, storage: Path, flights: Path, airports: list[str], flights_per_s: float) -> "Sky":
        """Start the actors; they wait for `begin`."""
        system = rayshot.init(SYSTEM, storage=storage, snapshots=WHEN_ASKED)
        try:
            schedules = [
                Schedule.options(name=name).remote(str(flights), share, SCHEDULES, flights_per_s / SCHEDULES)
                for share, name in enumerate(SCHEDULE_NAMES)
            ]
            sky = cls(system, {name: Airport.options(name=name).remote() for name in airports}, schedules)
            for airport in sky.airports.values():
                airport.connect.tell(sky.airports)
            sky.totals()
        except BaseException:
            system.shutdown()  # while Ray is up: it ends the whole program where something still waits for an answer
            raise
        return sky

    @classmethod
    def restore(cls, storage: Path, airports: list[str]) -> "Sky":
        """Bring the latest snapshot back to life: everything goes on from there by itself."""
        system = rayshot.restore(SYSTEM, storage=storage, snapshots=WHEN_ASKED)
        actors = system.actors()
        return cls(system, {name: actors[name] for name in airports}, [actors[name] for name in SCHEDULE_NAMES])

    def begin(self) -> None:
        """Let the schedules begin."""
        for schedule in self._schedules:
            schedule.begin.tell(self.airports)

    def go_on(self, share: float) -> None:
        """Let the schedules replay up to this share of the flights at full speed, and slowly beyond it."""
        for schedule in self._schedules:
            schedule.go_on.tell(share)

    def totals(self) -> dict[str, Totals]:
        """Ask every airport what it counted so far."""
        answers = ray.get([airport.totals.remote() for airport in self.airports.values()])
        return {name: Totals(*answer) for name, answer in zip(self.airports, answers, strict=True)}

    def progress(self) -> Progress:
        """Ask everybody how far they are. Not a consistent picture: they answer one after the other."""
        replayed = sum(ray.get([schedule.progress.remote() for schedule in self._schedules]))
        totals = self.totals().values()
        return Progress(replayed, sum(one.departures for one in totals), sum(one.arrivals for one in totals))

    def processes(self) -> dict[str, int]:
        """The operating system's process of each airport."""
        actors = self.system.status().actors
        return {name: pid for name in self.airports if (pid := actors[name].pid) is not None}


def airport_names(busiest: list[str]) -> list[str]:
    """The airports that are actors of their own, and the one that stands for all others."""
    return [*busiest, ELSEWHERE]
