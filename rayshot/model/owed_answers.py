"""Calls that an actor has handled and answers later: their numbers, by caller and call id, are part of its state."""

import inspect
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from types import CodeType
from typing import Protocol

from rayshot.errors import ActorExited
from rayshot.protocol.identity import is_driver

ANSWERS_LATE = "__rayshot_answers_late__"
"""A class has this attribute, and it is true, if its handlers may leave answers to later ones."""

CallKey = tuple[str, int]
"""The caller of a call, and its id; id 0 stands for a message that is no call."""


class AnswerPort(Protocol):
    """What brings answers to callers; see CellPort."""

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """Send the outcome of a call back to its sender."""

    def is_gone(self, caller: str) -> bool:
        """Whether this actor or driver takes no answers any more."""


class OwedAnswers:
    """The answers that the actor `name` owes. `numbers` has the number of the message of each such call."""

    def __init__(self, name: str, port: AnswerPort) -> None:
        self.numbers: dict[CallKey, int] = {}
        self._name = name
        self._port = port

    def load(self, numbers: Mapping[CallKey, int]) -> None:
        """The actor owes these, as a snapshot has it."""
        self.numbers.update(numbers)

    def add(self, key: CallKey, number: int) -> None:
        """The call, which is message `number`, is answered later."""
        self.numbers[key] = number

    def is_awaited(self, key: CallKey) -> bool:
        """Whether a call is not answered yet, and its caller takes answers."""
        if key in self.numbers and self._port.is_gone(key[0]):
            del self.numbers[key]
        return key in self.numbers

    def give(self, key: CallKey, value: object, *, ok: bool) -> None:
        """Answer a call; does nothing if it was answered."""
        if self.is_awaited(key):
            self._port.answer(*key, value, ok=ok)
            del self.numbers[key]  # now: until here its answer is still to come

    def forget(self, callers: Collection[str]) -> None:
        """These take no answers any more."""
        for key in tuple(self.numbers):
            if key[0] in callers:
                del self.numbers[key]

    @property
    def to_drivers(self) -> dict[str, tuple[int, ...]]:
        """The numbers of the messages that are calls of drivers, ascending, by driver."""
        found: dict[str, list[int]] = defaultdict(list)
        for (caller, _), number in self.numbers.items():
            if is_driver(caller):
                found[caller].append(number)
        return {caller: tuple(sorted(numbers)) for caller, numbers in found.items()}

    def end(self) -> None:
        """The actor ends: who waits for its answers learns that none comes."""
        for key in tuple(self.numbers):
            detail = f"actor {self._name!r} ended and has not answered"
            self.give(key, ActorExited(detail, actor=self._name), ok=False)


@cache
def may_answer_late(user_class: type) -> bool:
    """Whether handlers of a class may leave answers to later ones, or answer with what comes of a call of theirs.

    The second shows in their code: it has the word `remote`. What the system may assume of a class must be the same in
    all lives, whatever its handlers did in one of them.
    """
    functions = (found for of in user_class.__mro__ for found in vars(of).values() if inspect.isfunction(found))
    return bool(getattr(user_class, ANSWERS_LATE, False)) or any(_says_remote(one.__code__) for one in functions)


def _says_remote(code: CodeType) -> bool:
    return "remote" in code.co_names or any(_says_remote(one) for one in code.co_consts if isinstance(one, CodeType))
