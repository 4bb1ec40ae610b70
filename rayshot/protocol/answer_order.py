"""The answers that a driver saw, in their order: in a new life, its later messages wait until these are given again."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice

from rayshot.protocol.driver_events import AnswerArrived, TellOfChange
from rayshot.protocol.identity import Owed
from rayshot.protocol.seen_answers import SeenAnswers


@dataclass(slots=True)
class AnswerOrder:
    """A list of answers, each a receiver and the number of the answered message; and a pointer, which goes through it.

    The list has each answer that the driver saw and no durable cut holds, once. A place in it is counted from the first
    answer that ever was in it. `confirmed` is the place of the pointer: how many answers this life has given, or needs
    no more. `gone` are the receivers that have ended in this life.
    """

    confirmed: int = 0
    gone: set[str] = field(default_factory=set)
    _answers: deque[tuple[str, int]] = field(default_factory=deque)
    _forgotten: int = 0
    """The number of answers that stood before these."""
    seen: SeenAnswers = field(default_factory=SeenAnswers)
    """The same answers, and what each said."""
    _run: int = 0
    """The place of the first of the answers at the end of the list that are all prompt ones of one receiver."""
    _given: set[tuple[str, int]] = field(default_factory=set)
    """The answers of this life, while the pointer is not at the end of the list."""
    _held: dict[str, tuple[int, Collection[int]]] = field(default_factory=dict)
    """Receiver -> up to which number a cut of this life, or the one at its beginning, has calls as handled, and which
    of them it has without an answer."""
    _over: set[str] = field(default_factory=set)
    """The receivers in the list that have ended in a durable cut, so in all later lives too."""

    @property
    def end(self) -> int:
        """The place behind the last answer."""
        return self._forgotten + len(self._answers)

    @property
    def awaited(self) -> tuple[str, int] | None:
        """The answer at the pointer; None if the pointer is at the end."""
        return None if self.confirmed == self.end else self._answers[self.confirmed - self._forgotten]

    def place(self, receiver: str) -> int:
        """The place that the pointer must reach before a new message to this receiver may leave."""
        return self._run if self._answers and self._answers[-1][0] == receiver else self.end

    @property
    def receivers(self) -> set[str]:
        """The receivers whose answers are in the list."""
        return {receiver for receiver, _ in self._answers}

    @property
    def given(self) -> list[tuple[str, int]]:
        """The answers before the pointer."""
        return [*islice(self._answers, self.confirmed - self._forgotten)]

    def add(self, arrived: AnswerArrived, *, of_this_life: bool) -> tuple[TellOfChange, ...]:
        """The driver saw an answer. Call `advance` after it. Returns whether it is another one than before."""
        key = receiver, _ = arrived.receiver, arrived.number
        changed: tuple[TellOfChange, ...] = ()
        if key not in self.seen:
            if not self._answers or self._answers[-1][0] != receiver:
                self._run = self.end
            self._answers.append(key)
            self.seen.saw(key, b"" if arrived.again else arrived.answer)
            if arrived.late:
                self._run = self.end
        elif of_this_life:
            changed = self.seen.given_again(key, arrived.answer)
        if of_this_life:
            self._given.add(key)
        return changed

    def advance(self) -> None:
        """Move the pointer as far as this life has given the answers again."""
        while (awaited := self.awaited) is not None and self._is_given(*awaited):
            self.confirmed += 1
        if awaited is None:
            self._given.clear()

    def _is_given(self, receiver: str, number: int) -> bool:
        if (receiver, number) in self._given or receiver in self.gone:
            return True
        last, owed = self._held.get(receiver, (0, ()))
        return number <= last and number not in owed

    def hold(self, receivers: Collection[str], received: Mapping[str, int], owed: Owed) -> None:
        """A cut of this life, or the one at its beginning, holds these calls of the `receivers` as answered."""
        for receiver in receivers & received.keys():
            self._held[receiver] = received[receiver], frozenset(owed.get(receiver, ()))

    def retire(self, receiver: str) -> None:
        """The receiver has ended in a durable cut. Call `release` or `roll_back` after it."""
        self._held.pop(receiver, None)
        self._over.add(receiver)
        self.gone.add(receiver)

    def release(self, received: Mapping[str, int], owed: Owed, living: Collection[str]) -> None:
        """No life goes back behind a cut that holds these calls as answered. Call `advance` after it.

        `living` are the receivers to which the driver may send.
        """
        of_receivers = {receiver: frozenset(numbers) for receiver, numbers in owed.items()}
        while self._answers:
            receiver, number = self._answers[0]
            is_held = number <= received.get(receiver, 0) and number not in of_receivers.get(receiver, ())
            if not is_held and receiver not in self._over:
                break
            self.seen.forget(self._answers.popleft())
            self._forgotten += 1
        if self._over:
            self._over &= self.receivers
        self.gone.intersection_update((*living, *self._over))
        self.confirmed = max(self.confirmed, self._forgotten)

    def roll_back(self) -> None:
        """A new life begins: the pointer starts anew. Call `hold` and `advance` after it."""
        self._over &= self.receivers
        self.gone = set(self._over)
        self._given.clear()
        self._held.clear()
        self.confirmed = self._forgotten

    def validate(self) -> None:
        """Assert what holds between any two events; for tests."""
        assert self._forgotten <= self.confirmed <= self.end, f"the pointer is at {self.confirmed}"
        assert self._run <= self.end, f"the run begins at {self._run}"
        assert all(key in self.seen for key in self._answers), f"{self._answers} has more than was seen"
        assert len(self.seen) == len(self._answers), f"{self._answers} has an answer twice, or lacks one"
        assert self._over <= self.receivers, f"{self._over - self.receivers} have ended, and nothing waits for them"
        assert not self._given or self.awaited is not None, f"{self._given} are noted, and nothing waits for them"
