"""A process with an account of the bare application. Its handlers run in parts, and the world decides on each part."""

from typing import Any, Protocol, cast

from rayshot.protocol.events import SnapshotRequested
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.application import (
    AccountMessage,
    HandlerEnded,
    Received,
    SimulatedAccount,
    Step,
    TimerFired,
    newborn,
)
from rayshot.simulation.world.process import Process, Surroundings

SNAPSHOT = "snapshot"


class Director(Surroundings, Protocol):
    """What an account asks of its world, besides what every process asks. `happened` is called at once."""

    def plan(self, process: "AccountProcess", cause: Received) -> list[Step | str]:
        """Decide what a handler does: steps, SNAPSHOT to ask for one, or the name of a driver to answer."""

    def happened(self, process: "AccountProcess", step: Step, emitted: tuple[str, AccountMessage] | None) -> None:
        """Note that a step was done."""

    def answer(self, process: "AccountProcess", driver: str) -> None:
        """Answer a driver's call."""


class AccountProcess(Process):
    """See the module. `account` is None before birth; `todo` is the rest of the running handler."""

    def __init__(self, name: str, machine: Participant, world: Any, account: SimulatedAccount | None = None) -> None:
        super().__init__(name, machine, world)
        self.director = cast("Director", world)
        self.account = account
        self.todo: list[Step | str] = []

    @property
    def is_born(self) -> bool:
        """See Process."""
        return self.account is not None

    @property
    def is_ending(self) -> bool:
        """See Process."""
        return self.account is not None and self.account.ending

    @property
    def is_busy(self) -> bool:
        """See Process."""
        return bool(self.todo)

    def is_creation(self, message: AccountMessage) -> bool:
        """See Process."""
        return message.kind == "construct"

    def state(self) -> SimulatedAccount | None:
        """See Process."""
        return self.account.copy() if self.account else None

    def has_work(self) -> bool:
        """Whether its worker has anything to do: the rest of a handler, a capture, a message."""
        return bool(self.todo or self.pauses or self.next_capture() is not None or self.next_senders())

    def begin_handler(self, sender: str) -> None:
        """Take the next message of `sender` from the mailbox."""
        message = self.pop_message(sender)
        if self.account is None:
            self.account = newborn(self.name)
        step = Received(sender, message)
        self.step(step)
        self.todo = self.director.plan(self, step)

    def go_on(self) -> None:
        """Do the next part of the running handler."""
        step = self.todo.pop(0)
        if not isinstance(step, str):
            self.step(step)
        elif step == SNAPSHOT:
            self.tell(SnapshotRequested())
        else:
            self.director.answer(self, step)
        self.world.wake(self)

    def step(self, step: Step) -> None:
        """Do one step of the application; put what it sends into the outbox, or into the process's own mailbox."""
        assert self.account is not None
        emitted = self.account.apply(step)
        self.director.happened(self, step, emitted)
        if emitted is not None:
            self.put(*emitted)
        if isinstance(step, HandlerEnded):
            self.todo.clear()
        self.world.wake(self)

    def fire(self) -> None:
        """Fire a timer, and remove it from the table in the same step."""
        if self.account is not None and self.account.timers and not self.account.ending and not self.machine.paused:
            self.step(TimerFired())
