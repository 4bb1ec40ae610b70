"""What really happened: written down beside the world, read by the oracles only.

There is one timeline. A rollback cuts it off behind the restored snapshot; what processes of an older incarnation still
do then is not written down any more. Drivers are outside of the system: what they sent stays.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.simulation.application import Account, Message, Step, newborn


class Happened(NamedTuple):
    """One step of one process; `order` is its place among all steps of all processes."""

    order: int
    process: str
    step: Step


class Answer(NamedTuple):
    """A driver saw the effects of the first `position` steps of `process` before it sent more."""

    process: str
    position: int


@dataclass
class Truth:
    """The ground truth of one run. `initial` are the accounts that were there at the start."""

    initial: dict[str, Account]
    incarnation: int = 1
    histories: dict[str, list[Happened]] = field(default_factory=lambda: defaultdict(list))
    sent: dict[Channel, list[Message]] = field(default_factory=lambda: defaultdict(list))
    recorded: dict[SnapshotId, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    begun_with: dict[SnapshotId, frozenset[str]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    dead_drivers: set[str] = field(default_factory=set)
    answers: dict[str, list[tuple[dict[str, int], Answer]]] = field(default_factory=lambda: defaultdict(list))
    _order: int = 0

    def happened(self, process: str, incarnation: int, step: Step, emitted: tuple[str, Message] | None) -> None:
        """A process did a step."""
        if incarnation == self.incarnation:
            self._order += 1
            self.histories[process].append(Happened(self._order, process, step))
            if emitted is not None:
                self.sent[Channel(process, emitted[0])].append(emitted[1])

    def position(self, process: str) -> int:
        """How many steps `process` has done on this timeline."""
        return len(self.histories[process])

    def captured(self, process: str, snapshot: SnapshotId) -> None:
        """A process recorded its state, between two handlers."""
        if snapshot.incarnation == self.incarnation:
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
        for process, history in self.histories.items():
            del history[positions.get(process, 0) :]
        drivers = {c: messages for c, messages in self.sent.items() if c.sender not in self.histories}
        self.sent = defaultdict(list, drivers)
        self.answers = defaultdict(list)
        for process in self.histories:
            self._send_again(process)

    def account(self, process: str) -> Account:
        """A process before its first step."""
        return self.initial[process].copy() if process in self.initial else newborn(process)

    def _send_again(self, process: str) -> None:
        account = self.account(process)
        for happened in self.histories[process]:
            if emitted := account.apply(happened.step):
                self.sent[Channel(process, emitted[0])].append(emitted[1])
