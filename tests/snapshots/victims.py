"""Processes that die in the midst of their work, by SIGKILL at a chosen store call, and processes that race."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from rayshot.errors import Fenced
from rayshot.log.log import CommitLog
from rayshot.log.records import EpochRecord
from rayshot.places.kinds import open_store
from rayshot.places.local import LocalStore
from rayshot.places.store import Data, Entry
from tests.log.test_log_log import commit
from tests.snapshots.scenarios import SCENARIOS

RACE_MAX_S = 120.0


class MortalStore(LocalStore):
    """A local store whose process dies at the call of that number, before its effect or right after it.

    `calls` counts them; `effects` are the numbers of those that have one.
    """

    def __init__(self, folder: Path, last_call: int = 0, *, after: bool = False) -> None:
        super().__init__(folder)
        self.last_call = last_call
        self.after = after
        self.calls = 0
        self.effects: list[int] = []

    def create(self, key: str, data: Data) -> None:
        self._begin()
        super().create(key, data)
        self._end()

    def read(self, key: str) -> bytes:
        self._begin()
        return super().read(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._begin()
        return super().read_range(key, start, length)

    def list(self, prefix: str = "", *, after: str = "", shallow: bool = False) -> Iterator[Entry]:
        self._begin()
        return super().list(prefix, after=after, shallow=shallow)

    def delete(self, key: str) -> None:
        self._begin()
        super().delete(key)
        self._end()

    def _begin(self) -> None:
        self.calls += 1
        self._die(self.after is False)

    def _end(self) -> None:
        self.effects.append(self.calls)
        self._die(self.after is True)

    def _die(self, due: bool) -> None:
        if due and self.calls == self.last_call:
            os.kill(os.getpid(), signal.SIGKILL)


def act_on_folder(number: int, folder: Path, call: int, after: bool) -> None:
    """Do scenario `number` until death."""
    SCENARIOS[number].act(MortalStore(folder, call, after=after))


def act_at(number: int, address: str, environment: Mapping[str, str], go: Connection) -> None:
    """Do scenario `number` at `address` once told to; who stands in between kills this process."""
    os.environ.update(environment)
    go.recv()
    SCENARIOS[number].act(open_store(address))


def race_for_positions(
    name: str,
    address: str,
    environment: Mapping[str, str],
    positions: int,
    starts: Sequence[Barrier],
    answer: Connection,
) -> None:
    """Contend with one other process for positions 1 to `positions` of one log for each of `starts`.

    Whoever has the latest epoch commits, the other one takes over, both at once. Sends, for each log and position,
    whether this process won it.
    """
    os.environ.update(environment)
    store = open_store(address)

    def contend(number: int) -> list[bool]:
        log, start = CommitLog(store, f"bank{number}"), starts[number]
        won = []
        for position in range(1, positions + 1):
            start.wait(RACE_MAX_S)
            epoch = log.refresh().epoch
            assert epoch is not None
            owns = epoch.writer.startswith(name)
            record = commit(position, epoch.writer, position) if owns else EpochRecord(position, 1, f"{name}{position}")
            start.wait(RACE_MAX_S)
            try:
                log.append(record)
            except Fenced:
                won.append(False)
            else:
                won.append(True)
        return won

    with ThreadPoolExecutor(len(starts)) as threads:
        answer.send(list(threads.map(contend, range(len(starts)))))
