"""Kept snapshots that say what was proved of each state: every version reads it, and loads the states."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import rayshot
from rayshot.audit import prove
from rayshot.cli import main
from rayshot.format.entries import PROOF_WORDS
from rayshot.keys.signing import SigningKey
from tests.golden.release import KEY, storages

HERE = Path(__file__).parent
FORMATS = storages("proved")

pytestmark = [pytest.mark.parametrize("kept", FORMATS), pytest.mark.acceptance("S2")]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY)


def test_it_is_proved_and_says_of_each_state_what_was_proved_beside_the_shapes(kept):
    snapshot = rayshot.open(HERE / kept).system("bank").latest()
    assert snapshot.verify([SigningKey(KEY.encode())]).trusted
    assert prove(snapshot, [snapshot]).sound
    actors = {actor.name: actor for actor in snapshot.manifest.actors}
    assert {name: str(actor.proof) for name, actor in actors.items()} == {
        "alice": "plain values",
        "another": "proved",
        "gallery": "not proved: prove=False",
        "till": "proved by another of its class",
    }
    assert {actor.proof.word for actor in actors.values()} == {*PROOF_WORDS}
    assert {name: len(actor.shapes) for name, actor in actors.items()} == {
        "alice": 0, "another": 4, "gallery": 0, "till": 4,
    }  # fmt: skip


@pytest.mark.acceptance("R1")
def test_all_its_states_come_back_in_a_drill(kept):
    result = CliRunner().invoke(main, ["drill", str(HERE / kept), "--json"])
    assert result.exit_code == 0, result.output
    assert {row["word"] for row in json.loads(result.stdout)["actors"]} == {"proved"}
