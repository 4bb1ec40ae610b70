"""What one snapshot holds of the sky, from its own bytes."""

import math
from dataclasses import dataclass
from typing import Self

import rayshot


@dataclass(frozen=True)
class Flight:
    """An aircraft in the air: a message that was sent and not yet received. Times in seconds since 1970."""

    number: str
    origin: str
    destination: str
    took_off_at: float
    lands_at: float

    def progress_at(self, when: float) -> float:
        """How much of its way it has flown, 0 to 1; above 1 it waits to land."""
        return (when - self.took_off_at) / max(self.lands_at - self.took_off_at, 1e-9)


@dataclass(frozen=True)
class Photograph:
    """A snapshot, counted.

    `replayed`, `departures` and `arrivals` are what the actors' states say; `at_the_gate` counts flights that a
    schedule let go and no airport has let off, `in_the_air` those that left one airport and have not reached another.
    Both are messages, and in no actor's state.
    """

    replayed: int
    departures: int
    arrivals: int
    at_the_gate: int
    in_the_air: tuple[Flight, ...]

    @classmethod
    def of(cls, snapshot: rayshot.Snapshot) -> Self:
        """Prove the snapshot from its bytes, then count what it holds. Raises Damaged where it cannot be proved."""
        snapshot.verify()
        states = snapshot.states().values()
        messages = [message for channel in snapshot.channels.values() for message in channel.messages]
        landings = [message.args for message in messages if message.method == "land"]
        return cls(
            replayed=sum(state.get("position", 0) for state in states),
            departures=sum(state.get("departures", 0) for state in states),
            arrivals=sum(state.get("arrivals", 0) for state in states),
            at_the_gate=sum(message.method == "depart" for message in messages),
            in_the_air=tuple(
                Flight(number, origin, destination, took_off_at, lands_at)
                for number, _, origin, destination, _, took_off_at, lands_at in landings
            ),
        )

    @property
    def moment(self) -> float:
        """Seconds since 1970 at the last take-off that is in the picture. A cut has no one time of its own."""
        return max((flight.took_off_at for flight in self.in_the_air), default=0.0)

    @property
    def clarity(self) -> float:
        """How good a picture it makes: many aircraft on their way, and few in the queues to land."""
        on_their_way = sum(flight.progress_at(self.moment) < 1 for flight in self.in_the_air)
        return on_their_way / math.sqrt(max(1, len(self.in_the_air)))

    def contradictions(self) -> list[str]:
        """What does not add up, in sentences: none in a consistent snapshot."""
        found = []
        if self.departures != self.arrivals + len(self.in_the_air):
            found.append(
                f"{self.departures:,} departures are not {self.arrivals:,} arrivals "
                f"and {len(self.in_the_air):,} in the air"
            )
        if self.replayed != self.departures + self.at_the_gate:
            found.append(
                f"{self.replayed:,} flights replayed are not {self.departures:,} departures "
                f"and {self.at_the_gate:,} at the gate"
            )
        return found
