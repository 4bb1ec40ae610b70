import pickle
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from rayshot.errors import ActorNotFound, BadManifest, InconsistentCut, NotFound
from rayshot.format.codec import Frame, pack_frames
from rayshot.format.entries import ChannelEntry
from rayshot.keys.signing import SigningKey
from rayshot.places.local import LocalStore
from rayshot.places.memory import MemoryStore, named_memory_store
from rayshot.snapshots.chunk_writer import ChunkWriter
from rayshot.snapshots.diff import ABSENT, ValueChange
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.verification import Trust
from tests.snapshots.snapshot_builder import KEY, TAKEN_AT, Bank, Flow, make_manifest, make_snapshot, open_bank


def made(**bank: Any) -> Snapshot:
    return make_snapshot(open_bank(MemoryStore()), Bank(**bank))


def test_a_snapshot_shows_what_was_recorded() -> None:
    snapshot = made(unborn=["carol"], label="payday")
    assert str(snapshot.id) == "1-coordinator-1"
    assert (snapshot.system, snapshot.position, snapshot.mode, snapshot.label) == (
        "bank",
        1,
        "chandy-lamport",
        "payday",
    )
    assert snapshot.taken_at == datetime.fromtimestamp(TAKEN_AT + 1, UTC)
    assert list(snapshot.actors) == ["alice", "bob", "carol"]
    assert snapshot.actors["alice"].class_name == "bank.Account"
    assert snapshot.actors["alice"].status == "born"
    assert snapshot.actors["alice"].state_bytes > 10
    assert snapshot.actors["carol"].state_bytes == 0
    assert snapshot.states() == {"alice": {"balance": 90}, "bob": {"balance": 10}}
    assert snapshot.states()["alice"]["balance"] == 90
    assert snapshot.stats == {"duration_ms": 12.5}
    assert snapshot.size_bytes > 0
    assert snapshot.in_flight == 3


def test_a_channel_shows_its_counters_and_the_messages_in_flight() -> None:
    snapshot = made()
    channel = snapshot.channel("alice", "bob")
    assert snapshot.channels["alice", "bob"] == channel
    assert (channel.sent, channel.arrived, channel.received, channel.count) == (5, 4, 2, 3)
    assert [(m.number, m.kind, m.method, m.args) for m in channel.messages] == [
        (3, "tell", "deposit", (30,)),
        (4, "tell", "deposit", (40,)),
        (5, "tell", "deposit", (50,)),
    ]
    assert snapshot.channel("driver:main", "alice").messages == []


def test_what_is_not_there_is_refused_with_what_is() -> None:
    snapshot = made(unborn=["carol"])
    with pytest.raises(ActorNotFound, match="it has alice, bob, carol"):
        snapshot.state("dave")
    with pytest.raises(ActorNotFound, match=r"has no actor 'alcie'; it has alice.* Did you mean 'alice'\?$"):
        snapshot.state("alcie")
    with pytest.raises(ActorNotFound, match="it is unborn"):
        snapshot.state("carol")
    with pytest.raises(NotFound, match="it has alice -> bob, driver:main -> alice"):
        snapshot.channel("bob", "alice")


@pytest.mark.acceptance("G28")
def test_arrays_and_shared_references_in_a_state_are_read_back() -> None:
    shared = [1, 2]
    array = np.arange(50_000, dtype=np.float64)
    state = made(states={"alice": {"array": array, "a": shared, "b": shared}, "bob": {}}).state("alice")
    assert np.array_equal(state["array"], array)
    assert state["a"] is state["b"]


def test_verification_says_what_was_proved_and_who_signed_it() -> None:
    verification = made().verify([KEY])
    assert [check.name for check in verification.checks] == ["manifest", "chunks", "cut", "states"]
    assert "3 in flight" in verification.checks[2].detail
    assert verification.trusted


def test_an_untrusted_snapshot_verifies_and_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY", raising=False)
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY_FILE", raising=False)
    repository = open_bank(MemoryStore())
    unsigned = make_snapshot(repository, counter=1, key=None).verify()
    assert unsigned.sound
    assert unsigned.trust is Trust.UNSIGNED
    signed = make_snapshot(repository, counter=2)
    assert signed.verify().trust is Trust.UNKNOWN_KEY
    assert signed.verify([SigningKey(b"o" * 32)]).trust is Trust.UNKNOWN_KEY
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", "k" * 32)
    assert signed.verify().trust is Trust.TRUSTED
    assert not list(tmp_path.iterdir())


def messages(first: int, count: int) -> Frame:
    return Frame(first, count, msgpack.packb(["deposit", 1]) * count)


@pytest.mark.acceptance("G13")
@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([messages(3, 2), messages(6, 1)], "goes on with 6"),
        ([messages(3, 2)], "ends at 4"),
        ([messages(2, 4)], "goes on with 2"),
        ([messages(3, 4)], "up to 5 at most"),
        ([], "ends at 2"),
    ],
)
def test_messages_that_are_not_exactly_those_in_flight_break_the_cut_equation(
    frames: list[Frame], complaint: str
) -> None:
    store = MemoryStore()
    repository = open_bank(store)
    manifest = make_manifest(repository, Bank(flows={}), 1)
    writer = ChunkWriter(store, "bank", manifest.intent)
    writer.add(pack_frames(frames) or msgpack.packb([3, 0, b""]))
    (mailbox,), chunks = writer.finish()
    forged = replace(
        manifest,
        channels=(ChannelEntry("alice", "bob", 5, 5, 2, mailbox, None),),
        chunks=(*manifest.chunks, *chunks),
    )
    snapshot = repository.snapshot(repository.commit(forged, KEY))
    with pytest.raises(InconsistentCut, match=complaint):
        snapshot.verify()
    failed = [check.name for check in snapshot.examine().checks if not check.ok]
    assert failed == ["cut"]


