"""Airports, the actors between which flights are messages.

A flight is one message: `land`, from the airport of origin to that of destination. While it is under way, it exists in
no actor's state; only a snapshot that holds the messages in flight holds all aircraft.
"""

import time

import rayshot

ELSEWHERE = "elsewhere"
"""The actor that stands for all airports but the busiest."""
FLIGHT_MINUTE_S = 0.0005
"""A minute in the air lasts half a millisecond: two hours and a half are 75 ms."""


@rayshot.actor(num_cpus=0)
class Airport:
    """Counts what departs and what arrives."""

    def __init__(self) -> None:
        self.airports: dict[str, rayshot.ActorHandle] = {}
        self.departures = 0
        self.arrivals = 0
        self.departure_delay_min = 0
        self.arrival_delay_min = 0
        self.last_aircraft: str | None = None

    def connect(self, airports: dict[str, rayshot.ActorHandle]) -> None:
        """Learn where the airports are."""
        self.airports = airports

    def depart(
        self,
        number: str,
        aircraft: str | None,
        origin: str,
        destination: str,
        departure_delay_min: int | None,
        arrival_delay_min: int | None,
        minutes: int,
    ) -> None:
        """Let a flight take off: from now on it is a message to its destination. Delays may be unknown."""
        self.departures += 1
        self.departure_delay_min += departure_delay_min or 0
        self.last_aircraft = aircraft
        took_off_at = time.time()
        where = self.airports.get(destination) or self.airports[ELSEWHERE]
        where.land.tell(
            number,
            aircraft,
            origin,
            destination,
            arrival_delay_min,
            took_off_at,
            took_off_at + minutes * FLIGHT_MINUTE_S,
        )

    def land(
        self,
        _number: str,
        aircraft: str | None,
        _origin: str,
        _destination: str,
        arrival_delay_min: int | None,
        _took_off_at: float,
        lands_at: float,
    ) -> None:
        """Take the next flight in when its time in the air is over (seconds since 1970)."""
        still_in_the_air_s = lands_at - time.time()
        if still_in_the_air_s > 0:
            time.sleep(still_in_the_air_s)
        self.arrivals += 1
        self.arrival_delay_min += arrival_delay_min or 0
        self.last_aircraft = aircraft

    def totals(self) -> tuple[int, int, int, int]:
        """Departures, arrivals, and their minutes of delay."""
        return self.departures, self.arrivals, self.departure_delay_min, self.arrival_delay_min
