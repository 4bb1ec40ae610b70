"""Runs several threads so that they take turns at every call of a store, in an order that a seed picks."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

from rayshot.places.store import Data, Entry
from tests.places.faulty_store import FaultyStore


class Turns:
    """Lets one thread at a time go on, from one store call to its next: whoever has the turn passes it on."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._turns: dict[int, threading.Semaphore] = {}
        """By job that has not ended: what its thread waits for."""
        self._jobs: dict[int, int] = {}
        """Number of the job by thread."""
        self.errors: list[BaseException] = []

    def step(self) -> None:
        """Wait for the turn of this thread; nothing for one that does not take part."""
        me = self._jobs.get(threading.get_ident())
        if me is None:
            return
        following = self._next()
        if following != me:
            self._turns[following].release()
            self._await_turn(me)

    def run(self, *jobs: Callable[[], Any]) -> None:
        """Run all jobs to their ends; raise what the first that failed raised."""
        self._turns = {number: threading.Semaphore(0) for number in range(len(jobs))}
        threads = [threading.Thread(target=self._work, args=(number, job)) for number, job in enumerate(jobs)]
        for thread in threads:
            thread.start()
        self._turns[self._next()].release()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    _burst = (0, 0)
    """Whose turn it is, and for how many calls yet: with even odds at each call nobody would ever get far ahead."""

    def _next(self) -> int:
        number, calls = self._burst
        if number not in self._turns or not calls:
            number, calls = self._choose.choice(sorted(self._turns)), self._choose.choice((1, 2, 5, 15, 60))
        self._burst = number, calls - 1
        return number

    def _await_turn(self, number: int) -> None:
        assert self._turns[number].acquire(timeout=30)

    def _work(self, number: int, job: Callable[[], Any]) -> None:
        self._jobs[threading.get_ident()] = number
        try:
            self._await_turn(number)
            job()
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self.errors.append(error)
        finally:
            del self._jobs[threading.get_ident()], self._turns[number]
            if self._turns:
                self._turns[self._next()].release()


class TurnStore(FaultyStore):
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
