"""What a vault writes of a cut, and that its answer comes to the coordinator as it was."""

import pickle

import pytest

from rayshot.format.codec import CREATE, Frame, pack_frames, read_frames
from rayshot.format.entries import Blob, CapturedState, Chunk, RecordedSlot, RecordedSlots, Span
from rayshot.keys.encryption import DataKey
from rayshot.model.specification import ActorSpecification
from rayshot.places.memory import MemoryStore
from rayshot.protocol.cut import ChannelCut, Cut
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.protocol.record import Record
from rayshot.runtime.node.recorded_slots import SlotWriter
from rayshot.runtime.node.vault import _write
from rayshot.runtime.wire.packets import pack, pack_begin, unpack_begin
from rayshot.runtime.wire.reports import RecordBody
from rayshot.runtime.wire.stored_cut import (
    Stored,
    StoredActor,
    VaultShare,
    pack_share,
    pack_stored,
    unpack_share,
    unpack_stored,
)
from rayshot.snapshots.chunk_reader import ChunkReader
from rayshot.snapshots.chunk_writer import ChunkWriter

DIGEST = "ab" * 32
WHOLE = Blob((Span(DIGEST, 0, 5), Span(DIGEST, 9, 1)))
EMPTY = Blob(())
SNAPSHOT = SnapshotId(1, "coordinator", 1)


def answered(stored):
    return unpack_stored(pickle.loads(pickle.dumps(pack_stored(stored))))


def test_everything_that_a_vault_wrote_comes_back():
    known = ActorSpecification("shop", "Till", None, ("sell", "close"), {"num_cpus": 0.5, "resources": {"a": 1.0}}, 2)
    local = ActorSpecification("__main__", "Till", b"\x80pickle", (), {}, 1)
    stored = Stored(
        "10.0.0.7",
        {
            "born": StoredActor(known, None, CapturedState("pickle", WHOLE, (EMPTY, WHOLE))),
            "bare": StoredActor(known, None, CapturedState("cloudpickle", EMPTY)),
            "unborn": StoredActor(local, WHOLE, None),
        },
        {Channel("born", "unborn"): WHOLE},
        {Channel("driver:1", "born"): EMPTY, Channel("born", "bare"): WHOLE},
        {
            Channel("born", "bare"): (
                RecordedSlots(2, (RecordedSlot("value", CapturedState("pickle", WHOLE, (EMPTY, WHOLE))),)),
                RecordedSlots(3, (RecordedSlot("failed", CapturedState("cloudpickle", WHOLE)),) * 2),
            )
        },
        {"born": WHOLE},
        (Chunk("chunks/ab", DIGEST, 10, 8, "zstd"), Chunk("chunks/cd", "cd" * 32, 3, 3, "raw", DataKey(b"k" * 32))),
        8,
    )
    found = answered(stored)
    assert found == stored
    assert {type(channel) for channel in (*found.outboxes, *found.mailboxes, *found.slots)} == {Channel}


def test_nothing_written_is_nothing():
    nothing = Stored("10.0.0.7", {}, {}, {}, {}, {}, (), 0)
    assert answered(nothing) == nothing


@pytest.mark.parametrize("inputs", [frozenset(), frozenset({"alice", "driver:1"})])
def test_the_call_for_a_record_comes_as_it_was_sent(inputs):
    snapshot = SnapshotId(3, "aligned", 7)
    found = unpack_begin(pack_begin(snapshot, 5, inputs))
    assert found == (snapshot, 5, inputs)
    assert type(found[0]) is SnapshotId


def test_a_vault_is_told_who_recorded_who_is_unborn_and_which_channels_are_not_empty():
    full, empty = Channel("alice", "bob"), Channel("bob", "alice")
    cut = Cut(
        SNAPSHOT,
        {"alice": Record(SNAPSHOT, "alice")},
        (ChannelCut(full, 3, 2, 1), ChannelCut(empty, 2, 2, 2)),
        ("bob",),
    )
    share = unpack_share(pack_share(cut))
    assert share == VaultShare(frozenset({"alice"}), frozenset({"bob"}), (ChannelCut(full, 3, 2, 1),))
    assert type(share.channels[0].channel) is Channel


# What a vault writes: alice makes bob with message 1 of their channel, and sends 2 and 3.

BOB = ActorSpecification("shop", "Till", None, ("sell",), {}, 1)
MESSAGES = [pack([CREATE, BOB.pack(), b"tell"]), pack(["sell", 2]), pack(["sell", 3])]


def run(first, last):
    """The messages `first` .. `last`, a frame each, as a record has them."""
    return pack_frames(Frame(number, 1, MESSAGES[number - 1]) for number in range(first, last + 1))


def written(*, arrived, received, released=0, born=False):
    """What is written of alice, of bob if anything of him arrived, and of the channel between them."""
    channel = Channel("alice", "bob")
    records = {"alice": Record(SNAPSHOT, "alice", sent={"bob": 3}, transported={"bob": 3}, released={"bob": released})}
    alice = RecordBody("alice", BOB.pack(), None, {"bob": run(released + 1, 3)}, {}, None)
    held = {"alice": (alice, [])}
    if arrived:
        records["bob"] = Record(SNAPSHOT, "bob", born=born, received={"alice": received}, arrived={"alice": arrived})
        specification = BOB.pack() if born else None
        mailbox = {"alice": run(received + 1, arrived)} if arrived > received else {}
        held["bob"] = RecordBody("bob", specification, None, {}, mailbox, None), []
    cut = Cut(SNAPSHOT, records, (ChannelCut(channel, 3, arrived, received),), () if arrived else ("bob",))
    store = MemoryStore()
    writer = ChunkWriter(store, "shop", "intent")
    stored = _write(writer, held, unpack_share(pack_share(cut)), {}, SlotWriter(writer, 0.0), lambda: None)
    chunks = {chunk.digest: chunk for chunk in stored.chunks}

    def numbers(blobs):
        blob = ChunkReader(store, "shop", chunks).read(blobs[channel]) if channel in blobs else b""
        return [frame.first for frame in read_frames(blob)]

    return stored.actors.get("bob"), numbers(stored.mailboxes), numbers(stored.outboxes)


def test_who_exists_as_a_message_that_is_still_with_its_sender_is_known_by_that():
    bob, mailbox, outbox = written(arrived=0, received=0)
    assert (bob, mailbox, outbox) == (StoredActor(BOB, None, None), [], [1, 2, 3])


def test_who_exists_as_a_message_in_its_own_mailbox_is_known_by_that():
    bob, mailbox, outbox = written(arrived=1, received=0)
    assert (bob, mailbox, outbox) == (StoredActor(BOB, None, None), [1], [2, 3])


def test_of_what_was_under_way_only_what_had_not_arrived_is_written_with_the_sender():
    bob, mailbox, outbox = written(arrived=2, received=1, born=True)
    assert (bob, mailbox, outbox) == (StoredActor(BOB, None, None), [2], [3])


def test_what_its_receiver_had_acknowledged_is_not_with_the_sender():
    bob, mailbox, outbox = written(arrived=2, received=2, released=2, born=True)
    assert (bob, mailbox, outbox) == (StoredActor(BOB, None, None), [], [3])
