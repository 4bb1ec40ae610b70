"""What really happened: written down beside the world, read by the oracles only.

There is one timeline. A rollback cuts it off behind the restored snapshot; what processes of an older incarnation still
do then is not written down any more. Drivers are outside of the system: what they sent stays.

An account depends on its own steps and on nothing else, so where a process stands after so many of them is found by
applying them to the bare application; each such place is kept, so that a judge goes on from there and not from the
start. What a process took is compared with what was sent when it happens: no message is taken before it was sent.
"""

from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.simulation.bodies.application import AccountMessage, Received, SimulatedAccount, Step, newborn
from rayshot.simulation.world.failure import OracleFailure


class Answer(NamedTuple):
    """A driver saw the effects of the first `position` steps of `process` before it sent more."""

    process: str
    position: int


class Place(NamedTuple):
    """Where the first `position` steps of a process lead to. The account is read, never changed."""

    position: int
    account: SimulatedAccount


@dataclass
class Truth:
    """The ground truth of one run. `initial` are the accounts that were there at the start."""

    initial: dict[str, SimulatedAccount]
    incarnation: int = 1
    histories: dict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))
    sent: dict[Channel, list[AccountMessage]] = field(default_factory=lambda: defaultdict(list))
    recorded: dict[SnapshotId, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    begun_with: dict[SnapshotId, frozenset[str]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    dead_drivers: set[str] = field(default_factory=set)
    answers: dict[str, list[tuple[dict[str, int], Answer]]] = field(default_factory=lambda: defaultdict(list))
    _places: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))

    def happened(self, process: str, incarnation: int, step: Step, emitted: tuple[str, AccountMessage] | None) -> None:
        """A process did a step."""
        if incarnation != self.incarnation:
            return
        if type(step) is Received:
            self._check_sent(Channel(step.sender, process), step.message, "took")
        self.histories[process].append(step)
        if emitted is not None:
            self.sent[Channel(process, emitted[0])].append(emitted[1])

    def position(self, process: str) -> int:
        """How many steps `process` has done on this timeline."""
        return len(self.histories[process])

    def captured(self, process: str, snapshot: SnapshotId) -> None:
        """A process recorded its state, between two handlers."""
        if snapshot.incarnation == self.incarnation:
            if process in self.recorded[snapshot]:
                raise OracleFailure("once", f"{process} recorded {snapshot} a second time")
            self.recorded[snapshot][process] = self.position(process)

    def answered(self, driver: str, incarnation: int, answer: Answer) -> None:
        """A driver got an answer; what it had sent to each process by then comes before it."""
        if incarnation == self.incarnation:
            counts = {c.receiver: len(messages) for c, messages in self.sent.items() if c.sender == driver}
            self.answers[driver].append((counts, answer))

    def process_ended(self, process: str, incarnation: int) -> None:
        """A process ended by its own wish."""
        if incarnation == self.incarnation:
            self.ended.add(process)

    def rolled_back(self, incarnation: int, positions: dict[str, int], ended: set[str]) -> None:
        """The system went back: each process to its first `positions` steps, all others to none."""
        self.incarnation = incarnation
        self.ended = set(ended)
        self.answers = defaultdict(list)
        for process, history in self.histories.items():
            position = positions.get(process, 0)
            del history[position:]
            self._places[process] = [place for place in self._places[process] if place.position <= position]
        accounts = self.accounts(positions)
        for channel, messages in self.sent.items():
            if channel.sender in self.histories:
                sender = accounts.get(channel.sender)
                del messages[sender.sent.get(channel.receiver, 0) if sender else 0 :]

    def accounts(self, positions: dict[str, int]) -> dict[str, SimulatedAccount]:
        """Who is there after so many steps of each, 0 where `positions` is silent; not to be changed."""
        names = self.initial.keys() | self.histories.keys()
        accounts = {process: self.account(process, positions.get(process, 0)) for process in sorted(names)}
        return {process: account for process, account in accounts.items() if account is not None}

    def account(self, process: str, position: int) -> SimulatedAccount | None:
        """Where the first `position` steps of `process` lead to, None before its birth; not to be changed."""
        if position == 0:
            return self.initial.get(process)
        places = self._places[process]
        near = next((place for place in reversed(places) if place.position <= position), None)
        if near is not None and near.position == position:
            return near.account
        start = near.position if near else 0
        account = near.account.copy() if near else self._before(process)
        for step in self.histories[process][start:position]:
            if emitted := account.apply(step):
                self._check_sent(Channel(process, emitted[0]), emitted[1], "would send")
        insort(places, Place(position, account))
        return account

    def _before(self, process: str) -> SimulatedAccount:
        return self.initial[process].copy() if process in self.initial else newborn(process)

    def _check_sent(self, channel: Channel, message: AccountMessage, what: str) -> None:
        """A message is the one that was sent under its number."""
        sent = self.sent.get(channel, ())
        if not 0 < message.sequence <= len(sent) or sent[message.sequence - 1] != message:
            raise OracleFailure("orphan", f"{channel}: {what} {message}, which was not sent")
