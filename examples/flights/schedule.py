"""Schedules, the actors that replay the year's flights to the airports."""

from typing import Any

import rayshot
from examples.flights.airport import ELSEWHERE
from examples.flights.timetable import Departure, read_departures

TICK_S = 0.02
"""A schedule lets a few flights go, then leaves room for whatever else there is to do."""


@rayshot.actor(num_cpus=0)
class Schedule:
    """Replays every `shares`-th flight of the file, beginning with number `share`, in the order of the timetable.

    Its state is the position in its share. The flights themselves are read again after a restore.
    """

    def __init__(self, path: str, share: int, shares: int, flights_per_s: float) -> None:
        self.path = path
        self.share = share
        self.shares = shares
        self.flights_per_tick = max(1, round(flights_per_s * TICK_S))
        self.airports: dict[str, rayshot.ActorHandle] = {}
        self.position = 0
        self.full_speed_until = 0.0
        self._departures: list[Departure] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_departures": None}

    def begin(self, airports: dict[str, rayshot.ActorHandle]) -> None:
        """Learn where the airports are, and start."""
        self.airports = airports
        self.replay()

    def go_on(self, share: float) -> None:
        """Go at full speed up to this share of the flights. Beyond it they trickle, so that the sky is never empty."""
        self.full_speed_until = share

    def replay(self) -> None:
        """Let a few flights go, and come back."""
        if self._departures is None:
            self._departures = read_departures(self.path, self.share, self.shares)
        at_full_speed = self.position < self.full_speed_until * len(self._departures)
        count = self.flights_per_tick if at_full_speed else 1
        for departure in self._departures[self.position : self.position + count]:
            airport = self.airports.get(departure.origin) or self.airports[ELSEWHERE]
            airport.depart.tell(*departure)
            self.position += 1
        if self.position < len(self._departures):
            rayshot.current().after(TICK_S, self.replay)

    def progress(self) -> int:
        """How many flights went so far."""
        return self.position
