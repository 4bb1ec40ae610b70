"""Calls of a driver whose system goes back to its snapshots by itself: what was answered must be answered again."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from rayshot.errors import NoAnswer
from rayshot.protocol.driver import AnswerArrived, Driver, DriverEffect
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.life.calls import Calls, unpack_tags


class _Call(NamedTuple):
    """A call by the number of its message."""

    number: int
    call_id: int


class KeptCalls(Calls):
    """The calls that no durable snapshot holds as processed. Call everything except `hear` under the driver's lock.

    When the system goes back, the actors handle these calls again. The machine must hear when they have, and the actors
    must be rid of the outcomes: so the driver asks for each outcome again, unless a fetch of it is open. Such a fetch
    brings an outcome of the new life, as hosts carry them over, or else it fails with its host.

    `numbered(receiver)` is the number of the last message to a receiver that the machine knows. An actor that has ended
    may answer before that.
    """

    def __init__(self, machine: Driver, is_connected: Callable[[str], bool], numbered: Callable[[str], int]) -> None:
        super().__init__(machine, is_connected)
        self._numbered = numbered
        self._numbers: dict[str, dict[int, int]] = {}  # by receiver, call id -> number of the message, ascending
        self._open: dict[int, int] = {}  # call id -> the life in which the open fetch of its outcome was made
        self._fetches: dict[int, Any] = {}  # call id -> the reference of a fetch that this class made
        self._due: defaultdict[str, list[_Call]] = defaultdict(list)
        self._early: list[AnswerArrived] = []

    @property
    def is_ahead(self) -> bool:
        """Whether an answer of a later life is held back. Then no message may be numbered before that life is known."""
        return bool(self._early)

    def made(self, receiver: str, call_id: int, tags: Any, number: int) -> None:
        """See Calls."""
        super().made(receiver, call_id, tags, number)
        self._numbers.setdefault(receiver, {})[call_id] = number
        self._open[call_id] = self._machine.incarnation

    def _heard(self, tags: tuple[SnapshotId, ...]) -> Sequence[DriverEffect]:
        life = max((tag.incarnation for tag in tags), default=1)
        return self._arrived(AnswerArrived(tags, incarnation=life))

    def answered(self, receiver: str, call_id: int, answer: Any) -> Sequence[DriverEffect]:
        """See Calls. An outcome of an earlier life, or the error of a host that died then, must be asked for again."""
        present = self._machine.incarnation
        asked_in = self._open.pop(call_id, present)
        self._fetches.pop(call_id, None)
        number = self._numbers.get(receiver, {}).get(call_id, 0)
        effects: Sequence[DriverEffect] = ()
        if answer.__class__ is bytes:
            life, tags = unpack_tags(answer)
            asked_in = life or asked_in
            known = number if number <= self._numbered(receiver) else 0
            effects = self._arrived(AnswerArrived(tags, receiver, known, asked_in))
        elif isinstance(answer, door.Raised) and isinstance(answer.cause, NoAnswer):
            asked_in = present  # it was handled, and its outcome is lost
            effects = self._arrived(AnswerArrived((), receiver, number, present))
        if number and asked_in < present:
            heappush(self._due[receiver], _Call(number, call_id))
        return effects

    def _arrived(self, answer: AnswerArrived) -> Sequence[DriverEffect]:
        if answer.incarnation > self._machine.incarnation:
            self._early.append(answer)
            return ()
        return self._machine.handle(answer)

    def covered(self, received: Mapping[str, int], ended: Collection[str]) -> None:
        """A durable snapshot has these messages processed, and these actors have ended in it.

        An outcome that is due stays so: nobody else would fetch it.
        """
        for receiver in self._due.keys() & ended:
            del self._due[receiver]
        for receiver in tuple(self._numbers):
            numbers, last = self._numbers[receiver], received.get(receiver, 0)
            if receiver in ended:
                numbers.clear()
            while numbers and next(iter(numbers.values())) <= last:
                del numbers[next(iter(numbers))]
            if not numbers:
                del self._numbers[receiver]

    def go_back(self) -> Sequence[DriverEffect]:
        """A later life begins, and the machine has heard of it; so has `covered` of its snapshot."""
        early, self._early = self._early, []
        given = {
            (answer.receiver, answer.number) for answer in early if answer.incarnation >= self._machine.incarnation
        }
        self._due.clear()
        for receiver, numbers in self._numbers.items():
            for call_id, number in numbers.items():  # in order, so the list is a heap
                if call_id not in self._open and (receiver, number) not in given:
                    self._due[receiver].append(_Call(number, call_id))
        return [effect for answer in early for effect in self._arrived(answer)]

    @property
    def due(self) -> Collection[str]:
        """The receivers that must be asked for outcomes again."""
        return tuple(self._due)

    def are_due(self, receiver: str) -> bool:
        """Whether the receiver must be asked for outcomes again."""
        return receiver in self._due

    def ask_again(
        self, receiver: str, handed: int, fetch: Callable[[int, int], Any], tell: Callable[[Any, int], None]
    ) -> None:
        """Fetch the outcomes of all calls up to message `handed` that must be asked for again.

        `fetch(call_id, first_open)` returns the reference to the life and tags of an answer. `tell` gets it, and lets
        `answered` hear of it later.
        """
        due = self._due.get(receiver, [])
        while due and due[0].number <= handed:
            call_id = heappop(due).call_id
            if call_id not in self._open:
                self._open[call_id] = self._machine.incarnation
                self._fetches[call_id] = fetch(call_id, self.first_open(receiver))
                tell(self._fetches[call_id], call_id)
        if not due:
            self._due.pop(receiver, None)
