"""Runs several threads so that they take turns at every call of a store, in an order that a seed picks."""

import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rayshot.store.memory import MemoryStore
from rayshot.store.store import Data, Entry


class Turns:
    """Lets one thread at a time go on, from one store call to its next."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._changed = threading.Condition()
        self._waiting: dict[int, threading.Event] = {}
        self._live: dict[int, int] = {}
        """Number of the job by thread."""
        self.errors: list[BaseException] = []

    def step(self) -> None:
        """Wait for the turn of this thread; nothing for one that does not take part."""
        me = self._live.get(threading.get_ident())
        if me is None:
            return
        with self._changed:
            turn = self._waiting[me] = threading.Event()
            self._changed.notify_all()
        assert turn.wait(30)

    def run(self, *jobs: Callable[[], Any]) -> None:
        """Run all jobs to their ends; raise what the first that failed raised."""
        threads = [threading.Thread(target=self._work, args=(number, job)) for number, job in enumerate(jobs)]
        for thread in threads:
            thread.start()
        left = len(threads)
        with self._changed:
            while left:
                assert self._changed.wait_for(partial(self._is_still, left), 30)
                left -= self._ended
                self._ended = 0
                if left and len(self._waiting) == left:
                    self._waiting.pop(self._next()).set()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _is_still(self, left: int) -> bool:
        return len(self._waiting) == left or self._ended > 0

    _ended = 0
    _burst = (0, 0)
    """Whose turn it is, and for how many calls yet: with even odds at each call nobody would ever get far ahead."""

    def _next(self) -> int:
        number, calls = self._burst
        if number not in self._waiting or not calls:
            number, calls = self._choose.choice(sorted(self._waiting)), self._choose.choice((1, 2, 5, 15, 60))
        self._burst = number, calls - 1
        return number

    def _work(self, number: int, job: Callable[[], Any]) -> None:
        self._live[threading.get_ident()] = number
        try:
            self.step()
            job()
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self.errors.append(error)
        finally:
            with self._changed:
                del self._live[threading.get_ident()]
                self._ended += 1
                self._changed.notify_all()


class TurnStore(MemoryStore):
    """A memory store whose clock goes on by a second at every call, and which is called in turns."""

    def __init__(self, turns: Turns) -> None:
        super().__init__("turns", clock=lambda: float(self.calls))
        self._turns = turns

    def create(self, key: str, data: Data) -> None:
        self._turns.step()
        super().create(key, data)

    def read(self, key: str) -> bytes:
        self._turns.step()
        return super().read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._turns.step()
        return super().read_range(key, start, length)

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        self._turns.step()
        return super().list(prefix, after=after, shallow=shallow)

    def delete(self, key: str) -> None:
        self._turns.step()
        super().delete(key)
