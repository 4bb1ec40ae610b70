"""The cut equation as the audit finds it in the bytes, and what it says of bytes that lie."""

import msgpack
import pytest
from blake3 import blake3

from rayshot.audit import prove
from rayshot.audit.document import Document
from rayshot.audit.equation import check_alignment, check_equation
from rayshot.audit.findings import Unproved
from rayshot.format.manifest import encode
from rayshot.places.memory import MemoryStore
from tests.snapshots.snapshot_builder import Bank, Flow, make_manifest, make_snapshot, open_bank

BANK = Bank(
    states={"alice": {"balance": 90}, "bob": {"balance": 10}},
    flows={
        ("alice", "bob"): Flow(sent=9, arrived=6, received=2),
        ("bob", "alice"): Flow(sent=4, received=4),
        ("driver:main", "alice"): Flow(sent=3, arrived=3, received=1),
    },
)


@pytest.fixture
def repository():
    return open_bank(MemoryStore())


def document(repository, change=lambda tree: None):
    """A snapshot as the audit reads it, after its manifest was changed."""
    tree = msgpack.unpackb(encode(make_manifest(repository, BANK, 1)))
    change(tree)
    return Document(msgpack.packb(tree), lambda key, size: repository.store.read_range(f"bank/{key}", 0, size))


def channel(tree, sender):
    return next(row for row in tree["channels"] if row[0] == sender)


def test_a_sound_snapshot_is_proved_from_its_bytes(repository):
    findings = prove(make_snapshot(repository, BANK))
    assert findings.sound
    assert findings.finding("cut equation").holds
    assert "9 in flight" in findings.finding("cut equation").detail
    assert findings.finding("trace").holds is None


def set_field(sender, index, value):
    def change(tree):
        channel(tree, sender)[index] = value

    return change


def drop_actor(tree):
    tree["actors"] = [row for row in tree["actors"] if row[0] != "bob"]


def swap_parts(tree):
    row = channel(tree, "alice")
    row[5], row[6] = row[6], row[5]


LIES = {
    "a message more was sent than is stored": (set_field("alice", 2, 10), "10 .. 10 are missing"),
    "a message less was sent than is stored": (set_field("alice", 2, 8), "missing|where"),
    "a message more was received": (set_field("alice", 4, 3), "message 3 is stored where 4 should be"),
    "a message less was received": (set_field("alice", 4, 1), "message 3 is stored where 2 should be"),
    "an orphan: received and never sent": (set_field("bob", 4, 5), "was received that was never sent"),
    "more arrived than was sent": (set_field("alice", 3, 10), "never sent"),
    "a mailbox that is not there": (set_field("alice", 5, None), "message 7 is stored where 3 should be"),
    "an outbox that is not there": (set_field("alice", 6, None), "7 .. 9 are missing"),
    "mailbox and outbox swapped": (swap_parts, "message 7 is stored where 3 should be"),
    "a receiver that is nobody": (drop_actor, "leads to nobody|comes from nobody"),
    "a channel twice": (lambda tree: tree["channels"].append(channel(tree, "bob")), "listed twice"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found(repository, lie):
    change, words = LIES[lie]
    with pytest.raises(Unproved, match=words):
        check_equation(document(repository, change))


def test_a_channel_that_was_aligned_holds_nothing(repository):
    with pytest.raises(Unproved, match="was aligned"):
        check_alignment(document(repository, set_field("alice", 7, True)))
    assert "1 channels" in check_alignment(document(repository, set_field("bob", 7, True)))


def test_bytes_that_are_no_messages_are_found(repository):
    from rayshot.snapshots.chunk_writer import ChunkWriter

    for blob in (
        msgpack.packb(5),
        msgpack.packb(["a", "b", b""]),
        msgpack.packb([1, 2]),
        b"\xc1",
        msgpack.packb([7, 3, b"\x01\x02\x03"]),
        msgpack.packb([7, 2, msgpack.packb(["deposit", 1])]),
    ):
        writer = ChunkWriter(repository.store, "bank", "1-coordinator-9", {})
        writer.add(blob)
        _, (chunk,) = writer.finish()

        def change(tree, chunk=chunk):
            row = [chunk.key, bytes.fromhex(chunk.digest), chunk.size, chunk.stored_size, chunk.codec]
            tree["chunks"].append(row)
            channel(tree, "alice")[6] = [[len(tree["chunks"]) - 1, 0, chunk.size]]

        with pytest.raises(Unproved):
            check_equation(document(repository, change))


def test_a_chunk_that_was_changed_is_found(repository):
    def change(tree):
        tree["chunks"][0][1] = blake3(b"other bytes").digest()

    with pytest.raises(Unproved, match="is not what the manifest names"):
        check_equation(document(repository, change))


def test_a_chunk_that_announces_too_much_is_not_expanded(repository):
    def change(tree):
        tree["chunks"][0][2] = 1 << 40

    with pytest.raises(Unproved, match="announces"):
        check_equation(document(repository, change))


@pytest.mark.parametrize("payload", [b"", b"\x80", b"\xc1", msgpack.packb({"format": 2}), msgpack.packb([1])])
def test_what_is_no_manifest_is_refused(payload):
    with pytest.raises(Unproved):
        Document(payload, lambda _key, _size: b"")


@pytest.mark.parametrize(
    "spans",
    [[[84, 0, 1]], [[-1, 0, 1]], [[0, -1, 1]], [[0, 0, -1]], [[0, 0, 1 << 40]], [[0, 0]], [0], 7, "x", [["0", 0, 1]]],
)
def test_a_span_that_lies_in_no_chunk_is_refused(repository, spans):
    with pytest.raises(Unproved):
        document(repository, set_field("alice", 6, spans))
    with pytest.raises(Unproved):
        document(repository, lambda tree: tree.update(traces=[["alice", spans]]))


@pytest.mark.parametrize(
    ("part", "rows"), [("channels", [["a"]]), ("channels", [7]), ("chunks", [["k"]]), ("chunks", [7]), ("traces", [7])]
)
def test_a_row_that_is_none_is_refused(repository, part, rows):
    with pytest.raises(Unproved):
        document(repository, lambda tree: tree.update({part: rows}))


@pytest.mark.parametrize(("index", "value"), [(0, 7), (2, "9"), (3, None), (4, 1.5), (7, 1)])
def test_a_field_of_a_channel_that_is_of_another_type_is_refused(repository, index, value):
    with pytest.raises(Unproved):
        document(repository, set_field("alice", index, value))


def test_the_proof_runs_without_the_code_that_made_what_it_proves():
    import subprocess
    import sys

    program = (
        "import sys, rayshot.audit.document, rayshot.audit.equation, rayshot.audit.history, rayshot.audit.computation\n"
        "made_by = ('participant', 'collector', 'assembly', 'cut', 'recorder')\n"
        "print([name for name in made_by if f'rayshot.protocol.{name}' in sys.modules], 'ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
