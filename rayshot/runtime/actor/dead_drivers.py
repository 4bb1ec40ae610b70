"""How an actor treats drivers that died: it closes their channels, and later forgets them."""

from collections.abc import Mapping

from rayshot.model.owed_answers import OwedAnswers
from rayshot.protocol.events import DriverDied, DriversForgotten
from rayshot.protocol.identity import label_of
from rayshot.runtime.actor.mailbox import Mailbox
from rayshot.runtime.actor.outcomes import Outcomes
from rayshot.runtime.actor.runner import Runner


class DeadDrivers:
    """The drivers that died. Their names stay until the life ends. Call everything here under the process's lock."""

    def __init__(self, runner: Runner, mailbox: Mailbox, outcomes: Outcomes, owed: OwedAnswers) -> None:
        self._runner = runner
        self._mailbox = mailbox
        self._outcomes = outcomes
        self._owed = owed
        self._names: set[str] = set()
        self._programs: dict[str, str] = {}

    def __contains__(self, driver: str) -> bool:
        return driver in self._names or (bool(self._programs) and self._is_superseded(driver))

    def _is_superseded(self, driver: str) -> bool:
        return self._programs.get(label_of(driver), driver) != driver

    def supersede(self, programs: Mapping[str, str]) -> None:
        """Of each of these labels only one driver, the present one, may send: close all others."""
        for label, driver in programs.items():
            if driver not in self._names or label not in self._programs:  # otherwise the news are late
                self._programs[label] = driver
        for driver in self._mailbox.senders() - self._names:
            if self._is_superseded(driver):
                self.close(driver)

    def close(self, driver: str) -> None:
        """A driver is gone for ever: take nothing more from it, and give it no results."""
        self._names.add(driver)
        self._runner.handle(DriverDied(driver))
        self._mailbox.drop_held(driver)
        self._outcomes.forget(driver)
        self._owed.forget({driver})

    def forget(self, drivers: frozenset[str]) -> None:
        """Forget everything about these drivers except their names: a committed snapshot holds their last counters."""
        self._runner.handle(DriversForgotten(drivers))
        for driver in drivers & self._names:
            self._mailbox.processed.pop(driver, None)
