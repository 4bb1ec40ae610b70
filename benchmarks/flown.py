"""Flights that are replayed while all else fails, for `chaos`: the actors are those of examples/flights.

Schedules let the flights of a table go, by timers. No program tells them: what is in the air when something fails
comes back from the snapshot, or not at all. In the end each airport must have counted what the table says.
"""

import time
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import rayshot
from examples.flights.airport import ELSEWHERE, Airport
from examples.flights.schedule import TICK_S, Schedule
from examples.flights.sky import Sky, airport_names
from examples.flights.timetable import busiest_airports, read_departures, read_flights, write_flights

SCHEDULES, AIRPORTS = 2, 3
AT_THE_END_PER_S = 1_000.0
POLL_S = 0.1


class Flights:
    """As many as depart in so many seconds, one per schedule and tick. Begins when it is made."""

    def __init__(self, system: rayshot.System, folder: Path, seconds: float) -> None:
        table = folder / "flights.csv"
        write_flights(table, round(seconds / TICK_S) * SCHEDULES)
        self._flown = read_departures(str(table), 0, 1)
        codes = airport_names(busiest_airports(read_flights(table), AIRPORTS))
        airport, schedule = _spread(Airport), _spread(Schedule)
        airports = {code: airport(code).remote() for code in codes}
        schedules = [
            schedule(f"schedule{share}").remote(str(table), share, SCHEDULES, AT_THE_END_PER_S)
            for share in range(SCHEDULES)
        ]
        self.actors = len(airports) + len(schedules)
        self._sky = Sky(system, airports, schedules)
        for one in airports.values():
            one.connect.tell(airports)
        self._sky.begin()

    def await_landed(self, seconds: float) -> int:
        """Let all go that are left. How many departures and landings are missing or too many when no more come."""
        self._sky.go_on(1.0)
        began = time.monotonic()
        while self._sky.progress().arrivals < len(self._flown) and time.monotonic() < began + seconds:
            time.sleep(POLL_S)
        waited_s = time.monotonic() - began
        departed = Counter(self._airport(one.origin) for one in self._flown)
        landed = Counter(self._airport(one.destination) for one in self._flown)
        too_many = {
            code: (counted.departures - departed[code], counted.arrivals - landed[code])
            for code, counted in self._sky.totals().items()
        }
        if any(map(any, too_many.values())):
            print(f"        flights too many, departed and landed, after {waited_s:.0f} s: {too_many}", flush=True)
        return sum(map(abs, chain(*too_many.values())))

    def _airport(self, code: str) -> str:
        return code if code in self._sky.airports else ELSEWHERE


def _spread(kind: Any) -> Callable[[str], Any]:
    return lambda name: kind.options(name=name, scheduling_strategy="SPREAD")
