"""Messages that no actor could process."""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from typing import Any

from rayshot.format.codec import Frame, may_be_lost, method_of_encoded, split_frame
from rayshot.model.dead_letter import DeadLetter

log = logging.getLogger("rayshot")
DEAD_LETTERS_MAX = 1000
RECORDED_MAX = 100
RECORDED_BYTES_MAX = 1 << 20
"""A snapshot has so many dead letters of an actor at most, in texts of so many bytes."""
_RECORDED_ERROR_LENGTH_MAX = 10_000


class DeadLetters:
    """The last DEAD_LETTERS_MAX dead letters of one process.

    `life` is the life in which new ones come, and `count` the number of these. Those of earlier lives come from the
    snapshot that the actor was loaded from.
    """

    def __init__(self, life: int = 0) -> None:
        self.life = life
        self.count = 0
        self._letters: deque[DeadLetter] = deque(maxlen=DEAD_LETTERS_MAX)
        self._lock = threading.Lock()

    def add(self, letter: DeadLetter) -> None:
        """Keep one more letter; drop the oldest if there are too many."""
        with self._lock:
            self.count += 1
            self._letters.append(replace(letter, life=letter.life or self.life))

    def add_undeliverable(self, receiver: str, sender: str, messages: Sequence[bytes], detail: str) -> None:
        """Add the messages of `sender` that have no receiver, and that somebody may miss."""
        if methods := [method_of_encoded(message) for message in messages if not may_be_lost(message)]:
            log.warning("%s: %d messages to %s have no receiver: %s", sender, len(methods), receiver, detail)
        for method in methods:
            self.add(DeadLetter(receiver, sender, 0, method, detail))

    def add_unhandled(self, receiver: str, mail: Iterable[tuple[str, Frame]], detail: str) -> None:
        """Add messages, with their senders, that `receiver` has taken but will not handle, as it ends."""
        for sender, frame in mail:
            for number, message in enumerate(split_frame(frame), frame.first):
                if not may_be_lost(message):
                    self.add(DeadLetter(receiver, sender, number, method_of_encoded(message), detail))

    def recorded(self) -> tuple[tuple[Any, ...], ...]:
        """The last letters in the form in which a snapshot holds them."""
        return tuple(map(astuple, last_of(self.all())))

    def take_over(self, recorded: Iterable[Sequence[Any]]) -> None:
        """Begin with the letters of a snapshot, which `count` leaves out."""
        with self._lock:
            self._letters.extendleft(DeadLetter(*letter) for letter in reversed([*recorded]))

    def __len__(self) -> int:
        return len(self._letters)

    def all(self) -> tuple[DeadLetter, ...]:
        """The letters that are kept, the oldest first."""
        with self._lock:
            return tuple(self._letters)


def last_of(letters: Sequence[DeadLetter]) -> tuple[DeadLetter, ...]:
    """Those of an actor that outlive a rollback: the last ones, without the beginnings of long errors."""
    chosen: list[DeadLetter] = []
    left = RECORDED_BYTES_MAX
    for letter in reversed(letters):
        shortened = replace(letter, error=letter.error[-_RECORDED_ERROR_LENGTH_MAX:])
        left -= sum(len(part.encode("utf-8", "surrogatepass")) for part in astuple(shortened) if type(part) is str)
        if left < 0 or len(chosen) == RECORDED_MAX:
            break
        chosen.append(shortened)
    return tuple(reversed(chosen))
