"""The manifest: what is written is read back, and nothing else is read at all."""

import dataclasses
import math

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import BadManifest, Damaged, FormatTooNew, InconsistentCut, LimitExceeded, UnsafePath
from rayshot.format import bounds, canonical
from rayshot.format.entries import ActorEntry, Blob, CapturedState, ChannelEntry, Chunk, Span
from rayshot.format.entry_checks import chunk_key
from rayshot.format.manifest import Manifest, decode, encode
from rayshot.protocol.identity import SnapshotId

D1, D2 = "ab" * 32, "cd" * 32
CHUNKS = (
    Chunk(chunk_key(D1, "1-x-1"), D1, 1000, 900, "zstd"),
    Chunk(chunk_key(D2, "1-x-1"), D2, 50, 50, "raw"),
)
BLOB = Blob((Span(D1, 0, 1000), Span(D2, 10, 40)))
ALICE = ActorEntry(
    "alice",
    "bank",
    "Account",
    None,
    {"num_cpus": 0.5},
    "born",
    ("read",),
    CapturedState("pickle", BLOB, (BLOB,)),
)
BOB = ActorEntry("bob", "bank", "Account", BLOB, {}, "unborn", (), None)
CHANNEL = ChannelEntry("alice", "bob", 5, 3, 1, BLOB, BLOB)
FROM_DRIVER = ChannelEntry("driver:d1", "alice", 4, 4, 4)
MANIFEST = Manifest(
    system="bank",
    snapshot=SnapshotId(1, "coordinator", 2),
    position=7,
    mode="chandy-lamport",
    taken_at=1.5e9,
    rayshot_version="0.1.0",
    python_version="3.11",
    intent="1-coordinator-2",
    label="before lunch",
    actors=(ALICE, BOB),
    ended=(),
    channels=(CHANNEL, FROM_DRIVER),
    chunks=CHUNKS,
    stats={"bytes": 3, "seconds": 0.25},
)
BYTES = encode(MANIFEST)


def changed(**changes):
    return dataclasses.replace(MANIFEST, **changes)


def raw_with(**changes):
    return msgpack.packb({**msgpack.unpackb(BYTES), **changes})


def test_a_manifest_reads_back_equal_and_spells_the_same():
    assert decode(BYTES) == MANIFEST
    assert encode(decode(BYTES)) == BYTES


def test_the_empty_manifest_reads_back():
    empty = changed(actors=(), channels=(), chunks=(), stats={}, label=None)
    assert decode(encode(empty)) == empty


def test_a_manifest_is_readable_without_rayshot():
    tree = msgpack.unpackb(BYTES)
    assert next(iter(tree)) == "format"
    assert tree["system"] == "bank"
    assert tree["channels"][0][:5] == ["alice", "bob", 5, 3, 1]


@pytest.mark.acceptance("G1")
def test_no_bytes_are_refused():
    with pytest.raises(BadManifest):
        decode(b"")


@pytest.mark.acceptance("G1")
def test_a_cut_at_every_byte_is_refused():
    for length in range(len(BYTES)):
        with pytest.raises(BadManifest):
            decode(BYTES[:length])


@pytest.mark.acceptance("G2")
def test_every_flipped_bit_raises_a_typed_error_or_reads_canonically():
    for index in range(len(BYTES)):
        for bit in range(8):
            flipped = bytearray(BYTES)
            flipped[index] ^= 1 << bit
            try:
                manifest = decode(bytes(flipped))
            except (Damaged, FormatTooNew):
                continue
            assert encode(manifest) == flipped


@pytest.mark.acceptance("G2")
@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_raise_typed_errors_only(data):
    with pytest.raises((Damaged, FormatTooNew)):
        decode(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.acceptance("G2")
@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(msgpack.unpackb(BYTES))), VALUES)
def test_any_value_in_any_field_raises_a_typed_error_or_reads_canonically(key, value):
    data = raw_with(**{key: value})
    try:
        manifest = decode(data)
    except (Damaged, FormatTooNew):
        return
    assert encode(manifest) == data


def check_any_value_within(data, tree, parent, key):
    """Any value in any place within `parent[key]` of a manifest's tree: a typed error, or it reads canonically."""
    while isinstance(place := parent[key], list | dict) and place and data.draw(st.booleans()):
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        parent, key = place, data.draw(st.sampled_from(keys))
    parent[key] = data.draw(VALUES)
    try:
        manifest = decode(msgpack.packb(tree))
    except (Damaged, FormatTooNew):
        return
    assert encode(manifest) == msgpack.packb(tree)


