"""Kept snapshots of a loop and of handlers that wait: every version proves them, and goes on where they waited."""

import shutil
from pathlib import Path

import pytest
import ray
from click.testing import CliRunner

import rayshot
from rayshot.audit import prove
from rayshot.cli import main
from rayshot.errors import ActorExited
from rayshot.keys.signing import SigningKey
from tests.golden.release import KEY, storages

HERE = Path(__file__).parent

pytestmark = pytest.mark.parametrize("kept", storages("waiting"))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY)


def test_it_is_proved_with_the_passes_of_the_loop_and_says_what_waits(kept):
    snapshot = rayshot.open(HERE / kept).system("bank").latest()
    assert snapshot.verify([SigningKey(KEY.encode())]).trusted
    assert prove(snapshot, [snapshot]).sound
    assert snapshot.state("worker")["taken"] == [1, 2, 3]
    assert len(snapshot.recorded("worker").questions) == 1  # to the queue, at the top of the next pass
    ((_, messages),) = [(channel, state.messages) for channel, state in snapshot.channels.items() if state.messages]
    assert [(m.kind, m.method) for m in messages] == [("tell", "deposit"), ("end", "")]


@pytest.mark.acceptance("R1")
def test_all_its_states_come_back_in_a_drill(kept):
    result = CliRunner().invoke(main, ["drill", str(HERE / kept)])
    assert result.exit_code == 0, result.output
    assert "5 of 5 actors came back" in result.stdout


@pytest.mark.ray
def test_on_ray_the_loop_takes_the_next_item_and_those_who_waited_go_on(cluster, kept, tmp_path):
    shutil.copytree(HERE / kept, tmp_path / "shots")
    with rayshot.restore(storage=tmp_path / "shots") as system:
        queue, worker, gate, keeper = (system.get_actor(name) for name in ("queue", "worker", "gate", "keeper"))
        ray.get([queue.put.remote(item) for item in (4, None)])
        assert ray.get(worker.look.remote()) == [1, 2, 3, 4]
        ray.get(gate.open.remote())
        while ray.get(gate.came.remote()) != ["bob", "carol"]:
            pass
        with pytest.raises(ActorExited):
            ray.get(keeper.read.remote())
