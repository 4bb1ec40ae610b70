"""The calls of a driver that no durable snapshot holds as answered.

When the system goes back, the actors handle these calls again. The driver must hear when they have, and the actors must
be rid of the outcomes: so the driver asks for each outcome again, unless a fetch of it is open. Such a fetch brings an
outcome of the new life, as an actor's process carries it over, or else it fails with that process.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile
from math import inf
from typing import NamedTuple


class _Call(NamedTuple):
    """A call by the number of its message."""

    number: int
    call_id: int


@dataclass(slots=True)
class RetainedCalls:
    """See the module. A call is known from `made` until a cut holds it; it is due from a rollback until it is asked."""

    _numbers: dict[str, dict[int, int]] = field(default_factory=dict)
    """By receiver: call -> number of its message, ascending."""
    _open: dict[int, int] = field(default_factory=dict)
    """Call -> the life in which the open fetch of its outcome was made."""
    due: dict[str, list[_Call]] = field(default_factory=dict)
    """By receiver, a heap of those whose outcomes must be asked for again."""

    def made(self, receiver: str, call_id: int, number: int, life: int) -> None:
        """A call was made in this life as message `number`, and its outcome is being fetched."""
        assert call_id not in self._open, f"call {call_id} is made twice"
        self._numbers.setdefault(receiver, {})[call_id] = number
        self._open[call_id] = life

    def number(self, receiver: str, call_id: int) -> int:
        """The number of the message of a call; 0 if a cut holds its answer."""
        return self._numbers.get(receiver, {}).get(call_id, 0)

    def fetched(self, receiver: str, call_id: int, given_in: int, present: int) -> int:
        """A fetch is over. Returns the life in which the outcome was given; it is due again if that is an earlier one.

        `given_in` 0: the outcome does not say, or there is none, so it counts as given when it was asked for.
        """
        asked_in = self._open.pop(call_id, present)
        life = given_in or asked_in
        if life < present and (number := self.number(receiver, call_id)):
            heappush(self.due.setdefault(receiver, []), _Call(number, call_id))
        return life

    def numbers(self, receiver: str) -> Collection[int]:
        """The numbers of the messages of all calls to a receiver that are known here, ascending."""
        return self._numbers.get(receiver, {}).values()

    def forget(self, received: Mapping[str, int], owed: Mapping[str, Collection[int]], ended: Collection[str]) -> None:
        """No later life can need calls up to these numbers but those that are owed, or those of ended receivers.

        An outcome that is due stays so: nobody else would fetch it.
        """
        for receiver in self.due.keys() & ended:
            del self.due[receiver]
        for receiver, numbers in tuple(self._numbers.items()):
            last = inf if receiver in ended else received.get(receiver, 0)
            still = frozenset(() if receiver in ended else owed.get(receiver, ()))
            past = [*takewhile(lambda call, last=last: call[1] <= last, numbers.items())]  # type: ignore[misc]
            for call_id, number in past:
                if number not in still:
                    del numbers[call_id]
            if not numbers:
                del self._numbers[receiver]

    def roll_back(self, given: Collection[tuple[str, int]]) -> None:
        """A later life begins, in which the calls with these receivers and numbers are answered already."""
        self.due.clear()
        for receiver, numbers in self._numbers.items():
            due = [
                _Call(number, call_id)  # in order, so the list is a heap
                for call_id, number in numbers.items()
                if call_id not in self._open and (receiver, number) not in given
            ]
            if due:
                self.due[receiver] = due

    def ask(self, receiver: str, handed: int, present: int) -> list[tuple[int, int]]:
        """The due calls up to message `handed`, as (number, call); their outcomes are fetched from now on."""
        due, asked = self.due.get(receiver, []), list[tuple[int, int]]()
        while due and due[0].number <= handed:
            call = heappop(due)
            if call.call_id not in self._open:
                self._open[call.call_id] = present
                asked.append(call)
        if not due:
            self.due.pop(receiver, None)
        return asked
