"""Fetches of outcomes that wait until a durable snapshot holds their calls as handled.

When an actor records a snapshot, its counters say which calls the record holds as handled. So a call is durable when
the coordinator says that such a snapshot is committed and advances: the system never goes back behind it by itself.

Each waiting fetch takes one of DURABLE_AT_ONCE threads, which no other call uses, and further ones wait in a queue. A
call of one driver may be durable, with its fetch in the queue, while the calls of another driver have all threads and
wait on. Then a round begins: each fetch gives its place up once, and Ray puts it at the end of the queue. There is at
most one round for each durable snapshot, and none that helps nobody: Ray prints a traceback on the program's console
for each fetch that it tries again.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple

from rayshot.errors import RayshotError
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.fetch_retry import FetchRetry

DURABLE_AT_ONCE = 4
"""Fetches of durable outcomes that may wait at one actor at a time."""
RECORDED_MAX = 16
"""An actor remembers for so many of its last records what they hold. Forgotten ones only let a fetch wait longer."""


class HandledNumbers(NamedTuple):
    """What a record holds as handled: by sender the numbers of the last message, and of the last call."""

    messages: Mapping[str, int]
    calls: Mapping[str, int]


class DurableFetch:
    """A fetch that waits. It ends when its call is durable, never can be in this life, or with an `error`."""

    __slots__ = ("_ended", "error", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._ended = threading.Event()
        self.error: RayshotError | FetchRetry | None = None

    def end(self, error: RayshotError | FetchRetry | None = None) -> None:
        """Let the thread go on; FetchRetry: it must make room."""
        self.error = error
        self._ended.set()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end; returns whether it came in time. Raises the error with which it ended."""
        ended = self._ended.wait(timeout_s)
        if self.error is not None:
            raise self.error
        return ended


class DurableFetches:
    """Which messages of drivers are durable at one actor. Call everything under the process's lock.

    `ask` asks the coordinator to say at once, from now on, which snapshots are committed and advance. It is called when
    the first fetch waits. `_recorded` has what records hold, by snapshot, in the order of recording. `ends` counts the
    fetches that have ended. `_has_news`: there is a durable snapshot that has had no round yet.
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._is_wanted = False
        self._recorded: dict[SnapshotId, HandledNumbers] = {}
        self._held = HandledNumbers({}, {})
        self._waiting: dict[tuple[str, int], DurableFetch] = {}
        self._turned: set[tuple[str, int]] | None = None
        self.ends = 0
        self._has_news = False

    @property
    def is_full(self) -> bool:
        """Whether all threads are taken."""
        return len(self._waiting) >= DURABLE_AT_ONCE

    def go_on_from(self, snapshot: SnapshotId, received: Mapping[str, int], before: "DurableFetches | None") -> None:
        """This life begins at a durable snapshot that holds these messages. `before` is of the life before, if any.

        Fetches that waited in that life come again.
        """
        held = HandledNumbers({}, {})
        if before is not None:
            held = before._recorded.get(snapshot, before._held)  # noqa: SLF001 - it may not know that this is committed
        self._held = HandledNumbers(received, held.calls)
        self._has_news = True

    def holds(self, sender: str, number: int) -> bool:
        """Whether a durable snapshot holds this message as handled."""
        return number <= self._held.messages.get(sender, 0)

    def enter(self, sender: str, call_id: int, number: int) -> DurableFetch:
        """A fetch waits from now on for its call, which is message `number`. Raises FetchRetry if others need it."""
        key = sender, call_id
        if not self._is_wanted:
            self._is_wanted = True
            self._ask()
        if (earlier := self._waiting.pop(key, None)) is not None:  # its connection broke, and Ray tried again
            earlier.end(FetchRetry())
        if self._turned is not None:
            if key not in self._turned:
                self._turned.add(key)
                raise FetchRetry
            self._turned = None  # all have had their turn
        fetch = self._waiting[key] = DurableFetch(number)
        return fetch

    def recorded(self, snapshot: SnapshotId, handled: HandledNumbers) -> None:
        """The actor records a snapshot."""
        self._recorded[snapshot] = handled
        if len(self._recorded) > RECORDED_MAX:
            del self._recorded[next(iter(self._recorded))]

    def committed(self, snapshot: SnapshotId) -> None:
        """The snapshot is durable and advances. Older records hold no more than this one."""
        handled = self._recorded.get(snapshot)
        if handled is None:
            return
        for older in (*takewhile(lambda one: one != snapshot, tuple(self._recorded)), snapshot):
            del self._recorded[older]
        self._held = handled
        self._end(lambda sender, fetch: self.holds(sender, fetch.number))
        self._has_news = True

    def aborted(self, snapshot: SnapshotId) -> None:
        """The snapshot will never be durable."""
        self._recorded.pop(snapshot, None)

    def ask_again(self) -> None:
        """Another process coordinates, and does not know that fetches wait here."""
        if self._is_wanted:
            self._ask()

    def forget(self, driver: str) -> None:
        """Nobody waits for the outcomes of this driver's calls."""
        self._end(lambda sender, _: sender == driver)

    def fail(self, error: RayshotError) -> None:
        """No snapshot can be taken, maybe because of who waits here: the fetches that wait now end with this error."""
        for fetch in self._waiting.values():
            self.ends += 1
            fetch.end(error.anew())
        self._waiting.clear()

    def shut(self) -> None:
        """This life is over: what is not durable now never will be in it."""
        self._end(lambda *_: True)

    def _end(self, which: Callable[[str, DurableFetch], bool]) -> None:
        for key, fetch in tuple(self._waiting.items()):
            if which(key[0], fetch):
                del self._waiting[key]
                self.ends += 1
                fetch.end()

    def make_room(self, unfetched: Iterable[tuple[str, int]]) -> None:
        """All threads have waited for a while: begin a round, if fetches in the queue may have come to their ends.

        `unfetched` are the calls of drivers whose outcomes nobody has fetched.
        """
        calls = self._held.calls
        if self.is_full and self._has_news and any(call_id <= calls.get(sender, 0) for sender, call_id in unfetched):
            self._has_news = False
            self._turned = set(self._waiting)
            for fetch in self._waiting.values():
                fetch.end(FetchRetry())
            self._waiting.clear()
