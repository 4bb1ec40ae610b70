"""What a manifest says of what actors fixed outside: payloads and files."""

import dataclasses
import json

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import BadManifest, Damaged, LimitExceeded, UnsafePath
from rayshot.format import bounds
from rayshot.format.entries import Outside, OutsideFile, Proof
from rayshot.format.manifest import decode, encode
from rayshot.format.payloads import pack_payload, read_payload
from rayshot.log.layout import actor_folder
from rayshot.places.store import is_key
from tests.format.test_format_manifest import ALICE, BOB, BYTES, D1, D2, check_any_value_within

pytestmark = pytest.mark.acceptance("G14")

FILES = (OutsideFile(".metadata", 0, D1), OutsideFile("rank 0/ä.pt", 7, D2))
OUTSIDE = Outside('{"commit":"abc","step":3}', FILES, "file:///mnt/ckpt")


def told(outside, **more):
    """A manifest in which alice has this outside."""
    return dataclasses.replace(decode(BYTES), actors=(dataclasses.replace(ALICE, outside=outside, **more), BOB))


def with_files(*files):
    return told(Outside("null", files))


@pytest.mark.parametrize("outside", [OUTSIDE, Outside("null"), Outside("7", FILES)])
def test_a_manifest_that_says_it_reads_back_equal_and_spells_the_same(outside):
    manifest = told(outside, proof=Proof("plain"))
    assert decode(encode(manifest)) == manifest
    assert encode(decode(encode(manifest))) == encode(manifest)


def test_exactly_a_manifest_with_it_has_format_2():
    assert msgpack.unpackb(BYTES)["format"] == decode(BYTES).format == 1
    tree = msgpack.unpackb(encode(told(OUTSIDE)))
    assert next(iter(tree.items())) == ("format", 2)
    assert tree["actors"][0][-1]["outside"][:2] == [OUTSIDE.payload, OUTSIDE.root]
    with pytest.raises(BadManifest, match="says format 1, and its actors are of format 2"):
        decode(msgpack.packb({**tree, "format": 1}))
    with pytest.raises(BadManifest, match="says format 2, and its actors are of format 1"):
        decode(msgpack.packb({**msgpack.unpackb(BYTES), "format": 2}))


def test_only_an_actor_with_a_state_has_it():
    with pytest.raises(BadManifest, match="no state"):
        dataclasses.replace(decode(BYTES), actors=(ALICE, dataclasses.replace(BOB, outside=OUTSIDE)))


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.data())
def test_any_value_in_any_place_of_it_raises_a_typed_error_or_reads_canonically(data):
    tree = msgpack.unpackb(encode(told(OUTSIDE)))
    check_any_value_within(data, tree, tree["actors"][0][-1], "outside")


BAD_PATHS = [
    "",
    ".",
    "..",
    "../x",
    "a/../b",
    "/etc/passwd",
    "a//b",
    "a/",
    "./a",
    "a\\b",
    "a\nb",
    "a\0",
    "\ud800",
    7,
    None,
]


@pytest.mark.acceptance("G10")
@pytest.mark.parametrize(
    "path", [*BAD_PATHS, b"a", ".rayshot-1", "a/.rayshot-1/b", "x" * 256, "ä/" * 140 + "x", "a/" * 32 + "x"]
)
def test_a_path_that_could_leave_the_folder_or_that_no_disk_takes_is_refused(path):
    with pytest.raises(UnsafePath):
        with_files(OutsideFile(path, 1, D1))


@pytest.mark.parametrize("path", [".metadata", "a b", "..a", "[x]*?", "ä", "x" * 255, "a/" * 31 + "x", "model:1.pt"])
def test_a_path_may_have_every_printable_character(path):
    assert with_files(OutsideFile(path, 1, D1))


@pytest.mark.parametrize("paths", [("a", "a"), ("b", "a"), ("a", "a!", "a/b"), ("a/b", "a/b!", "a/b/c/d")])
def test_files_that_come_twice_unsorted_or_as_a_folder_too_are_refused(paths):
    with pytest.raises(BadManifest):
        with_files(*(OutsideFile(path, 1, D1) for path in paths))


@pytest.mark.parametrize(
    "change",
    [{"size": -1}, {"size": True}, {"size": 1 << 51}, {"digest": D1.upper()}, {"digest": "ab"}, {"digest": None}],
)
def test_a_file_that_cannot_be_is_refused(change):
    with pytest.raises(Damaged):
        with_files(dataclasses.replace(FILES[0], **change))


def test_too_many_files_are_refused(monkeypatch):
    monkeypatch.setattr("rayshot.format.entry_checks.OUTSIDE_FILES_MAX", 1)
    with pytest.raises(LimitExceeded):
        told(OUTSIDE)


DEEP = "[" * 100_000
SPELLED_OTHERWISE = ['{"a": 1}', '{"b":1,"a":2}', "1E5", '{"a":1,"a":1}', '"\\u0061"', " 1", "01", '"\\ud800"']


@pytest.mark.parametrize(
    "payload", [*SPELLED_OTHERWISE, "", "x", "NaN", "1e999", DEEP, "[" * 20 + "]" * 20, None, b"1", "\ud800"]
)
def test_a_payload_that_is_not_canonical_json_is_refused(payload):
    with pytest.raises(Damaged):
        told(Outside(payload))


def test_a_payload_has_at_most_64_kib_of_utf_8():
    most = bounds.PAYLOAD_BYTES_MAX - 2
    assert told(Outside(json.dumps("x" * most)))
    with pytest.raises(LimitExceeded):
        told(Outside(json.dumps("x" * (most + 1))))
    with pytest.raises(LimitExceeded):
        told(Outside(json.dumps("ä" * most, ensure_ascii=False)))
    with pytest.raises(ValueError, match="above the limit"):
        pack_payload("x" * (most + 1))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(VALUES)
def test_what_a_hook_gives_comes_back_equal_and_is_a_payload(value):
    text = pack_payload(value)
    assert read_payload(text) == value
    assert told(Outside(text))


@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, float("nan"), float("inf"), object(), {1}, b"x", "\ud800"])
def test_what_json_cannot_hold_or_would_change_is_no_payload(value):
    with pytest.raises(ValueError):
        pack_payload(value)


def test_folders_of_actors_are_parts_of_keys_and_no_two_actors_have_the_same():
    names = [
        "alice",
        "worker:0",
        "worker_3a0",
        "_worker_3a0",
        "ä",
        "..",
        "a/b",
        "a_b",
        "A",
        "x" * 128,
        "é" * 128,
        "è" * 128,
    ]
    folders = [actor_folder(name) for name in names]
    assert all(map(is_key, folders))
    assert len(set(folders)) == len(names)
