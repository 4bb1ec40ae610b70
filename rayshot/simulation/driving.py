"""A world with drivers in it."""

from typing import Any

from rayshot.protocol.driver import AnswerArrived
from rayshot.protocol.events import DriverDied, DriversForgotten
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.simulation.account_process import AccountProcess
from rayshot.simulation.driver import SimulatedDriver
from rayshot.simulation.network import Network
from rayshot.simulation.settings import PROCESSES_MAX
from rayshot.simulation.truth import Answer


class DrivenWorld(Network):
    """What drivers do, and what happens to them."""

    def on_drive(self, driver: SimulatedDriver, moves: int) -> None:
        """A driver sends something, and goes on."""
        if not driver.alive or self.calm:
            return
        if self.odds(self.settings.creations_one_in) and len(self.processes) < PROCESSES_MAX:
            name = f"{driver.name.replace(':', '')}.{len(driver.creations) + 1}"
            driver.creations.append(name)
            driver.contacts.append(name)
            driver.write(name, "construct", self.choose(30))
            self.push("spawn", name, self.incarnation)
        else:
            receiver = driver.contacts[self.choose(len(driver.contacts))]
            driver.write(receiver, ("transfer", "call")[self.choose(2)], self.choose(10))
            self.truth_of(driver, receiver)
        for receiver in driver.waiting():
            self.truth_of(driver, receiver)
            self.push_once("take_driver", driver, receiver)
        if moves > 1:
            self.push("drive", driver, moves - 1)

    def truth_of(self, driver: SimulatedDriver, receiver: str) -> None:
        """Drivers' sent messages are the driver's own log: the truth shares it."""
        self.truth.sent[Channel(driver.name, receiver)] = driver.log[receiver]

    def on_take_driver(self, driver: SimulatedDriver, receiver: str) -> None:
        """The transport takes some of what a driver wrote."""
        count = len(driver.log[receiver]) - driver.taken[receiver]
        if driver.alive and count and receiver not in driver.ended:
            driver.take(receiver, 1 + self.choose(count))
            if receiver in driver.waiting():
                self.push_once("take_driver", driver, receiver)

    def answer(self, process: AccountProcess, driver: str) -> None:
        """See Surroundings."""
        answer = Answer(process.name, self.truth.position(process.name))
        self.push("answer", driver, process.machine.open_snapshots, process.incarnation, answer)

    def on_answer(self, name: str, tags: tuple[SnapshotId, ...], incarnation: int, answer: Answer) -> None:
        """A driver gets an answer."""
        driver = self.drivers[name]
        if not driver.alive:
            return
        self.counts["answers"] += 1
        self.counts["answers with tags"] += bool(tags)
        driver.tell(AnswerArrived(tags))
        self.truth.answered(name, incarnation, answer)
        process = self.processes.get(answer.process)
        if process and process.account:
            driver.contacts += [known for known in process.account.contacts if known not in driver.contacts]

    def on_tell_driver(self, driver: SimulatedDriver, event: Any) -> None:
        """A driver hears of the end of a snapshot, or of a rollback."""
        driver.tell(event)
        for receiver in driver.waiting():
            self.push_once("take_driver", driver, receiver)

    def driver_dies(self, driver: SimulatedDriver) -> None:
        """A driver is gone; what it has on its way may still arrive, or not."""
        driver.alive = False
        self.truth.dead_drivers.add(driver.name)
        self.counts["drivers died"] += 1
        for process in self.processes.values():
            self.push("driver_died", process, driver.name)

    def tell_of_dead_drivers(self, process: AccountProcess) -> None:
        """A process that comes up is told of the drivers that died before."""
        for driver in sorted(self.truth.dead_drivers):
            self.push("driver_died", process, driver)

    def on_driver_died(self, process: AccountProcess, driver: str) -> None:
        """A process hears that a driver died."""
        if process.alive and not process.ended:
            process.tell(DriverDied(driver))

    def on_forget_drivers(self, name: str, incarnation: int, drivers: frozenset[str]) -> None:
        """A process hears that a stored cut holds all that it took of drivers that died."""
        process = self.processes.get(name)
        if process and process.alive and not process.ended and process.incarnation == incarnation:
            self.counts["drivers forgotten"] += len(drivers)
            process.tell(DriversForgotten(drivers))
            for driver in drivers:
                process.received.pop(driver, None)
