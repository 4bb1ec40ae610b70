"""What is done to a storage while its calls fail, and what must hold afterwards whatever came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from rayshot.errors import CommitUnknown, ConfigError, StoreError
from rayshot.places.memory import MemoryStore
from rayshot.places.store import Store
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.upkeep.retention import Keep
from tests.snapshots.snapshot_builder import (
    KEY,
    Bank,
    committed,
    large,
    make_manifest,
    make_snapshot,
    open_bank,
    retain,
)

OLD = Bank(states={"alice": {"history": large("same"), "n": large("one")}, "bob": {"balance": 10}})
NEW = Bank(states={"alice": {"history": large("same"), "n": large("two")}, "bob": {"balance": 20}})
KEPT = 2


def open_again(store: Store) -> Repository:
    """Open the bank as its coordinator does that goes on with the same life."""
    repository = Repository(store, "bank", create=False)
    repository.log.begin_epoch(repository.next_incarnation() - 1, "w1")
    return repository


def prepare(store: Store) -> None:
    """Fill it with three snapshots of the same bank; the last two share what did not change."""
    copy(_prepared(), store)


@cache
def _prepared() -> Store:
    store = MemoryStore()
    repository = open_bank(store)
    make_snapshot(repository, Bank(), 1)
    base = make_snapshot(repository, OLD, 2)
    make_snapshot(repository, OLD, 3, reuse=base)
    return store


def in_memory(store: Store) -> Store:
    """Copy all that a distant store holds, to look at it often."""
    near = MemoryStore()
    copy(store, near)
    return near


def copy(source: Store, target: Store) -> None:
    """Create each object of `source` in `target`."""
    for entry in source.list():
        target.create(entry.key, source.read(entry.key))


def take(repository: Repository, *, incremental: bool) -> None:
    """Take snapshot 4, which shares chunks with snapshot 3 where it is incremental."""
    base = repository.snapshot(repository.retained()[-1]) if incremental else None
    repository.commit(make_manifest(repository, NEW, 4, reuse=base), KEY)


def read(store: Store) -> dict[str, Any]:
    """Read and prove everything of the latest snapshot."""
    snapshot = Storage(store).system("bank").latest()
    snapshot.verify((KEY,)).require_sound()
    messages = [message.args for channel in snapshot.channels.values() for message in channel.messages]
    return {"id": str(snapshot.id), "states": snapshot.states(), "messages": messages}


@dataclass(frozen=True)
class Scenario:
    """`act` is done to a prepared store; `commits` and `deletes` say what it may do to the list of snapshots."""

    name: str
    act: Callable[[Store], Any]
    commits: bool = False
    deletes: bool = False

    def __str__(self) -> str:
        return self.name


SCENARIOS = [
    Scenario("a snapshot", lambda store: take(open_again(store), incremental=False), commits=True),
    Scenario("an incremental snapshot", lambda store: take(open_again(store), incremental=True), commits=True),
    Scenario("reading a snapshot", read),
    Scenario("retention", lambda store: retain(open_again(store), Keep(last=KEPT)), deletes=True),
]


def outcome_of(scenario: Scenario, store: Store) -> str:
    """Act; return "done" or the name of the typed error that came instead."""
    try:
        scenario.act(store)
    except (StoreError, ConfigError) as error:  # any other one would blame the bytes for what the storage did
        return type(error).__name__
    return "done"


def prove(scenario: Scenario, store: Store, outcome: str) -> None:
    """Assert what must hold: all that is visible is whole, nothing is lost, and the next start goes on."""
    counters = prove_what_is_visible(scenario, store)
    if scenario.commits and outcome not in {"done", CommitUnknown.__name__, "killed"}:
        assert 4 not in counters, f"{outcome} was raised for a snapshot that is committed"
    if scenario.commits and outcome == "done":
        assert 4 in counters
    if scenario.deletes and outcome == "done":
        assert counters == [2, 3]
    successor = open_bank(store, "w2")
    make_snapshot(successor, Bank(states={"alice": {"n": 5}}), 5)
    retain(successor, Keep(last=KEPT))
    assert [snapshot.id.counter for snapshot in committed(store)] == [*counters, 5][-KEPT:]
    assert all(snapshot.verify(()).sound for snapshot in committed(store))


def prove_what_is_visible(scenario: Scenario, store: Store) -> list[int]:
    """Verify every snapshot that can be seen; return their counters."""
    snapshots = committed(store)
    counters = [snapshot.id.counter for snapshot in snapshots]
    expected = [[1, 2, 3]]
    if scenario.commits:
        expected.append([1, 2, 3, 4])
    if scenario.deletes:
        expected.append([2, 3])
    assert counters in expected
    for snapshot in snapshots:
        snapshot.verify((KEY,)).require_sound()
    assert Storage(store).system("bank").latest().states() == snapshots[-1].states()
    return counters
