"""Values of classes that changed, in states and in messages in flight, in a system that is restored."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import ray

from rayshot.errors import CodeMismatch
from tests.runtime.healed import kill, until_it_runs
from tests.runtime.shaped import TODAY, Desk, LevelWithoutHigh
from tests.runtime.test_runtime_restore import restore
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("S10")]

HELD = [
    "<LevelOfToday.HIGH: 3>",
    "PriceOfToday(currency='USD', cents=500, tax=0)",
    "RowOfToday(n=3, who='w')",
    "<enum 'LevelOfToday'>",
]
SENT = [
    "'beside'",
    "<LevelOfToday.LOW: 2>",
    "PriceOfToday(currency='EUR', cents=1, tax=0)",
    "RowOfToday(n=4, who='x')",
]
NAMES = {f"tests.runtime.shaped.{name}": today for name, today in TODAY.items()}


def snapshot_with_a_message_in_flight(system, one, other, gate):
    """The receiver handles another message until it has learned of the snapshot."""
    other.pause.tell(gate)
    one.send.tell(other, "beside")
    ray.get(one.read.remote())
    host = ray.get(system._identity.coordinator.actors.remote())["other"]
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(system.snapshot)
        try:
            eventually(lambda: ray.get(host.__ray_call__.remote(lambda self: len(self._process.recording.captures))))
        finally:
            gate.touch()
        return taken.result(60)


def test_they_are_what_they_were_by_name_also_when_an_actor_dies_before_the_first_snapshot(new_system, tmp_path):
    system = new_system()
    one, other = (Desk.options(name=name).remote() for name in ("one", "other"))
    ray.get([one.read.remote(), other.read.remote()])
    snapshot = snapshot_with_a_message_in_flight(system, one, other, tmp_path / "gate")
    assert snapshot.channel("one", "other").messages
    with pytest.raises(
        CodeMismatch, match=r"has one with HIGH in .*Level\(LOW=1, HIGH=2\), the program has .*\(LOW=1, TOP=7"
    ):
        restore(new_system.made, system, rename_classes={"tests.runtime.shaped.Level": LevelWithoutHigh})
    restored = restore(new_system.made, system, rename_classes=NAMES)
    other = restored.get_actor("other")
    assert eventually(lambda: ray.get(other.read.remote()) == HELD + SENT)
    kill(restored, "one", "other")
    until_it_runs(restored, life=3)
    one = restored.get_actor("one")
    assert ray.get(one.read.remote()) == HELD
    assert eventually(lambda: ray.get(other.read.remote()) == HELD + SENT)