@pytest.mark.acceptance("G2")
@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.data())
def test_any_value_in_any_place_of_an_entry_raises_a_typed_error_or_reads_canonically(data):
    tree = msgpack.unpackb(BYTES)
    check_any_value_within(data, tree, tree, data.draw(st.sampled_from(sorted(tree))))


@pytest.mark.acceptance("G12")
@pytest.mark.parametrize("part", [5, 6])
@pytest.mark.parametrize("length", [None, "1", [], b"x"])
def test_a_span_of_messages_whose_length_is_no_number_is_refused(part, length):
    tree = msgpack.unpackb(BYTES)
    tree["channels"][0][part][0][2] = length
    with pytest.raises(BadManifest, match="length of a span of messages of channel alice -> bob"):
        decode(msgpack.packb(tree))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_options_come_back_as_they_were(options):
    actor = dataclasses.replace(BOB, options=options)
    data = encode(changed(actors=(ALICE, actor)))
    assert repr(decode(data).actors[1].options) == repr(options)
    assert encode(decode(data)) == data


@pytest.mark.acceptance("G6")
def test_a_newer_format_says_what_to_install():
    with pytest.raises(FormatTooNew, match=r"install rayshot 9\.9\.0 or later"):
        decode(msgpack.packb({"format": 3, "rayshot_version": "9.9.0", "whatever": [1]}))
    with pytest.raises(FormatTooNew, match="install a newer rayshot"):
        decode(msgpack.packb({"format": 3}))


@pytest.mark.acceptance("G6")
@pytest.mark.parametrize("version", [0, -1, 2, True, 1.0, "1", None])
def test_a_format_that_never_was_is_refused(version):
    with pytest.raises(BadManifest):
        decode(raw_with(format=version))


@pytest.mark.acceptance("G12")
def test_trailing_bytes_are_refused():
    with pytest.raises(BadManifest, match="not one document"):
        decode(BYTES + b"\xc0")


@pytest.mark.acceptance("G12")
def test_unknown_missing_and_reordered_keys_are_refused():
    tree = msgpack.unpackb(BYTES)
    for bad in (
        {**tree, "extra": 1},
        {key: tree[key] for key in tree if key != "label"},
        dict(reversed(tree.items())),
    ):
        with pytest.raises(BadManifest):
            decode(msgpack.packb(bad))


@pytest.mark.acceptance("G12")
def test_a_repeated_key_is_refused():
    unpacker = msgpack.Unpacker()
    unpacker.feed(BYTES)
    keys = unpacker.read_map_header()
    twice = msgpack.packb("format") + b"\x01" + BYTES[unpacker.tell() :]
    with pytest.raises(BadManifest, match="canonical"):
        decode(msgpack.Packer().pack_map_header(keys + 1) + twice)


@pytest.mark.acceptance("G12")
@pytest.mark.parametrize("extension", [msgpack.ExtType(5, b"x"), msgpack.Timestamp(0), msgpack.Timestamp(2**40)])
def test_extension_types_are_refused(extension):
    with pytest.raises(BadManifest):
        decode(raw_with(label=extension))
    with pytest.raises(BadManifest):
        canonical.unpack(msgpack.packb([extension]), what="a list", bytes_max=100)


@pytest.mark.acceptance("G12")
@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdd\xff\xff\xff\xff" * 400,
        b"\xdf\xff\xff\xff\xff" * 400,
        b"\xdd\x00\x0f\x00\x00" * 400,
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x91" * 100_000 + b"\xc0",
        b"\x81\xa1x" * 100_000 + b"\xc0",
        b"\x91" * 1_000 + b"\xc0",
        b"\xc1",
    ],
)
def test_msgpack_bombs_are_refused_before_they_allocate(bomb):
    with pytest.raises(BadManifest):
        decode(bomb)


@pytest.mark.acceptance("G12")
def test_longer_spellings_are_refused():
    with pytest.raises(BadManifest, match="canonical"):
        canonical.unpack(b"\xcc\x01", what="a number", bytes_max=10)
    with pytest.raises(BadManifest, match="canonical"):
        canonical.unpack(b"\xca\x00\x00\x00\x00", what="a number", bytes_max=10)


@pytest.mark.acceptance("G12")
def test_too_many_bytes_and_containers_are_refused(monkeypatch):
    with pytest.raises(LimitExceeded):
        canonical.unpack(BYTES, what="the manifest", bytes_max=len(BYTES) - 1)
    monkeypatch.setattr(canonical, "CONTAINERS_MAX", 5)
    with pytest.raises(LimitExceeded):
        canonical.unpack(msgpack.packb([[]] * 6), what="a list", bytes_max=100)


