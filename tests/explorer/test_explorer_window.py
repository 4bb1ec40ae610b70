"""However large a system is, its page is small: lists are cut, and say of how many."""

import json

import pytest

import rayshot.explorer.data
from rayshot.explorer.data import snapshot_document, storage_document
from rayshot.explorer.report import frame, report
from rayshot.explorer.window import busiest
from rayshot.log.aborts import AbortNote, write_abort
from rayshot.log.records import RestoreRecord
from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import Channel
from rayshot.snapshots.catalog import Storage
from tests.explorer.computations import overlapping, store_all
from tests.snapshots.snapshot_builder import TAKEN_AT, Bank, Flow, make_snapshot, open_bank

ACTORS, IN_FLIGHT = 1000, 100


@pytest.fixture(scope="module")
def large():
    """1,000 actors with 100,000 messages in flight."""
    names = [f"actor-{n:04}" for n in range(ACTORS)]
    flows = {
        (name, names[(place + 1) % ACTORS]): Flow(sent=1000, arrived=950, received=1000 - IN_FLIGHT)
        for place, name in enumerate(names)
    }
    store = MemoryStore()
    repository = open_bank(store)
    states = {name: {"log": ["x" * 1000] * 100, "text": "y" * 5000} for name in names}
    for counter in (1, 2):
        make_snapshot(repository, Bank(states=states, flows=flows), counter)
    return Storage(store).system()


def test_a_report_of_a_large_system_is_under_a_megabyte(large):
    assert large.latest().in_flight == ACTORS * IN_FLIGHT
    assert len(report(large)[1].encode()) < 1_000_000
    assert len(frame(large.latest()).encode()) < 1_000_000


def test_lists_are_cut_and_say_of_how_many(large):
    document = snapshot_document(large.latest())
    assert (document["actor_count"], document["channel_count"]) == (ACTORS, ACTORS)
    assert len(document["actors"]) == 12
    assert len(document["in_flight_rows"]) == 100
    assert (len(document["graph"]["nodes"]), len(document["cut"]["channels"])) == (40, 24)
    assert document["notes"] == []


def test_a_traced_window_has_at_most_500_events_and_12_rows():
    names = [f"actor-{n:02}" for n in range(20)]
    store = MemoryStore()
    first, *_ = store_all(overlapping(names, steps=3000), open_bank(store))
    cut = snapshot_document(first)["cut"]
    assert len(cut["lanes"]) == 12
    assert 200 < len(cut["events"]) <= 500
    crossing = [arrow for arrow in cut["messages"] if arrow["crosses"]]
    assert 0 < len(crossing) == first.in_flight - cut["undrawn"]


def test_the_rows_are_those_that_have_most_messages_in_flight_between_them():
    flows = {("a", "b"): Flow(9), ("b", "c"): Flow(5), ("d", "e"): Flow(7), ("f", "a"): Flow(1)}
    snapshot = make_snapshot(open_bank(MemoryStore()), Bank(states={name: {} for name in "abcdefg"}, flows=flows))
    assert busiest(snapshot.manifest, 3) == ["a", "b", "c"]
    assert busiest(snapshot.manifest, 6) == ["a", "b", "c", "d", "e", "f"]
    assert busiest(snapshot.manifest, 3, ["g", "nobody", "d"]) == ["d", "g"]


def test_chosen_actors_are_the_ones_that_are_shown(large):
    document = snapshot_document(large.latest(), actors=["actor-0500", "actor-0501"])
    assert [actor["name"] for actor in document["actors"]] == ["actor-0500", "actor-0501"]
    assert {"actor-0500", "actor-0501"} <= {node["name"] for node in document["graph"]["nodes"]}
    assert {(one["sender"], one["receiver"]) for one in document["cut"]["channels"]} == {
        ("actor-0499", "actor-0500"),
        ("actor-0500", "actor-0501"),
        ("actor-0501", "actor-0502"),
    }


def test_a_state_that_is_too_large_is_told_and_not_read(monkeypatch):
    monkeypatch.setattr("rayshot.explorer.states.STATE_READ_BYTES_MAX", 1000)
    states = {"alice": {"blob": "x" * 2000}, "bob": {"balance": 1}}
    repository = open_bank(MemoryStore())
    for counter in (1, 2):
        states["alice"]["blob"] += "x"
        snapshot = make_snapshot(repository, Bank(states=states), counter)
    document = snapshot_document(snapshot)
    alice, bob = document["actors"]
    assert "larger than this page reads" in alice["unread"]
    assert bob["state"]["state"] == {"balance": 1}
    assert document["changes"]["rows"] == [
        {"actor": "alice", "attribute": "(state)", "old": "(too large)", "new": "(too large)"}
    ]


