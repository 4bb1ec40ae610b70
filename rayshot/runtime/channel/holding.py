"""Why messages may not leave an outbox yet: the handler of an open call still runs, or an object is not ready."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from rayshot.format.codec import method_of_encoded
from rayshot.runtime.channel.attached_references import unready
from rayshot.runtime.door import door

UNSAID_S = 5.0
"""A message that has waited for an object for so many seconds is reported."""
Waiting = tuple[str, int, str, float]
"""A message that waits for an object: its receiver, number, method, and the seconds that it has waited."""


class HeldOutbox(Protocol):
    """The outbox whose messages are held."""

    receiver: str
    transported: int
    held_at: int | None
    delivers_unready: bool

    def message_at(self, number: int) -> bytes:
        """A message that has not left."""

    def released(self) -> None:
        """Held messages may leave now."""


class Holding:
    """The reasons that hold messages of one channel, by number, and all messages behind them.

    Call everything except `is_ready` under the lock.
    """

    def __init__(self, channel: HeldOutbox, lock: threading.Lock) -> None:
        self._channel = channel
        self._lock = lock
        self._open_from: int | None = None
        self._unready: Counter[int] = Counter()
        self._since: dict[int, float] = {}

    def until_settled(self, number: int) -> None:
        """Hold a call until its handler has ended."""
        if self._open_from is None:
            self._open_from = number
            self.update()

    def settle(self) -> int | None:
        """The handler has ended. Returns the number of the first call that was held for it; None if none was."""
        first, self._open_from = self._open_from, None
        if first is not None:
            self.update()
        return first

    def until_ready(self, number: int, wanted: Sequence[Any]) -> list[Any]:
        """Hold a message until these objects are ready or have failed. Returns the objects that are not ready now."""
        waiting = unready(wanted)
        for reference in waiting:
            self._unready[number] += 1
            self._since[number] = time.monotonic()
            door.when_there(reference, lambda _error: _ready.put((self, number)))
            _listen()
        if number in self._unready:
            self.update()
        return waiting

    @property
    def unready(self) -> set[int]:
        """The numbers of the messages that wait for objects."""
        return set(self._unready)

    def forget_unready(self) -> None:
        """Stop waiting for objects."""
        self._unready.clear()
        self._since.clear()
        self.update()

    def first_unready(self) -> tuple[int, float] | None:
        """The first message that waits for objects, and since when it waits, by time.monotonic; None if none waits."""
        number = min(self._unready, default=None)
        return None if number is None else (number, self._since[number])

    def waiting(self) -> Waiting | None:
        """The first message that waits for objects, if it has waited for at least UNSAID_S seconds."""
        head = self.first_unready()
        if head is None or (seconds := time.monotonic() - head[1]) < UNSAID_S:
            return None
        return self._channel.receiver, head[0], method_of_encoded(self._channel.message_at(head[0])), seconds

    def update(self) -> None:
        """Set the index from which the outbox is held now."""
        open_from = () if self._open_from is None else (self._open_from,)
        unready = () if self._channel.delivers_unready else self._unready
        first = min((*open_from, *unready), default=None)
        self._channel.held_at = None if first is None else first - self._channel.transported - 1

    def is_ready(self, number: int) -> None:
        """An object is ready. Takes the lock."""
        with self._lock:
            if number not in self._unready:
                return
            self._unready[number] -= 1
            if not self._unready[number]:
                del self._unready[number], self._since[number]
                self.update()
                self._channel.released()


_ready: queue.SimpleQueue[tuple[Holding, int]] = queue.SimpleQueue()
"""Ray can call back at any time, even on a thread that holds the lock now."""
_listener: list[threading.Thread] = []


def _listen() -> None:
    if not _listener:
        _listener.append(threading.Thread(target=_release, name="rayshot-ready", daemon=True))
        _listener[0].start()


def _release() -> None:
    while True:
        holding, number = _ready.get()
        holding.is_ready(number)
