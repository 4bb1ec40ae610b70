"""Drivers that died, at an actor: their channels are closed, and later forgotten."""

from typing import TYPE_CHECKING

from rayshot.protocol.events import DriverDied, DriversForgotten

if TYPE_CHECKING:  # process.py makes it
    from rayshot.runtime.process import ActorProcess


class DeadDrivers:
    """Their names stay until the life ends. Everything here is called under the process's lock."""

    def __init__(self, process: "ActorProcess") -> None:
        self._process = process
        self._names: set[str] = set()

    def __contains__(self, driver: str) -> bool:
        return driver in self._names

    def close(self, driver: str) -> None:
        """A driver is gone for ever: nothing more is taken from it, and it gets no results."""
        process = self._process
        self._names.add(driver)
        process.carry_out(process.participant.handle(DriverDied(driver)))
        process.mailbox.drop_held(driver)
        process.outcomes.forget(driver)

    def forget(self, drivers: frozenset[str]) -> None:
        """Nothing of these is needed any more but their names: a committed snapshot holds their last counters."""
        process = self._process
        process.carry_out(process.participant.handle(DriversForgotten(drivers)))
        for driver in drivers & self._names:
            process.mailbox.processed.pop(driver, None)