def test_a_manifest_over_the_limit_is_not_written(monkeypatch):
    monkeypatch.setattr("rayshot.format.manifest.MANIFEST_BYTES_MAX", 10)
    with pytest.raises(LimitExceeded):
        encode(MANIFEST)


@pytest.mark.acceptance("G13")
@pytest.mark.parametrize(("sent", "arrived", "received"), [(5, 3, 4), (2, 3, 1), (0, 0, 1), (5, 6, 1), (1, 5, 5)])
def test_counters_out_of_order_are_an_inconsistent_cut(sent, arrived, received):
    with pytest.raises(InconsistentCut):
        changed(channels=(ChannelEntry("alice", "bob", sent, arrived, received, BLOB, BLOB),))


@pytest.mark.acceptance("G13")
@pytest.mark.parametrize(
    "channel",
    [
        ChannelEntry("alice", "bob", 5, 3, 1, None, BLOB),
        ChannelEntry("alice", "bob", 5, 3, 1, BLOB, None),
        ChannelEntry("alice", "bob", 5, 3, 1, BLOB, Blob(())),
        ChannelEntry("alice", "bob", 3, 3, 3, BLOB, None),
        ChannelEntry("alice", "bob", 3, 3, 3, None, Blob(())),
    ],
)
def test_messages_where_none_can_be_and_none_where_some_must_be_are_an_inconsistent_cut(channel):
    with pytest.raises(InconsistentCut):
        changed(channels=(channel,))


@pytest.mark.acceptance("G14")
@pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        ("alice", "carol"),
        ("carol", "alice"),
        ("alice", "driver:d1"),
        ("driver:", "bob"),
        ("driver:a/b", "bob"),
        ("", "bob"),
    ],
)
def test_a_channel_of_a_stranger_is_refused(sender, receiver):
    with pytest.raises(BadManifest):
        changed(channels=(ChannelEntry(sender, receiver, 0, 0, 0),))


@pytest.mark.acceptance("G14")
def test_an_actor_a_channel_or_a_chunk_listed_twice_is_refused():
    for twice in ({"actors": (ALICE, BOB, BOB)}, {"channels": (CHANNEL, CHANNEL)}, {"chunks": CHUNKS * 2}):
        with pytest.raises(BadManifest, match="twice"):
            changed(**twice)


@pytest.mark.acceptance("G14")
def test_a_born_actor_has_a_state_and_no_other_has():
    for bad in (
        dataclasses.replace(ALICE, state=None),
        dataclasses.replace(ALICE, status="unborn"),
        dataclasses.replace(ALICE, status="asleep"),
    ):
        with pytest.raises(BadManifest):
            changed(actors=(bad, BOB))


def test_the_names_of_those_that_ended_are_kept_and_belong_to_nobody_else():
    gone = changed(ended=("gone", "past"))
    assert decode(encode(gone)) == gone
    for bad in (("gone", "gone"), ("alice",), ("no\nname",)):
        with pytest.raises(BadManifest):
            changed(ended=bad)


def test_who_ended_may_have_sent_what_is_in_flight_but_receives_nothing():
    last = dataclasses.replace(CHANNEL, sender="gone")
    assert changed(ended=("gone",), channels=(last,)).channels == (last,)
    with pytest.raises(BadManifest, match="gone"):
        changed(ended=("gone",), channels=(dataclasses.replace(CHANNEL, receiver="gone"),))


@pytest.mark.acceptance("G10")
@pytest.mark.parametrize(
    "key",
    [
        "../../etc/passwd",
        "/etc/passwd",
        f"chunks/ab/../../{D1}-x",
        f"chunks/ab/{D1}-",
        f"chunks/ab/{D1}-../x",
        f"chunks/ab/{D1}-x/y",
        f"chunks/ab/{D1}-x\0y",
        f"chunks/ab/{D2}-x",
        f"chunks\\ab\\{D1}-x",
        "",
        7,
        None,
    ],
)
def test_a_chunk_key_that_could_leave_the_folder_is_refused(key):
    with pytest.raises(UnsafePath):
        changed(chunks=(dataclasses.replace(CHUNKS[0], key=key), CHUNKS[1]))


@pytest.mark.acceptance("G11")
def test_channels_whose_messages_in_flight_add_up_over_the_limit_are_refused():
    largest = dataclasses.replace(CHANNEL, sent=bounds.COUNTER_MAX, arrived=0, received=0, mailbox=None)
    assert changed(channels=(largest,)).channels == (largest,)
    with pytest.raises(LimitExceeded, match="messages in flight on all channels"):
        changed(channels=(largest, dataclasses.replace(largest, sender="driver:d1")))