def test_messages_that_are_too_large_are_told_and_not_read(monkeypatch):
    monkeypatch.setattr("rayshot.explorer.window.CHANNEL_READ_BYTES_MAX", 10)
    document = snapshot_document(make_snapshot(open_bank(MemoryStore())))
    assert document["in_flight_rows"] == []
    assert document["notes"] == ["the messages on alice -> bob are more than this page reads"]


def test_a_trace_that_is_too_long_is_told_and_the_counters_are_shown(monkeypatch):
    monkeypatch.setattr(rayshot.explorer.data, "TRACE_BYTES_MAX", 10)
    cut = snapshot_document(store_all(overlapping(), open_bank(MemoryStore()))[0])["cut"]
    assert (cut["kind"], "longer than this page reads" in cut["reason"]) == ("counted", True)
    assert cut["channels"]


def test_the_time_line_knows_lives_takeovers_and_aborts():
    store = MemoryStore()
    repository = open_bank(store)
    first = make_snapshot(repository)
    repository.log.begin_epoch(1, "w2")
    note = AbortNote(
        first.id._replace(counter=2), TAKEN_AT, 3.0, "chandy-lamport", "interval", "timed_out", "bob is slow",
        ("bob",), 1, (Channel("alice", "bob"),), 1,
    )  # fmt: skip
    write_abort(store, "bank", note, None)
    second = open_bank(store, "w3")
    second.log.append(RestoreRecord(second.log.next_position, "w3", first.id, None, claimed=False))
    make_snapshot(second)
    document = storage_document(Storage(store).system())
    assert [(one["id"], one["life"]) for one in document["snapshots"]] == [
        ("1-coordinator-1", 1),
        ("2-coordinator-1", 2),
    ]
    lives = [(life["life"], life["restored_from"], len(life["takeovers"])) for life in document["lives"]]
    assert lives == [(1, None, 1), (2, "1-coordinator-1", 0)]
    assert document["aborts"] == [
        {
            "id": "1-coordinator-2", "life": 1, "at": TAKEN_AT + 3.0, "reason": "timed_out", "detail": "bob is slow",
            "missing_count": 1, "open_count": 1,
        }
    ]  # fmt: skip


def test_a_page_opens_with_the_latest_cut_of_which_it_is_known_what_followed():
    store = MemoryStore()
    repository = open_bank(store)
    assert storage_document(Storage(store).system("bank"))["first"] is None
    store_all(overlapping(), repository)
    assert storage_document(Storage(store).system())["first"] == "1-coordinator-2"
    make_snapshot(open_bank(store, "w2"))
    assert storage_document(Storage(store).system())["first"] == "1-coordinator-2"


def test_without_traces_a_page_opens_with_the_latest_cut_with_messages_in_flight():
    store = MemoryStore()
    repository = open_bank(store)
    for counter, flows in ((1, None), (2, None), (3, {})):
        make_snapshot(repository, Bank(flows=flows), counter)
    assert storage_document(Storage(store).system())["first"] == "1-coordinator-2"


def test_old_snapshots_of_a_long_line_show_what_their_records_say(large, monkeypatch):
    monkeypatch.setattr(rayshot.explorer.data, "ROWS_READ_MAX", 10)
    old, new = storage_document(large)["snapshots"]
    assert "in_flight" not in old
    assert new["in_flight"] == ACTORS * IN_FLIGHT
    monkeypatch.setattr(rayshot.explorer.data, "SNAPSHOTS_MAX", 1)
    document = storage_document(large)
    assert (len(document["snapshots"]), document["snapshot_count"]) == (1, 2)
    json.dumps(document)


def test_the_page_has_the_payload_and_the_files_of_an_actor_within_its_bounds():
    files = {"alice": {f"shard {n:03}.pt": b"x" for n in range(500)}, "bob": {}}
    make_snapshot(
        repository := open_bank(MemoryStore("page")), Bank(files=files, payload={"step": 3, "token": "geheim"})
    )
    alice, bob = snapshot_document(Storage(repository.store).system().latest())["actors"]
    assert alice["outside"]["said"] == "500 files with 500 B in memory://page/bank/outside/1-coordinator-1/alice"
    assert alice["outside"]["tree"]["payload"] == {"step": 3, "token": "<redacted>"}
    assert alice["outside"]["tree"]["files"]["shard 000.pt"] == "1 B"
    assert len(alice["outside"]["tree"]["files"]) < 250
    assert bob["outside"]["said"] == "no files"
