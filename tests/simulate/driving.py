"""A world with drivers in it."""

from abc import abstractmethod
from collections import defaultdict
from typing import Any

from rayshot.protocol.driver_events import AnswerArrived
from rayshot.protocol.events import DriverDied, DriversForgotten
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.bodies.application import AccountMessage, Received, SimulatedAccount
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.networks import NETWORKS, Traffic
from rayshot.simulation.world.rollback import RollingBackNetwork
from tests.simulate.commit import Commit
from tests.simulate.settings import PROCESSES_MAX, Settings
from tests.simulate.truth import Answer, Truth


class DrivenWorld(RollingBackNetwork[AccountProcess, Commit]):
    """What drivers do, and what happens to them, and the truth of it."""

    def __init__(self, choices: Choices, settings: Settings, machines: Machines, *, story: bool = False) -> None:
        keeps_order = NETWORKS[settings.network].keeps_order
        traffic = Traffic(keeps_order, settings.lost_one_in, settings.duplicated_one_in)
        super().__init__(choices, traffic, machines, story=story)
        self.settings = settings
        initial = {
            name: SimulatedAccount(name, 100, known, settings.timers) for name, known in settings.contacts.items()
        }
        self.truth = Truth(initial)
        self.answered: dict[str, dict[str, int]] = defaultdict(dict)
        """Driver -> process -> the last message of the driver that it has seen answered by this process."""
        self.answered_before: dict[Channel, list[dict[str, int]]] = defaultdict(list)
        """For each message of a driver in the order of the channel: `answered` when the driver wrote it."""

    def add_drivers(self) -> None:
        """Begin the drivers of this run."""
        for index in range(self.settings.drivers):
            name = f"driver:{index}"
            driver = self.drivers[name] = SimulatedDriver(name, self.machines.driver(name, 1), self.transmit)
            driver.contacts = list(self.settings.contacts)
            self.push(self.on_drive, driver, self.settings.activity // 3)

    @abstractmethod
    def on_spawn(self, name: str, incarnation: int) -> None:
        """Let a process that was created come up."""

    def on_drive(self, driver: SimulatedDriver, moves: int) -> None:
        """A driver sends something, and goes on."""
        if not driver.alive or self.calm:
            return
        if self.odds(self.settings.creations_one_in) and len(self.processes) < PROCESSES_MAX:
            name = f"{driver.name.replace(':', '')}.{len(driver.creations) + 1}"
            driver.creations.append(name)
            driver.contacts.append(name)
            self.write(driver, name, "construct", self.choose(30))
            self.push(self.on_spawn, name, driver.machine.incarnation)  # it is made again in a life of which it hears
        else:
            receiver = driver.contacts[self.choose(len(driver.contacts))]
            self.write(driver, receiver, ("transfer", "call")[self.choose(2)], self.choose(10))
        for receiver in driver.waiting():
            self.truth_of(driver, receiver)
            self.push_once(self.on_take_driver, driver, receiver)
        if moves > 1:
            self.push(self.on_drive, driver, moves - 1)

    def write(self, driver: SimulatedDriver, receiver: str, kind: str, amount: int) -> None:
        """A driver sends a message."""
        driver.write(receiver, AccountMessage(kind, amount, driver.sent(receiver) + 1))
        self.answered_before[Channel(driver.name, receiver)].append(dict(self.answered[driver.name]))
        self.truth_of(driver, receiver)

    def judge_order(self, process: AccountProcess, message: Received) -> None:
        """What a driver had seen answered before it sent a message takes effect before this message, in each life."""
        driver = message.sender
        for name, number in self.answered_before[Channel(driver, process.name)][message.message.sequence - 1].items():
            other = self.processes.get(name)
            there = other is not None and other.incarnation == process.incarnation
            taken = other.account.seen.get(driver, 0) if there and other and other.account else 0
            if taken < number and name not in self.truth.ended:
                raise OracleFailure(
                    "driver's order",
                    f"{process.name} took {message.message} of {driver}, which had seen {number} answered by {name} "
                    f"before; {name} has taken {taken}",
                )

    def truth_of(self, driver: SimulatedDriver, receiver: str) -> None:
        """Drivers' sent messages are the driver's own log: the truth shares it."""
        self.truth.sent[Channel(driver.name, receiver)] = driver.log[receiver]

    def answer(self, process: AccountProcess, driver: str) -> None:
        """See Surroundings."""
        assert process.account is not None
        answer = Answer(process.name, self.truth.position(process.name))
        number = process.account.seen[driver]
        self.push(self.on_answer, driver, process.machine.open_snapshots, process.incarnation, answer, number)

    def on_answer(self, name: str, tags: tuple[SnapshotId, ...], incarnation: int, answer: Answer, number: int) -> None:
        """A driver gets an answer, maybe of a life of which it has not heard."""
        driver = self.drivers[name]
        if not driver.alive:
            return
        self.counts["answers of a later life"] += incarnation > driver.machine.incarnation
        self.counts["answers"] += 1
        self.counts["answers with tags"] += bool(tags)
        driver.tell(AnswerArrived(tags, answer.process, number, incarnation))
        known = self.answered[name]
        known[answer.process] = max(known.get(answer.process, 0), number)
        self.truth.answered(name, incarnation, answer)
        process = self.processes.get(answer.process)
        if process and process.account:
            driver.contacts += [known for known in process.account.contacts if known not in driver.contacts]

    def on_tell_driver(self, driver: SimulatedDriver, event: Any) -> None:
        """A driver hears of the end of a snapshot, or of a rollback."""
        driver.tell(event)
        for receiver in driver.waiting():
            self.push_once(self.on_take_driver, driver, receiver)

    def driver_dies(self, driver: SimulatedDriver) -> None:
        """A driver is gone; what it has on its way may still arrive, or not."""
        driver.alive = False
        self.truth.dead_drivers.add(driver.name)
        self.counts["drivers died"] += 1
        for process in self.processes.values():
            self.push(self.on_driver_died, process, driver.name)

    def tell_of_dead_drivers(self, process: AccountProcess) -> None:
        """A process that comes up is told of the drivers that died before."""
        for driver in sorted(self.truth.dead_drivers):
            self.push(self.on_driver_died, process, driver)

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
