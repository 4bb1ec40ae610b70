"""Calls that an actor has handled and answers later: their numbers, by caller and call id, are part of its state."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from types import CodeType
from typing import Protocol

from rayshot.format.classes_by_value import OnClass
from rayshot.model.calls import GivenUp, not_answered
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
    """The answers that the actor `name` owes.

    `numbers` has the number of the message of each such call, or 0 if nobody needs the answer any more: then the call
    may still have an effect to come, as when it puts something, and it stays here until it is answered. Other threads
    may strike callers, under the process's lock; all else happens on the handlers' thread. `answered` is called behind
    each answer.
    """

    def __init__(self, name: str, port: AnswerPort, answered: Callable[[CallKey], None]) -> None:
        self.numbers: dict[CallKey, int] = {}
        self._name = name
        self._port = port
        self._answered = answered

    def load(self, numbers: Mapping[CallKey, int]) -> None:
        """The actor owes these, as a snapshot has it."""
        self.numbers.update(numbers)

    def add(self, key: CallKey, number: int) -> None:
        """The call, which is message `number`, is answered later."""
        self.numbers[key] = number

    def is_open(self, key: CallKey) -> bool:
        """Whether a call was not answered, also not because its time was up."""
        return key in self.numbers

    def is_awaited(self, key: CallKey) -> bool:
        """Whether a call was not answered, and somebody needs the answer."""
        if self.numbers.get(key) and self._port.is_gone(key[0]):
            self.numbers[key] = 0
        return bool(self.numbers.get(key))

    def give(self, key: CallKey, value: object, *, ok: bool) -> None:
        """Answer a call; does nothing if it was answered."""
        if self.is_awaited(key):
            self._port.answer(*key, value, ok=ok)
        if self.numbers.pop(key, None) is not None:  # not before: until then the answer is to come
            self._answered(key)

    def expire(self, key: CallKey) -> None:
        """Nobody needs the answer of this call: it is GivenUp."""
        if self.is_awaited(key):
            self._port.answer(*key, GivenUp(), ok=False)
            self.numbers[key] = 0

    def forget(self, callers: Collection[str]) -> None:
        """These take no answers any more. On any thread, under the process's lock."""
        for key in tuple(self.numbers):
            if key[0] in callers:
                self.numbers[key] = 0

    @property
    def to_drivers(self) -> dict[str, tuple[int, ...]]:
        """The numbers of the messages that are calls of drivers, ascending, by driver."""
        found: dict[str, list[int]] = defaultdict(list)
        for (caller, _), number in tuple(self.numbers.items()):
            if number and is_driver(caller):
                found[caller].append(number)
        return {caller: tuple(sorted(numbers)) for caller, numbers in found.items()}

    def end(self) -> None:
        """The actor ends: who waits for its answers learns that none comes."""
        for key in tuple(self.numbers):
            self.give(key, not_answered(self._name), ok=False)


def may_answer_late(user_class: type) -> bool:
    """Whether handlers of a class may leave answers to later ones, answer with what comes of a call of theirs, or loop.

    The last two show in their code: it has the words `remote` or `loop`. What the system may assume of a class must be
    the same in all lives, whatever its handlers did in one of them.
    """
    own = ((one, of) for of in user_class.__mro__ for one in vars(of).values())
    found = (one for found, of in own for one in (found.own(of) if isinstance(found, OnClass) else (found,)))
    codes = (one.__code__ for one in found if inspect.isfunction(one))
    return bool(getattr(user_class, ANSWERS_LATE, False)) or any(map(_says_so, codes))


def _says_so(code: CodeType) -> bool:
    says = not {"remote", "loop"}.isdisjoint(code.co_names)
    return says or any(_says_so(one) for one in code.co_consts if isinstance(one, CodeType))
