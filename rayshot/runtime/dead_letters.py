"""Messages that nobody could process."""

import threading
from collections import deque

from rayshot.model.dead_letter import DeadLetter

__all__ = ["DEAD_LETTERS_MAX", "DeadLetter", "DeadLetters"]

DEAD_LETTERS_MAX = 1000


class DeadLetters:
    """The last DEAD_LETTERS_MAX dead letters of one actor, and how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._letters: deque[DeadLetter] = deque(maxlen=DEAD_LETTERS_MAX)
        self._lock = threading.Lock()

    def add(self, letter: DeadLetter) -> None:
        """Keep one more; the oldest goes when there are too many."""
        with self._lock:
            self.count += 1
            self._letters.append(letter)

    def all(self) -> tuple[DeadLetter, ...]:
        """Those that are kept, the oldest first."""
        with self._lock:
            return tuple(self._letters)
