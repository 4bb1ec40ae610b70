"""What actors have beside their states, in tables."""

import pytest

from rayshot.errors import BadState
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank

STATES = {"alice": {}}


def rows_of(view, bank, **options):
    store = MemoryStore()
    make_snapshot(open_bank(store), bank)
    return Storage(store).table(view, **options).to_arrow().to_pylist()


def cells(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def test_a_pending_call_says_whom_it_waits_for():
    calls = {3: ("on_balance", "on_refusal", (1, "a")), 4: ("set_password", None, ("hunter2",)), 5: ("add", None, ())}
    bank = Bank(STATES, {}, unborn=["carol"], calls=calls, callees={3: "bob", 4: "carol"})
    assert cells(rows_of("calls", bank), "actor", "call_id", "callee", "method", "context", "truncated") == [
        ("alice", 3, "bob", "on_balance", '[1, "a"]', False),
        ("alice", 4, "carol", "set_password", '["<redacted>"]', False),
        ("alice", 5, None, "add", "[]", False),
    ]
    assert cells(rows_of("calls", bank, show_secrets=True), "context")[1] == ('["hunter2"]',)


def test_calls_that_an_older_rayshot_recorded_have_no_callee():
    assert cells(rows_of("calls", Bank(STATES, {}, calls={1: ("add", None, ())})), "call_id", "callee") == [(1, None)]


def test_timers_say_when_they_are_due():
    timers = [(1.5, "ring", (bytes(100),)), (0.0, "set_pin", (1234,))]
    assert cells(rows_of("timers", Bank(STATES, {}, timers=timers)), "method", "in_s", "args", "truncated") == [
        ("ring", 1.5, f'[{{"$bytes": 100, "head": "{"00" * 32}"}}]', True),
        ("set_pin", 0.0, '["<redacted>"]', False),
    ]


def test_dead_letters_say_where_and_in_which_life_they_came_and_why():
    letters = [
        ("carol", "alice", 0, "deposit", "actor 'carol' ended", 0),
        ("alice", "driver:main", 7, "draw", "Traceback ...\n  at line 1\nValueError: \ud800 no\n", 2),
    ]
    bank = Bank(STATES, {}, unborn=["bob"], dead_letters=letters)
    names = ("actor", "place", "came_in_life", "sender", "receiver", "number", "method", "reason", "error")
    assert cells(rows_of("dead_letters", bank), *names) == [
        ("alice", 0, None, "alice", "carol", None, "deposit", "actor 'carol' ended", "actor 'carol' ended"),
        (
            *("alice", 1, 2, "driver:main", "alice", 7, "draw", "ValueError: \\ud800 no"),
            "Traceback ...\n  at line 1\nValueError: \\ud800 no\n",
        ),
    ]
    assert rows_of("dead_letters", Bank(STATES, {})) == []


@pytest.mark.parametrize(
    ("view", "damage"),
    [
        ("calls", {"calls": {1: "add"}}),
        ("calls", {"calls": {"1": ("add", None, ())}}),
        ("calls", {"calls": {1: ("add", None, ())}, "callees": {1: 2}}),
        ("timers", {"timers": [("soon", "ring", ())]}),
        ("timers", {"timers": [7]}),
        ("timers", {"timers": [(2**2000, "ring", ())]}),
        ("calls", {"calls": {2**70: ("add", None, ())}}),
        ("dead_letters", {"dead_letters": [("bob", "alice", 3, "deposit", 7, 1)]}),
    ],
)
def test_what_no_actor_records_is_an_error_and_no_empty_table(view, damage):
    with pytest.raises(BadState, match="of 'alice' do not have the form that an actor records"):
        rows_of(view, Bank(STATES, {}, **damage))
