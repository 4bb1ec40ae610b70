"""Two trainings whose trainer is killed in the middle: plain Ray with a checkpoint, and the same moved to rayshot.

They are the programs `training` of examples/ports. What became of the plain one is written into a file of its own.
"""

import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import ray

import rayshot
from examples.ports.moved import training as moved
from examples.ports.plain import training as plain

COUNT = 240
AHEAD = 8
"""Batches that the generator may be ahead of the trainer."""
ACTORS = 9
SYSTEM = "lost_prompts"
KEPT = rayshot.SnapshotConfig(num_to_keep=2)
"""None is taken that is not asked for. In the end, the one that it went on from is there, and the last one."""
OF_PLAIN = Path(__file__).with_name("plain_training.json")


class Outcome(NamedTuple):
    """The prompts of a training that was killed, in the order of their training.

    Attributes:
        position: How many prompts were handed out, by what it went on from.
        before: Those that were trained by then.
        behind: Those that were trained behind that.
    """

    position: int
    before: list[int]
    behind: list[int]

    def lost(self) -> list[int]:
        """Those that were never trained."""
        return sorted({*range(COUNT)} - {*self.before} - {*self.behind})


def kill_plain(folder: str) -> Outcome:
    """Plain Ray: it goes on from the checkpoint that was written after the last step of the trainer."""
    ppo = plain.PPO.remote(COUNT, AHEAD, folder)
    trainer = ray.get(ppo.__ray_call__.remote(lambda self: self.trainer))
    pid = ray.get(trainer.__ray_call__.remote(lambda _: os.getpid()))
    fitting = ppo.fit.remote()
    while len(_checkpoint(folder)["trained"]) < COUNT // 2:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    try:
        ray.get(fitting)
    except ray.exceptions.RayError:
        known = _checkpoint(folder)
        return Outcome(known["position"], _prompts(known["trained"]), _prompts(plain.run(folder, COUNT, AHEAD)))
    raise AssertionError("it was over before it was killed")


def kill_moved(storage: Path) -> Outcome:
    """On rayshot: it goes on from its last snapshot, by itself."""
    with rayshot.init(SYSTEM, storage=storage, snapshots=KEPT) as system:
        ppo = moved.PPO.remote(COUNT, AHEAD)
        while len(system.status().actors) < ACTORS:  # a snapshot that is asked for while they begin comes late
            time.sleep(0.05)
        system.snapshot()
        fitting = ppo.fit.remote()
        while len(state_of(system.snapshot(), "trainer")["trained"]) < COUNT // 3:
            time.sleep(0.5)
        name = next(name for name in system.status().actors if name.startswith("trainer-"))
        os.kill(system.status().actors[name].pid, signal.SIGKILL)
        found = _prompts(ray.get(fitting))
        begun = rayshot.open(storage).system(SYSTEM).snapshot(system.status().recoveries[0].snapshot)
        known = len(state_of(begun, "trainer")["trained"])
        assert known < COUNT, "it was over before it was killed"
        position = state_of(begun, "prompts")["position"]
        system.snapshot()
    return Outcome(position, found[:known], found[known:])


def make(storage: Path) -> None:
    """Kill both, and keep what became of them."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = kill_plain(folder)
    OF_PLAIN.write_text(json.dumps(outcome._asdict()) + "\n")
    for name, found in (("plain Ray", outcome), (SYSTEM, kill_moved(storage))):
        print(f"{name}: {found.position} prompts handed out, {len(found.before)} trained; {len(found.lost())} lost")


def state_of(snapshot: rayshot.Snapshot, beginning: str) -> Any:
    """The state of the one actor whose name begins so."""
    (state,) = [state for name, state in snapshot.states().items() if name.startswith(f"{beginning}-")]
    return state


def _checkpoint(folder: str) -> Any:
    """What the checkpoint of the plain program knows."""
    try:
        return json.loads(Path(folder, "checkpoint.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):  # there is none yet, or it is being written
        return {"position": 0, "trained": []}


def _prompts(samples: Any) -> list[int]:
    return [sample[0] for sample in samples]
