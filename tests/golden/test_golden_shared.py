"""Kept snapshots of arrays that share memory: every version shows them, and they share it when they are loaded."""

from pathlib import Path

import numpy as np
import pytest

import rayshot
from rayshot.keys.signing import SigningKey
from rayshot.simulation import SimulatedSystem
from tests.golden.release import KEY, storages

HERE = Path(__file__).parent
FORMATS = storages("shared")

pytestmark = [pytest.mark.parametrize("kept", FORMATS), pytest.mark.acceptance("S9")]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY)


def payday(kept):
    return rayshot.open(HERE / kept).system("bank").latest()


def test_it_is_proved_and_shown(kept):
    snapshot = payday(kept)
    assert snapshot.verify([SigningKey(KEY.encode())]).trusted
    state = snapshot.state("gallery")
    np.testing.assert_array_equal(state["back"], np.arange(8.0)[::-1])
    np.testing.assert_array_equal(state["left"], np.arange(4.0))
    assert [part.tolist() for part in state["fields"]] == [[0, 0], [0, 0]]
    assert state["words"].tolist() == list(state["raw"]) == [0, 0, 0, 0]


def test_it_is_loaded_with_one_memory(kept):
    gallery = SimulatedSystem.from_snapshot(payday(kept)).actors["gallery"]
    gallery.left[0], gallery.back[0], gallery.words[1] = 7, 8, 9
    assert (gallery.frame[0], gallery.frame[7], gallery.raw[1]) == (7, 8, 9)
    gallery.fields[0][0] = 5
    assert gallery.fields[1][1] == 5