@pytest.mark.acceptance("G13")
def test_a_frame_that_holds_fewer_messages_than_it_promises_is_damage() -> None:
    store = MemoryStore()
    repository = open_bank(store)
    manifest = make_manifest(repository, Bank(flows={}), 1)
    writer = ChunkWriter(store, "bank", manifest.intent)
    writer.add(pack_frames([Frame(1, 3, msgpack.packb(["deposit", 1]) * 2)]))
    (mailbox,), chunks = writer.finish()
    forged = replace(
        manifest,
        channels=(ChannelEntry("alice", "bob", 3, 3, 0, mailbox, None),),
        chunks=(*manifest.chunks, *chunks),
    )
    with pytest.raises(BadManifest, match="promises 3 messages"):
        repository.snapshot(repository.commit(forged, KEY)).verify()


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "executed")


@pytest.mark.acceptance("G15")
def test_reading_executes_nothing(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    snapshot = made(states={"alice": {"x": Hostile(proof)}, "bob": {}})
    other = made(states={"alice": {"x": Hostile(tmp_path / "proof")}, "bob": {}})
    assert snapshot.verify().sound
    assert "write_text" in repr(snapshot.state("alice")["x"])
    snapshot.diff(other)
    assert not proof.exists()


def test_reading_imports_neither_ray_nor_pyspark(tmp_path: Path) -> None:
    make_snapshot(open_bank(LocalStore(tmp_path)))
    program = (
        "import sys, rayshot\n"
        f"snapshot = rayshot.open({str(tmp_path)!r}).systems['bank'].latest()\n"
        "assert snapshot.verify().sound and snapshot.states() and snapshot.channel('alice', 'bob').messages\n"
        "assert snapshot.diff(snapshot).same\n"
        "print(sorted({'ray', 'pyspark', 'numpy'} & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert ended.stdout == "[]\n"


def test_a_snapshot_survives_pickling(tmp_path: Path) -> None:
    local = make_snapshot(open_bank(LocalStore(tmp_path)))
    copied = pickle.loads(pickle.dumps(local))
    assert copied == local
    assert copied.states() == local.states()
    memory = make_snapshot(open_bank(named_memory_store("pickling")))
    assert pickle.loads(pickle.dumps(memory)).states() == memory.states()


# Differences. ------------------------------------------------------------------------------------------------------


def two(before: Bank, after: Bank) -> tuple[Snapshot, Snapshot]:
    repository = open_bank(MemoryStore())
    return make_snapshot(repository, before, 1), make_snapshot(repository, after, 2)


def test_two_snapshots_of_the_same_moment_do_not_differ() -> None:
    states = {"a": {"nan": float("nan"), "array": np.zeros(3), "set": {1, 2}, "list": []}}
    states["a"]["list"].append(states["a"]["list"])
    old, new = two(
        Bank(states=states, flows={}),
        Bank(
            states={
                "a": {**states["a"]},
            },
            flows={},
        ),
    )
    assert old.diff(new).same
    assert old.diff(old).same


def test_a_difference_names_every_attribute_with_its_old_and_new_value() -> None:
    old, new = two(
        Bank(states={"a": {"n": 1, "gone": None, "same": [1]}, "b": {}}, flows={}),
        Bank(states={"a": {"n": True, "new": "x", "same": [1]}, "c": {}}, flows={}, ended=["b"]),
    )
    diff = old.diff(new)
    assert not diff.same
    assert diff.actors_added == ("c",)
    assert diff.actors_removed == ("b",)
    (change,) = diff.actors_changed
    assert change.name == "a"
    assert change.values == (
        ValueChange("gone", None, ABSENT),
        ValueChange("n", 1, True),
        ValueChange("new", ABSENT, "x"),
    )


def test_an_actor_that_was_born_shows_its_status_and_its_attributes() -> None:
    old, new = two(Bank(unborn=["carol"]), Bank(states={"carol": {"n": 1}, "alice": {}, "bob": {}}))
    (changed,) = [change for change in old.diff(new).actors_changed if change.name == "carol"]
    assert [value.name for value in changed.values][:1] == ["(status)"]
    assert ValueChange("n", ABSENT, 1) in changed.values


def test_a_state_that_is_no_dict_of_attributes_is_compared_whole() -> None:
    old, new = two(Bank(states={"a": [1, 2]}, flows={}), Bank(states={"a": {3: 4}}, flows={}))
    ((change,),) = (actor.values for actor in old.diff(new).actors_changed)
    assert change == ValueChange("(state)", [1, 2], {3: 4})


def test_channels_differ_by_their_counters_and_their_messages() -> None:
    channel = ("alice", "bob")
    old, new = two(Bank(flows={channel: Flow(sent=2)}), Bank(flows={channel: Flow(sent=3)}))
    ((moved),) = old.diff(new).channels_changed
    assert moved.channel == channel
    assert moved.old is not None
    assert moved.new is not None
    assert (moved.old.sent, moved.new.sent) == (2, 3)
    old, new = two(Bank(flows={channel: Flow(sent=2)}), Bank(flows={channel: Flow(sent=2, method="withdraw")}))
    assert len(old.diff(new).channels_changed) == 1
    old, new = two(Bank(flows={channel: Flow(sent=2)}), Bank(flows={}))
    ((gone),) = old.diff(new).channels_changed
    assert gone.new is None
