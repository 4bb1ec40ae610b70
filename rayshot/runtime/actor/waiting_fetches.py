"""Fetches of outcomes that wait at an actor: each takes one of so many threads, and further ones wait in Ray's queue.

All threads may wait for outcomes that do not come, while fetches in the queue could end at once. Then a round begins:
each fetch gives its place up once, and Ray puts it at the end of the queue. There is at most one round for each piece
of news: Ray writes a line to its log for each fetch that it tries again, for some with a traceback on the console.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

STUCK_S = 0.5
"""A round begins when all threads have waited so many seconds and no fetch ended."""

Result = TypeVar("Result")
FetchKey = tuple[str, int]
"""The driver and the number of its call."""


class FetchRetry(Exception):
    """A fetch gives its place up. Ray tries it again behind all others, and writes a line about it to its log."""


class WaitingFetch(Generic[Result]):
    """A fetch that waits, for the outcome of the call that is message `number`. `is_last`: it took the last thread."""

    __slots__ = ("_ended", "_result", "is_last", "number")

    def __init__(self, number: int, *, is_last: bool) -> None:
        self.number = number
        self.is_last = is_last
        self._ended = threading.Event()
        self._result: Result | Exception | None = None

    def end(self, result: Result | Exception) -> None:
        """Let the thread go on with this result, or raise this error there."""
        self._result = result
        self._ended.set()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end; returns whether it came in time."""
        return self._ended.wait(timeout_s)

    @property
    def result(self) -> Result:
        """What the fetch ended with. Raises the error if it ended with one."""
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None, "it has ended"
        return self._result


class WaitingFetches(Generic[Result]):
    """The fetches that wait on `threads` threads. Call everything except `await_end` under the process's lock.

    `may_end` says whether some fetch in the queue may end at once. `ends` counts those that ended with a result. In a
    round, `_turned` are those that gave their places up. `_has_news`: since the last round began, more of them may end.
    """

    def __init__(self, threads: int, may_end: Callable[[], bool]) -> None:
        self._threads = threads
        self._may_end = may_end
        self._has_news = False
        self._waiting: dict[FetchKey, WaitingFetch[Result]] = {}
        self._turned: set[FetchKey] | None = None
        self.ends = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: FetchKey) -> bool:
        return key in self._waiting

    def news(self) -> None:
        """Some fetch in the queue may end at once that could not before."""
        self._has_news = True

    def enter(self, key: FetchKey, number: int) -> WaitingFetch[Result]:
        """A fetch waits from now on. Raises FetchRetry if it is its turn in a round, and the round still helps."""
        if (earlier := self._waiting.pop(key, None)) is not None:  # its connection broke, and Ray tried again
            earlier.end(FetchRetry())
        if self._turned is not None:
            if key not in self._turned and self._may_end():
                self._turned.add(key)
                raise FetchRetry
            self._turned = None  # all have had their turn
        fetch = self._waiting[key] = WaitingFetch(number, is_last=len(self._waiting) + 1 >= self._threads)
        return fetch

    def end(self, key: FetchKey, result: Result | Exception) -> bool:
        """The fetch of this call ends; returns whether one waits."""
        fetch = self._waiting.pop(key, None)
        if fetch is None:
            return False
        self.ends += 1
        fetch.end(result)
        return True

    def end_those(self, which: Callable[[FetchKey, int], bool], result: Callable[[], Result | Exception]) -> None:
        """End the fetches of which `which` says so, by key and number of the message."""
        for key, fetch in tuple(self._waiting.items()):
            if which(key, fetch.number):
                self.end(key, result())

    def await_end(
        self, fetch: WaitingFetch[Result], lock: threading.Lock, look: Callable[[], None] | None = None
    ) -> Result:
        """Wait until the fetch has ended; returns its result. Takes the lock. Calls `look` now and then, without it."""
        ends = self.ends
        while not fetch.wait(STUCK_S if fetch.is_last or look is not None else None):
            if look is not None:
                look()
            with lock:
                is_stuck = self.ends == ends and len(self._waiting) >= self._threads
                if is_stuck and self._has_news and self._may_end():
                    self._begin_round()
                ends = self.ends
        return fetch.result

    def _begin_round(self) -> None:
        self._has_news = False
        self._turned = set(self._waiting)
        for fetch in self._waiting.values():
            fetch.end(FetchRetry())
        self._waiting.clear()
