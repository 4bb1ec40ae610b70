"""A table in memory with a sink's three steps, and cuts as a runtime hands them to the hooks."""

import itertools
import pickle
import threading
from dataclasses import dataclass, field
from typing import Any

from rayshot.sinks import Backend, Held, Sink
from rayshot.sinks.backend import Claim


@dataclass
class Table:
    """`fail` is raised by the next step, behind what it does where `done`: an answer that is lost."""

    claim: Claim | None = None
    rows: list[Any] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    fail: Exception | None = None
    done: bool = False


class Rows(Backend):
    """The backend of a `Table`."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def take(self, run: str, life: int, *, takeover: bool = False) -> Held:
        return self._step(
            lambda claim: ((claim or Claim(run, life)).taken(self.name, run, life, takeover=takeover), [])
        )

    def publish(self, run: str, life: int, sequence: int, rows: Any) -> None:
        def step(claim: Claim) -> tuple[Claim, list[Any]]:
            if not claim.awaits(self.name, run, life, sequence):
                return claim, []
            return Claim(run, life, sequence, claim.branch), list(rows)

        self._step(step)

    def reset(self, run: str, life: int, sequence: int) -> None:
        def step(claim: Claim) -> tuple[Claim, list[Any]]:
            claim.admit(self.name, run, life)
            return claim if claim.branch == life else Claim(run, life, sequence, life), []

        self._step(step)

    def _step(self, step: Any) -> Held:
        with self.table.lock:
            fail, self.table.fail = self.table.fail, None
            if fail is not None and not self.table.done:
                raise fail
            self.table.claim, rows = step(self.table.claim)
            self.table.rows += rows
            if fail is not None:
                raise fail
            assert self.table.claim is not None
            return self.table.claim.held


class ToTable(Sink):
    """A sink whose class knows its table, as a state could not hold it."""

    table: Table

    def connect(self) -> Backend:
        return Rows(self.table)


@dataclass
class FakeCut:
    """What hooks get, with as little in it as they need."""

    run: str
    life: int
    payload: Any = None
    again: bool = False
    takeover: bool = False
    system: str = "shop"
    actor: str = "sink"
    snapshot: str = "1-coordinator-1"


class Life:
    """One life of a sink's actor: its hooks are called as the runtime does."""

    def __init__(self, sink: Sink, life: int = 1, run: str = "run") -> None:
        self.sink, self.life, self.run = sink, life, run

    def record(self) -> tuple[bytes, Any]:
        """A snapshot's record: the state, and what the hook returned."""
        given = self.sink.on_snapshot(FakeCut(self.run, self.life))
        state = pickle.dumps(self.sink, protocol=5)
        return state, given() if callable(given) else given

    def commit(self, record: tuple[bytes, Any]) -> Any:
        """It is durable and advances; returns what is to be done beside the handlers."""
        return self.sink.on_commit(FakeCut(self.run, self.life, record[1]))

    def snapshot(self) -> tuple[bytes, Any]:
        """A snapshot that becomes durable, and all that follows."""
        record = self.record()
        self.settle(self.commit(record))
        return record

    @staticmethod
    def settle(work: Any) -> None:
        if work is not None:
            work()

    @classmethod
    def restored(
        cls, record: tuple[bytes, Any], life: int, run: str = "run", *, again: bool = False, takeover: bool = False
    ) -> "Life":
        """The next life from a snapshot, before all actors are loaded."""
        back = cls(pickle.loads(record[0]), life, run)
        back.sink.on_restore(FakeCut(run, life, record[1], again, takeover))
        return back

    def all_loaded(self, record: tuple[bytes, Any]) -> Any:
        """All actors are loaded: the snapshot is told as committed."""
        return self.commit(record)


def numbers(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"n": number} for number in itertools.islice(itertools.count(start), count)]
