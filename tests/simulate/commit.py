"""A commit, as the judges see it."""

from dataclasses import dataclass

from rayshot.simulation.world.packets import StoredCut


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot in the log, and where it has each process."""

    stored: StoredCut
    positions: dict[str, int]

    def __str__(self) -> str:
        return str(self.stored.cut.snapshot)
