"""What was done between two snapshots, as tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rayshot.errors import ActorNotFound, CorruptChunk, Incomparable, SnapshotNotFound
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

AB, BA = ("alice", "bob"), ("bob", "alice")
C1, C2, C3 = "1-coordinator-1", "1-coordinator-2", "1-coordinator-3"


def made(*banks: Bank) -> Storage:
    store = MemoryStore()
    repository = open_bank(store)
    for counter, bank in enumerate(banks, 1):
        make_snapshot(repository, bank, counter)
    return Storage(store)


def cells(storage: Storage, view: str, *names: str, **options: Any) -> list[tuple[Any, ...]]:
    found = storage.table(view, **options).to_arrow().to_pydict()
    return list(zip(*(found[name] for name in names), strict=True))


class CountingStore(MemoryStore):
    """Counts the bytes that are read of chunks, and of which."""

    def __init__(self) -> None:
        super().__init__()
        self.chunk_bytes = 0

    def read_range(self, key: str, start: int, length: int) -> bytes:
        data = super().read_range(key, start, length)
        self.chunk_bytes += len(data) if "/chunks/" in key else 0
        return data


# Values. -----------------------------------------------------------------------------------------------------------


def test_a_value_that_changed_is_a_row_with_both_values_in_typed_columns() -> None:
    old = {"alice": {"n": 1, "gone": None, "same": [1], "name": "a"}, "bob": {"x": 1.5}}
    new = {"alice": {"n": 2, "here": True, "same": [1], "name": "b"}, "bob": {"x": 1.5}}
    storage = made(Bank(states=old, flows={AB: Flow(1)}), Bank(states=new, flows={AB: Flow(2)}))
    names = ("snapshot", "from_snapshot", "relation", "actor", "attribute", "change", "old", "new")
    assert cells(storage, "state_diff", *names) == [
        (C2, C1, "before", "alice", "gone", "removed", "null", None),
        (C2, C1, "before", "alice", "here", "added", None, "true"),
        (C2, C1, "before", "alice", "n", "changed", "1", "2"),
        (C2, C1, "before", "alice", "name", "changed", '"a"', '"b"'),
    ]
    typed = ("old_long", "new_long", "new_bool", "old_string", "new_string", "old_double")
    assert cells(storage, "state_diff", *typed) == [
        (None, None, None, None, None, None),
        (None, None, True, None, None, None),
        (1, 2, None, None, None, None),
        (None, None, None, "a", "b", None),
    ]
    assert cells(storage, "state_diff", "actor", actor="bob") == []
    with pytest.raises(ActorNotFound, match="there is alice, bob"):
        storage.table("state_diff", actor="zed")


def test_an_actor_that_came_or_went_shows_all_that_it_had() -> None:
    storage = made(
        Bank(states={"alice": {"n": 1}}, flows={}), Bank(states={"bob": {"m": 2}}, flows={}, ended=["alice"])
    )
    rows = cells(storage, "state_diff", "actor", "attribute", "change", "old", "new")
    assert [row for row in rows if row[1] not in {"(calls)", "(timers)"}] == [
        ("alice", "(class)", "removed", '"bank.Account"', None),
        ("alice", "(status)", "removed", '"born"', None),
        ("alice", "n", "removed", "1", None),
        ("bob", "(class)", "added", None, '"bank.Account"'),
        ("bob", "(status)", "added", None, '"born"'),
        ("bob", "m", "added", None, "2"),
    ]


def test_what_is_named_like_a_secret_is_hidden_in_both_columns() -> None:
    storage = made(*(Bank(states={"alice": {"password": text}}, flows={}) for text in ("one", "two")))
    hidden = '"<redacted>"'
    assert cells(storage, "state_diff", "old", "new", "old_string") == [(hidden, hidden, None)]
    ((old, new),) = cells(storage, "state_diff", "old_string", "new_string", show_secrets=True)
    assert (old, new) == ("one", "two")


def test_only_actors_that_differ_are_read() -> None:
    store = CountingStore()
    repository = open_bank(store)
    states = {f"a{n}": {"array": np.random.default_rng(n).bytes(300_000), "n": 0} for n in range(50)}
    first = make_snapshot(repository, Bank(states=states, flows={}), 1)
    changed = states | {"a7": {**states["a7"], "n": 1}}
    make_snapshot(repository, Bank(states=changed, flows={}), 2, reuse=first)
    whole = sum(snapshot.size_bytes for snapshot in Storage(store).system().snapshots())
    store.chunk_bytes = 0
    assert cells(Storage(store), "state_diff", "actor", "attribute", "old_long", "new_long") == [("a7", "n", 0, 1)]
    assert 0 < store.chunk_bytes < 0.03 * whole


# Channels and messages. ---------------------------------------------------------------------------------------------


MOVED = (
    Bank(flows={AB: Flow(5, received=2), BA: Flow(3, received=3), ("driver:d", "bob"): Flow(2, received=1)}),
    Bank(flows={AB: Flow(9, received=4), BA: Flow(6, received=5), ("driver:e", "bob"): Flow(1)}),
)


def test_a_channel_is_a_row_that_says_how_it_moved() -> None:
    names = ("sender", "receiver", "sent", "processed", "waited", "in_flight_before", "in_flight_after")
    assert cells(made(*MOVED), "channel_diff", *names) == [
        ("alice", "bob", 4, 2, 1, 3, 5),
        ("bob", "alice", 3, 2, 0, 0, 1),
        ("driver:d", "bob", None, None, 0, 1, 0),
        ("driver:e", "bob", 1, 0, 0, 0, 1),
    ]


def test_a_message_is_a_row_that_says_what_became_of_it() -> None:
    storage = made(*MOVED)
    names = ("number", "change", "method", "args", "kind")
    assert cells(storage, "message_diff", *names, sender="alice") == [
        (3, "processed", "deposit", "[30]", "tell"),
        (4, "processed", "deposit", "[40]", "tell"),
        (5, "waited", "deposit", "[50]", "tell"),
        (6, "sent", "deposit", "[60]", "tell"),
        (7, "sent", "deposit", "[70]", "tell"),
        (8, "sent", "deposit", "[80]", "tell"),
        (9, "sent", "deposit", "[90]", "tell"),
    ]
    assert cells(storage, "message_diff", *names[:4], sender="bob") == [
        (4, "sent", None, None),
        (4, "processed", None, None),
        (5, "sent", None, None),
        (5, "processed", None, None),
        (6, "sent", "deposit", "[60]"),
    ]
    assert cells(storage, "message_diff", *names[:4], sender="driver:d") == [(2, "processed", "deposit", "[20]")]


def test_the_counts_of_both_tables_agree() -> None:
    storage = made(*MOVED)
    for column in ("sent", "processed", "waited"):
        moved = sum(n for n, sender in cells(storage, "channel_diff", column, "sender") if sender != "driver:d")
        rows = cells(storage, "message_diff", "change", "sender")
        assert moved == sum(change == column for change, sender in rows if sender != "driver:d")


def test_what_waited_for_an_actor_that_ended_is_gone() -> None:
    flows = {AB: Flow(3, received=2)}
    storage = made(Bank(flows=flows), Bank(states={"alice": {}}, flows={}, ended=["bob"]))
    assert cells(storage, "message_diff", "number", "change", "args") == [(3, "gone", "[30]")]


# Which pairs. -------------------------------------------------------------------------------------------------------


def overlapping() -> Storage:
    """Three snapshots: of the second and the third neither lies before the other."""
    done = ((1, 1), (5, 1), (4, 2))
    return made(*(Bank(states={"alice": {"n": n}, "bob": {"m": m}}, flows={AB: Flow(n, received=m)}) for n, m in done))


@pytest.mark.parametrize("view", ["state_diff", "channel_diff", "message_diff"])
def test_of_all_pairs_one_that_is_no_step_is_one_row_with_its_relation(view: str) -> None:
    storage = overlapping()
    rows = cells(storage, view, "snapshot", "from_snapshot", "relation")
    assert set(rows) == {(C2, C1, "before"), (C3, C2, "incomparable")}
    table = storage.table(view, snapshots="3..").to_arrow()
    assert [name for name in table.schema.names[6:] if table[name].null_count == 0] == ["from_snapshot", "relation"]
    assert cells(storage, view, "snapshot", "from_snapshot", "relation", snapshot=C3, from_=C1)[0] == (C3, C1, "before")


@pytest.mark.parametrize("view", ["state_diff", "channel_diff", "message_diff"])
def test_a_pair_that_is_asked_for_alone_must_be_a_step(view: str) -> None:
    storage = overlapping()
    with pytest.raises(Incomparable, match="forward go bob; back go alice"):
        storage.table(view, snapshot=C3)
    with pytest.raises(Incomparable, match="forward go bob; back go alice"):
        storage.table(view, as_of=3, from_=C2)
    with pytest.raises(Incomparable, match=f"{C3} is after {C1}, .* swap the two"):
        storage.table(view, snapshot=C1, from_=C3)
    with pytest.raises(SnapshotNotFound, match="older"):
        storage.table(view, snapshot=C1)
    make_snapshot(open_bank(storage.system()._store, "w2"), Bank(), 1)
    with pytest.raises(Incomparable, match="different lives"):
        storage.table(view, snapshot="latest")


def test_damage_is_an_error_and_no_table_without_rows(tmp_path: Path) -> None:
    from rayshot.places.local import LocalStore

    repository = open_bank(LocalStore(tmp_path))
    make_snapshot(repository, Bank(states={"alice": {"n": 1}}, flows={}), 1)
    new = make_snapshot(repository, Bank(states={"alice": {"n": 2}}, flows={}), 2)
    (tmp_path / "bank" / new.manifest.chunks[0].key).write_bytes(b"x" * new.manifest.chunks[0].stored_size)
    with pytest.raises(CorruptChunk, match=r"the state of 'alice' in 1-coordinator-2: .*chunk") as caught:
        Storage(LocalStore(tmp_path)).table("state_diff").to_arrow()
    assert caught.value.evidence["actor"] == "alice"


def test_damage_of_messages_names_their_channel(tmp_path: Path) -> None:
    from rayshot.places.local import LocalStore

    made = make_snapshot(open_bank(LocalStore(tmp_path)), Bank(states={"alice": {}, "bob": {}}, flows={AB: Flow(2)}), 1)
    for chunk in made.manifest.chunks:
        (tmp_path / "bank" / chunk.key).write_bytes(b"x" * chunk.stored_size)
    with pytest.raises(CorruptChunk, match=r"the (mailbox|outbox) of channel alice -> bob: .*chunk"):
        Storage(LocalStore(tmp_path)).table("messages").to_arrow()


def test_what_a_diff_leaves_out_is_marked_beside_it() -> None:
    states = ({"alice": {"n": 1, "many": []}}, {"alice": {"n": 2, "many": [0] * 200_000}})
    storage = made(*(Bank(states=one, flows={}) for one in states))
    assert cells(storage, "state_diff", "attribute", "truncated") == [("many", True), ("n", False)]


def test_a_row_is_there_where_the_digest_differs_and_nowhere_else() -> None:
    first = {"zero": 0.0, "keys": {1: "a"}, "set": {1}, "same": [0.0, {1: 2.0}], "count": 1}
    second = {"zero": -0.0, "keys": {1.0: "a"}, "set": {True}, "same": [0.0, {1: 2.0}], "count": 2}
    storage = made(*(Bank(states={"alice": state}, flows={}) for state in (first, second)))
    digests: dict[str, set[str]] = {}
    for attribute, digest in cells(storage, "state", "attribute", "digest"):
        digests.setdefault(attribute, set()).add(digest)
    changed = [attribute for (attribute,) in cells(storage, "state_diff", "attribute")]
    assert changed == sorted(attribute for attribute, both in digests.items() if len(both) > 1)
    assert changed == ["count", "keys", "set", "zero"]
