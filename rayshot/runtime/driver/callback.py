"""A function of the program that is told something, again and again, on a thread of its own."""

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

log = logging.getLogger("rayshot")
News = TypeVar("News")


class Callback(Generic[News]):
    """Calls `function` with each piece of news, in their order. An error that it raises is logged.

    What `hear` gets waits without a bound, so it must be little. A subclass makes news of it. `name` is that of the
    thread.
    """

    def __init__(self, function: Callable[[News], object], name: str) -> None:
        self._function, self._name = function, name
        self._heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._over = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def cancel(self) -> None:
        """Call the function no more. A call that runs goes on to its end. You may call this twice."""
        self._over = True
        self._heard.put(None)

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled."""
        return self._over

    def hear(self, of: Any) -> None:
        """There is news of this."""
        self._heard.put(of)

    def end(self) -> None:
        """The system is over: nothing follows."""
        self._heard.put(None)

    def _news_of(self, of: Any) -> Iterable[News]:
        """The news that it was told of. On its thread, so it may wait."""
        return (of,)

    def _run(self) -> None:
        while not self._over and (of := self._heard.get()) is not None:
            for news in self._news_of(of):
                if not self._over:
                    self._tell(news)

    def _tell(self, news: News) -> None:
        try:
            self._function(news)
        except BaseException:  # a SystemExit, too, must not end the news
            log.exception("a function of this program (%s) failed, which was told %s", self._name, news)


class Callbacks:
    """Those of one driver for one kind of news. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Callback[Any]] = []

    def add(self, callback: Callback[Any]) -> None:
        """Tell this one too."""
        with self._lock:
            self._all = [*(other for other in self._all if not other.is_over), callback]

    def hear(self, of: Any) -> None:
        """There is news of this for all."""
        with self._lock:
            for callback in self._all:
                callback.hear(of)

    def close(self) -> None:
        """The system is over."""
        with self._lock:
            for callback in self._all:
                callback.end()
            self._all.clear()
