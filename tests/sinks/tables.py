"""A table in memory with a sink's three steps, and cuts as a runtime hands them to the hooks."""

import itertools
import pickle
import threading
from dataclasses import dataclass, field
from typing import Any

from rayshot.model.outside import ActorCut, FencingToken
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

    def look(self) -> Held:
        self._fail(done=False)
        return Held() if self.table.claim is None else self.table.claim.held

    def take(self, token: FencingToken, *, takeover: bool = False) -> Held:
        def step(claim: Claim | None) -> tuple[Claim, list[Any]]:
            return (claim or Claim(*token)).taken(self.name, token, takeover=takeover), []

        return self._step(step)

    def publish(self, token: FencingToken, sequence: int, line: str, rows: Any) -> None:
        def step(claim: Claim) -> tuple[Claim, list[Any]]:
            if not claim.awaits(self.name, token, sequence):
                return claim, []
            return claim.moved(Held(sequence, line)), list(rows)

        self._step(step)

    def reset(self, token: FencingToken, sequence: int, line: str) -> None:
        def step(claim: Claim) -> tuple[Claim, list[Any]]:
            claim.admit(self.name, token)
            return claim if claim.line == line else claim.moved(Held(sequence, line)), []

        self._step(step)

    def _fail(self, *, done: bool) -> None:
        if self.table.fail is not None and self.table.done == done:
            fail, self.table.fail = self.table.fail, None
            raise fail

    def _step(self, step: Any) -> Held:
        with self.table.lock:
            self._fail(done=False)
            self.table.claim, rows = step(self.table.claim)
            self.table.rows += rows
            self._fail(done=True)
            assert self.table.claim is not None
            return self.table.claim.held


class ToTable(Sink):
    """A sink whose class knows its table, as a state could not hold it."""

    table: Table

    def connect(self) -> Backend:
        return Rows(self.table)


def token(life: int, run: str = "run", owner: str = "") -> FencingToken:
    """Whoever begins a life has a name of its own: `owner` is one that began this life in a copy of the storage."""
    return FencingToken(run, life, owner or f"owner-{life}")


class Life:
    """One life of a sink's actor: its hooks are called as the runtime does."""

    def __init__(self, sink: Sink, who: FencingToken | int = 1, *, again: str = "") -> None:
        self.sink, self.again = sink, again
        self.token = token(who) if isinstance(who, int) else who

    def cut(self, payload: Any = None, *, again: str = "", takeover: bool = False) -> ActorCut:
        return ActorCut(
            "shop", "sink", self.token, "1-coordinator-1", payload, again=again or self.again, takeover=takeover
        )

    def record(self) -> tuple[bytes, Any]:
        """A snapshot's record: the state, and what the hook returned."""
        given = self.sink.on_snapshot(self.cut())
        state = pickle.dumps(self.sink, protocol=5)
        return state, given() if callable(given) else given

    def commit(self, record: tuple[bytes, Any]) -> Any:
        """It is durable and advances; returns what is to be done beside the handlers."""
        return self.sink.on_commit(self.cut(record[1]))

    def snapshot(self) -> tuple[bytes, Any]:
        """A snapshot that becomes durable, and all that follows."""
        record = self.record()
        settle(self.commit(record))
        return record

    @classmethod
    def restored(
        cls, record: tuple[bytes, Any], who: FencingToken | int, *, again: str = "", takeover: bool = False
    ) -> "Life":
        """The next life from a snapshot, before all actors are loaded."""
        back = cls(pickle.loads(record[0]), who)
        back.sink.on_restore(back.cut(record[1], again=again, takeover=takeover))
        return back

    @classmethod
    def loaded(
        cls, record: tuple[bytes, Any], who: FencingToken | int, *, again: str = "", takeover: bool = False
    ) -> "Life":
        """The next life from a snapshot: all actors are loaded, and it was told as committed."""
        back = cls.restored(record, who, again=again, takeover=takeover)
        settle(back.commit(record))
        return back


def settle(work: Any) -> None:
    if work is not None:
        work()


def numbers(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"n": number} for number in itertools.islice(itertools.count(start), count)]
