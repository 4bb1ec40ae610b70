"""Messages that no actor could process."""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence

from rayshot.format.codec import Frame, is_end, method_of_encoded, split_frame
from rayshot.model.dead_letter import DeadLetter

__all__ = ["DEAD_LETTERS_MAX", "DeadLetter", "DeadLetters"]

log = logging.getLogger("rayshot")
DEAD_LETTERS_MAX = 1000


class DeadLetters:
    """The last DEAD_LETTERS_MAX dead letters of one process, and the number of all."""

    def __init__(self) -> None:
        self.count = 0
        self._letters: deque[DeadLetter] = deque(maxlen=DEAD_LETTERS_MAX)
        self._lock = threading.Lock()

    def add(self, letter: DeadLetter) -> None:
        """Keep one more letter; drop the oldest if there are too many."""
        with self._lock:
            self.count += 1
            self._letters.append(letter)

    def add_undeliverable(self, receiver: str, sender: str, messages: Sequence[bytes], detail: str) -> None:
        """Add the messages of `sender` that have no receiver."""
        if methods := [method_of_encoded(message) for message in messages if not is_end(message)]:
            log.warning("%s: %d messages to %s have no receiver: %s", sender, len(methods), receiver, detail)
        for method in methods:
            self.add(DeadLetter(receiver, sender, 0, method, detail))

    def add_unhandled(self, receiver: str, mail: Iterable[tuple[str, Frame]], detail: str) -> None:
        """Add messages, with their senders, that `receiver` has taken but will not handle."""
        for sender, frame in mail:
            for number, message in enumerate(split_frame(frame), frame.first):
                if not is_end(message):
                    self.add(DeadLetter(receiver, sender, number, method_of_encoded(message), detail))

    def all(self) -> tuple[DeadLetter, ...]:
        """The letters that are kept, the oldest first."""
        with self._lock:
            return tuple(self._letters)
