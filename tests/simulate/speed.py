"""How fast schedules run, in seconds of processor time."""

from dataclasses import dataclass

from tests.simulate.settings import Settings

FAULTY_PROCESSES = 4


@dataclass(slots=True)
class Speed:
    """Schedules and their seconds: of all, and of those of 4 processes with faults, which are apart.

    The latter are of one size, so that they can be compared over time, whatever else the drawn mix holds.
    """

    schedules: int = 0
    seconds: float = 0.0
    faulty: int = 0
    faulty_seconds: float = 0.0

    def add(self, settings: Settings, seconds: float) -> None:
        """Count one schedule."""
        self.schedules += 1
        self.seconds += seconds
        if len(settings.contacts) == FAULTY_PROCESSES and settings.has_faults:
            self.faulty += 1
            self.faulty_seconds += seconds

    @property
    def of_all(self) -> int:
        """Schedules a second, all taken together."""
        return _rate(self.schedules, self.seconds)

    @property
    def of_faulty(self) -> int:
        """Schedules a second, of 4 processes with faults."""
        return _rate(self.faulty, self.faulty_seconds)


def _rate(count: int, seconds: float) -> int:
    return round(count / seconds) if seconds else 0
