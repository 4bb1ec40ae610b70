"""What a manifest says of an actor beside its record: whether its state was loaded for trial."""

import dataclasses

import msgpack
import pytest

from rayshot.errors import BadManifest
from rayshot.format.entries import Proof, RecordingTimes
from rayshot.format.manifest import decode, encode
from tests.format.test_format_manifest import ALICE, BOB, BYTES, raw_with

pytestmark = pytest.mark.acceptance("G14", "S2")


def told(**more):
    """A manifest that says more of alice."""
    return dataclasses.replace(decode(BYTES), actors=(dataclasses.replace(ALICE, **more), BOB))


@pytest.mark.parametrize("recording", [None, RecordingTimes("n", 0.2, 0.5)])
@pytest.mark.parametrize("proof", [Proof("proved"), Proof("alike"), Proof("plain"), Proof("unproved", "too large")])
def test_a_manifest_that_says_it_reads_back_equal_and_spells_the_same(recording, proof):
    manifest = told(recording=recording, proof=proof)
    assert decode(encode(manifest)) == manifest
    assert len(msgpack.unpackb(encode(manifest))["actors"][0]) == (10 if recording is None else 13)


@pytest.mark.parametrize("bad", [("refuted", ""), ("proved", "why"), ("unproved", ""), ("unproved", 7), ("", "")])
def test_it_is_one_of_four_words_and_only_what_is_not_proved_has_a_reason(bad):
    with pytest.raises(BadManifest):
        told(proof=Proof(*bad))


def test_only_an_actor_with_a_state_has_it():
    with pytest.raises(BadManifest, match="no state"):
        dataclasses.replace(decode(BYTES), actors=(ALICE, dataclasses.replace(BOB, proof=Proof("proved"))))


@pytest.mark.parametrize(
    "about", [{}, {"prove": ["proved", ""]}, {"proof": ["proved"]}, {"proof": "proved"}, {"proof": [1, ""]}, [], None]
)
def test_the_column_is_a_map_of_known_keys_that_is_not_empty(about):
    alice, bob = msgpack.unpackb(encode(told(proof=Proof("proved"))))["actors"]
    with pytest.raises(BadManifest):
        decode(raw_with(actors=[[*alice[:-1], about], bob]))


def test_a_manifest_counts_its_proofs_by_word():
    assert told(proof=Proof("plain")).proofs == {"plain": 1}
    assert not decode(BYTES).proofs
