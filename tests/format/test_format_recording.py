"""What a manifest says of how an actor recorded: where, for how long it stood still, and when its record was there."""

import dataclasses

import msgpack
import pytest

from rayshot.errors import BadManifest
from rayshot.format.entries import RecordingTimes
from rayshot.format.manifest import decode, encode
from tests.format.test_format_manifest import ALICE, BOB, BYTES, raw_with

RECORDED = dataclasses.replace(
    decode(BYTES), actors=(dataclasses.replace(ALICE, recording=RecordingTimes("n", 0.2, 0.5)), BOB)
)


def test_a_manifest_in_which_some_actors_say_it_reads_back_equal_and_spells_the_same():
    assert decode(encode(RECORDED)) == RECORDED
    assert encode(decode(encode(RECORDED))) == encode(RECORDED)


@pytest.mark.acceptance("G14")
@pytest.mark.parametrize(
    "bad", [("", 0.0, 0.0), (7, 0.0, 0.0), ("n", -0.1, 0.0), ("n", 0.0, float("nan")), ("n", 0, 0.0), ("n", 0.0, None)]
)
def test_it_is_a_place_and_two_spans_of_time(bad):
    with pytest.raises(BadManifest):
        dataclasses.replace(RECORDED, actors=(dataclasses.replace(ALICE, recording=RecordingTimes(*bad)), BOB))


@pytest.mark.acceptance("G14")
@pytest.mark.parametrize("width", [10, 11, 13, 14])
def test_it_is_said_whole_or_not_at_all(width):
    alice, bob = msgpack.unpackb(encode(RECORDED))["actors"]
    with pytest.raises(BadManifest, match=r"list of 9|told about"):
        decode(raw_with(actors=[(alice + alice)[:width], bob]))
