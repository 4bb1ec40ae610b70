"""The shapes of classes in a manifest: one table for each actor, spelled once, and nothing else in their place."""

import dataclasses

import msgpack
import pytest

from rayshot.errors import BadManifest, LimitExceeded
from rayshot.format.entries import Proof, RecordingTimes
from rayshot.format.manifest import decode, encode
from rayshot.format.shape_tables import pack_shapes, unpack_shapes
from rayshot.format.shapes import SHAPES_MAX, Shape
from tests.format.test_format_manifest import ALICE, BOB, BYTES, MANIFEST, raw_with

pytestmark = pytest.mark.acceptance("S10")

LEVEL = Shape("enum", (("LOW", 1), ("HIGH", "two"), ("NONE", None), ("YES", True), ("HALF", 0.5)))
TABLE = {
    "bank.Level": LEVEL,
    "bank.Right": Shape("flag", (("READ", 1),)),
    "bank.Row": Shape("fields", (("who", None),)),
    "bank.Slim": Shape("row", (("who", None), ("n", None))),
    "bank.Wide": Shape("names", ()),
}
OTHER = {"bank.Level": Shape("enum", (("LOW", True),))}
TREE = [
    ["bank.Level", "enum", [["LOW", 1], ["HIGH", "two"], ["NONE", None], ["YES", True], ["HALF", 0.5]]],
    ["bank.Right", "flag", [["READ", 1]]],
    ["bank.Row", "fields", ["who"]],
    ["bank.Slim", "row", ["who", "n"]],
    ["bank.Wide", "names", []],
]


def with_shapes(*tables):
    actors = [
        dataclasses.replace(actor, name=f"a{number}", shapes=table)
        for number, (actor, table) in enumerate(zip((BOB, ALICE, BOB, ALICE), tables, strict=False))
    ]
    return dataclasses.replace(MANIFEST, actors=tuple(actors), channels=())


def rows(manifest):
    return msgpack.unpackb(encode(manifest))["actors"]


def test_a_manifest_with_shapes_reads_back_equal_and_spells_each_table_once():
    manifest = with_shapes({}, TABLE, OTHER, TABLE)
    assert [row[9:] for row in rows(manifest)] == [
        [],
        [{"shapes": TREE}],
        [{"shapes": [["bank.Level", "enum", [["LOW", True]]]]}],
        [{"shapes": 1}],
    ]
    assert decode(encode(manifest)) == manifest
    assert encode(decode(encode(manifest))) == encode(manifest)


def test_they_stand_behind_how_an_actor_recorded_and_beside_its_proof():
    recorded = dataclasses.replace(ALICE, recording=RecordingTimes("n", 0.2, 0.5), proof=Proof("plain"), shapes=TABLE)
    manifest = dataclasses.replace(MANIFEST, actors=(recorded,), channels=())
    assert rows(manifest)[0][9:] == ["n", 0.2, 0.5, {"proof": ["plain", ""], "shapes": TREE}]
    assert decode(encode(manifest)) == manifest


def test_they_travel_packed():
    assert pack_shapes({}, {}) == b""
    assert unpack_shapes(b"") == {}
    assert unpack_shapes(pack_shapes(OTHER, TABLE)) == TABLE
    assert [*unpack_shapes(pack_shapes({"b.B": LEVEL}, {"a.A": LEVEL}))] == ["a.A", "b.B"]


@pytest.mark.parametrize(
    "about",
    [
        {},
        [],
        {"shape": TREE},
        {"shapes": TREE, "zzz": 1},
        {"shapes": []},
        {"shapes": 1},
        {"shapes": -1},
        {"shapes": True},
        {"shapes": {}},
        {"shapes": [TREE[1], TREE[0]]},
        {"shapes": [TREE[0], TREE[0]]},
        {"shapes": [["bank.Level", "enum"]]},
        {"shapes": [["bank.Level", "other", []]]},
        {"shapes": [["", "enum", [["LOW", 1]]]]},
        {"shapes": [[7, "enum", [["LOW", 1]]]]},
        {"shapes": [["bank.Level", "enum", [["LOW", []]]]]},
        {"shapes": [["bank.Level", "enum", [["LOW", b"b"]]]]},
        {"shapes": [["bank.Level", "enum", [["LOW", float("nan")]]]]},
        {"shapes": [["bank.Level", "enum", [["LOW", 1], ["LOW", 2]]]]},
        {"shapes": [["bank.Level", "enum", [["LOW"]]]]},
        {"shapes": [["bank.Row", "fields", [["who", 1]]]]},
        {"shapes": [["bank.Row", "fields", ["who", "who"]]]},
        {"shapes": [["bank.Row", "fields", "who"]]},
    ],
    ids=str,
)
def test_anything_else_in_their_place_is_refused(about):
    alice, bob = msgpack.unpackb(BYTES)["actors"]
    with pytest.raises(BadManifest):
        decode(raw_with(actors=[[*alice, about], bob]))


def test_a_table_is_neither_spelled_twice_nor_taken_from_a_row_that_has_none_of_its_own():
    alice, bob = msgpack.unpackb(BYTES)["actors"]
    for of_alice, of_bob in ((TREE, TREE), (TREE, 1), (TREE, 2)):
        with pytest.raises(BadManifest):
            decode(raw_with(actors=[[*alice, {"shapes": of_alice}], [*bob, {"shapes": of_bob}]]))


def test_they_are_bounded():
    many = {f"bank.C{number:06}": LEVEL for number in range(SHAPES_MAX + 1)}
    with pytest.raises(LimitExceeded):
        with_shapes(many)
    assert len(unpack_shapes(pack_shapes(many))) == SHAPES_MAX
