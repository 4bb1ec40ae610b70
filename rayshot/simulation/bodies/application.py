"""The bare application: accounts that know nothing of snapshots.

An account is a deterministic machine: each step is a fact that the world decided, and `apply` is the only effect of a
step. So a run can be replayed from its steps alone. Each message carries the application's own sequence number per
channel, independent of the protocol's numbers. So a lost, doubled or overtaken message is noticed at once.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, assert_never
from zlib import crc32

from rayshot.simulation.world.failure import OracleFailure


class AccountMessage(NamedTuple):
    """`kind`: "transfer", "call" (a driver wants an answer), "construct", "timer". `subject`: a name to make known."""

    kind: str
    amount: int
    sequence: int
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.kind}#{self.sequence}({self.amount})"


class Received(NamedTuple):
    """A message was taken from the mailbox: a handler began."""

    sender: str
    message: AccountMessage


class HandlerSent(NamedTuple):
    """The handler sent a message."""

    receiver: str
    amount: int
    subject: str = ""


class Created(NamedTuple):
    """The handler created an account and sent it its constructor's message."""

    name: str
    amount: int


class TimerSet(NamedTuple):
    """The handler set a timer."""


class TimerFired(NamedTuple):
    """A timer fired: a message from the account to itself."""


class HandlerEnded(NamedTuple):
    """The handler ended the account; it left everything to `successor`, if there is one."""

    successor: str


Step = Received | HandlerSent | Created | TimerSet | TimerFired | HandlerEnded


@dataclass(slots=True)
class SimulatedAccount:
    """One account. `digest` depends on every step and on their order."""

    name: str
    balance: int
    contacts: tuple[str, ...]
    timers: int = 0
    created: int = 0
    ending: bool = False
    digest: int = 0
    sent: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "SimulatedAccount":
        """Return an equal account that shares nothing with this one."""
        return SimulatedAccount(
            self.name,
            self.balance,
            self.contacts,
            self.timers,
            self.created,
            self.ending,
            self.digest,
            dict(self.sent),
            dict(self.seen),
        )

    def apply(self, step: Step) -> tuple[str, AccountMessage] | None:
        """Do one step; return the receiver and the message that it sent, if any."""
        what = type(step).__name__ + (str(step[0]) if step else "")
        self.digest = crc32(what.encode(), self.digest ^ self.balance & 0xFFFFFFFF)
        match step:
            case Received(sender, message):
                self._receive(sender, message)
                return None
            case HandlerSent(receiver, amount, subject):
                return self._send(receiver, "transfer", amount, subject)
            case Created(name, amount):
                self.created += 1
                self.contacts += (name,)
                return self._send(name, "construct", amount, self.name)
            case TimerSet():
                self.timers += 1
                return None
            case TimerFired():
                self.timers -= 1
                return self._send(self.name, "timer", 0, "")
            case HandlerEnded(successor):
                self.ending = True
                return self._send(successor, "transfer", self.balance, "") if successor else None
            case _:
                assert_never(step)

    def _send(self, receiver: str, kind: str, amount: int, subject: str) -> tuple[str, AccountMessage]:
        self.balance -= amount
        self.sent[receiver] = sequence = self.sent.get(receiver, 0) + 1
        return receiver, AccountMessage(kind, amount, sequence, subject)

    def _receive(self, sender: str, message: AccountMessage) -> None:
        expected = self.seen.get(sender, 0) + 1
        if message.sequence != expected:
            raise OracleFailure("order", f"{self.name} got {message.sequence} of {sender}, not {expected}")
        self.seen[sender] = expected
        self.balance += message.amount
        if message.subject and message.subject not in self.contacts:
            self.contacts += (message.subject,)


def newborn(name: str) -> SimulatedAccount:
    """The account on which a constructor's message is the first step."""
    return SimulatedAccount(name, 0, (), timers=1)
