"""A process with an account of the bare application inside: its handlers run in parts, which its world decides on."""

from typing import Any, Protocol, cast

from rayshot.protocol.events import SnapshotRequested
from rayshot.protocol.participant import Participant
from rayshot.simulation.application import Account, Ended, Message, Received, Step, TimerFired, newborn
from rayshot.simulation.process import Process, Surroundings

SNAPSHOT = "snapshot"


class Director(Surroundings, Protocol):
    """What an account asks of its world, beside what every process does. `happened` is said at once."""

    def plan(self, process: "AccountProcess", cause: Received) -> list[Step | str]:
        """Decide what a handler does: steps, SNAPSHOT to ask for one, or the name of a driver to answer."""

    def happened(self, process: "AccountProcess", step: Step, emitted: tuple[str, Message] | None) -> None:
        """A step was done."""

    def answer(self, process: "AccountProcess", driver: str) -> None:
        """Answer a driver's call."""


class AccountProcess(Process):
    """See the module. `account` is None before birth; `todo` is what the running handler is still to do."""

    def __init__(self, name: str, machine: Participant, world: Any, account: Account | None = None) -> None:
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

    def is_creation(self, message: Message) -> bool:
        """See Process."""
        return message.kind == "construct"

    def state(self) -> Account | None:
        """See Process."""
        return self.account.copy() if self.account else None

    def has_work(self) -> bool:
        """Whether there is anything to do for its worker: the rest of a handler, a capture, a message."""
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
        """Do one step of the application; what it sends goes into the outbox, or into the own mailbox."""
        assert self.account is not None
        emitted = self.account.apply(step)
        self.director.happened(self, step, emitted)
        if emitted is not None:
            self.put(*emitted)
        if isinstance(step, Ended):
            self.todo.clear()
        self.world.wake(self)

    def fire(self) -> None:
        """A timer fires: atomic with its removal from the table."""
        if self.account is not None and self.account.timers and not self.account.ending and not self.machine.paused:
            self.step(TimerFired())