def test_a_refusal_is_a_sentence():
    with pytest.raises(BadManifest, match="'a/b' cannot name a system"):
        changed(system="a/b")
    with pytest.raises(BadManifest, match="stats are of the type list, not dict"):
        changed(stats=[])


@pytest.mark.acceptance("G9")
@pytest.mark.parametrize(
    "change",
    [
        {"size": 0},
        {"size": -1},
        {"size": True},
        {"stored_size": 0},
        {"codec": "gzip"},
        {"codec": "raw"},
        {"digest": D1.upper()},
        {"digest": "ab"},
    ],
)
def test_a_chunk_that_cannot_be_is_refused(change):
    with pytest.raises(BadManifest):
        changed(chunks=(dataclasses.replace(CHUNKS[0], **change), CHUNKS[1]))


@pytest.mark.acceptance("G11")
@pytest.mark.parametrize("field", ["size", "stored_size"])
def test_a_chunk_over_the_limit_is_refused(field):
    with pytest.raises(LimitExceeded):
        changed(chunks=(dataclasses.replace(CHUNKS[0], **{field: bounds.CHUNK_BYTES_MAX + 1}), CHUNKS[1]))


@pytest.mark.acceptance("G9")
@pytest.mark.parametrize(
    "span",
    [
        Span("ee" * 32, 0, 1),
        Span(D2, 50, 1),
        Span(D2, 0, 51),
        Span(D2, 0, 0),
        Span(D2, -1, 2),
        Span(D2, 0, True),
    ],
)
def test_a_span_outside_its_chunk_is_refused(span):
    with pytest.raises(BadManifest):
        changed(actors=(dataclasses.replace(ALICE, state=CapturedState("pickle", Blob((span,)))), BOB))


@pytest.mark.acceptance("G11")
def test_a_blob_whose_spans_add_up_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr("rayshot.format.entry_checks.BLOB_BYTES_MAX", 1500)
    with pytest.raises(LimitExceeded):
        changed(channels=(dataclasses.replace(CHANNEL, outbox=Blob((Span(D1, 0, 1000),) * 2)),))


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.acceptance("G12")
def test_options_are_bounded_in_depth_and_number():
    fine = dataclasses.replace(BOB, options={"a": nested(bounds.OPTIONS_DEPTH_MAX - 2)})
    assert decode(encode(changed(actors=(ALICE, fine)))).actors[1] == fine
    for options in ({"a": nested(bounds.OPTIONS_DEPTH_MAX)}, {"a": [0] * 10_001}, {"a": [[0] * 5_000] * 3}):
        with pytest.raises(LimitExceeded):
            changed(actors=(ALICE, dataclasses.replace(BOB, options=options)))


@pytest.mark.parametrize(
    "value", [(1,), {1}, 2**64, -(2**63) - 1, {1: 2}, {b"a": 2}, object(), "\ud800", {"\ud800": 1}]
)
def test_options_that_msgpack_would_change_are_refused(value):
    with pytest.raises(BadManifest):
        changed(actors=(ALICE, dataclasses.replace(BOB, options={"a": value})))


@pytest.mark.acceptance("G2")
@pytest.mark.parametrize(
    "change",
    [
        {"system": "../bank"},
        {"system": 1},
        {"snapshot": SnapshotId(0, "coordinator", 1)},
        {"snapshot": SnapshotId(1, "a/b", 1)},
        {"snapshot": SnapshotId(1, "a", 0)},
        {"position": -1},
        {"position": True},
        {"taken_at": math.nan},
        {"taken_at": math.inf},
        {"taken_at": 1},
        {"mode": ""},
        {"rayshot_version": None},
        {"intent": "../x"},
        {"intent": ""},
        {"label": ""},
        {"label": "\ud800"},
        {"stats": {"a": "b"}},
        {"stats": {"a": math.nan}},
        {"stats": {"a": True}},
        {"stats": {1: 1}},
        {"stats": []},
    ],
)
def test_a_header_that_cannot_be_is_refused(change):
    with pytest.raises(BadManifest):
        changed(**change)


@pytest.mark.acceptance("G12")
@pytest.mark.parametrize("change", [{"label": "x" * 257}, {"mode": "x" * 1025}, {"position": 2**63}])
def test_a_header_over_its_limits_is_refused(change):
    with pytest.raises(LimitExceeded):
        changed(**change)
