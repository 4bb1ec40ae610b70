"""Kills the trainer in the middle of both trainings, and counts the prompts that were never trained.

`python -m examples.ports.lost_prompts` prints what it finds, and draws docs/pictures/lost_prompts.png.
"""

import json
import logging
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import ray

import rayshot
from examples.notebooks.marks import BLUE, GREEN, INK, RED, Dots, Mark, Panel, Picture, Words
from examples.notebooks.rendering import as_png
from examples.ports.moved import training as moved
from examples.ports.plain import training as plain

AHEAD = 8
"""Batches that the generator may be ahead of the trainer."""
ACTORS = 9
ACROSS = 40
PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "lost_prompts.png"


class Outcome(NamedTuple):
    """The prompts of a training that was killed: trained before what it went on from, and behind that."""

    before: list[int]
    behind: list[int]

    def lost(self, count: int) -> list[int]:
        """Those that were never trained."""
        return sorted({*range(count)} - {*self.before} - {*self.behind})

    def twice(self) -> int:
        """How many were trained more often than once."""
        trained = [*self.before, *self.behind]
        return len(trained) - len({*trained})


def kill_plain(count: int, folder: str) -> Outcome:
    """Plain Ray: it goes on from the checkpoint that the trainer wrote after its last step."""
    ppo = plain.PPO.remote(count, AHEAD, folder)
    trainer = ray.get(ppo.__ray_call__.remote(lambda self: self.trainer))
    pid = ray.get(trainer.__ray_call__.remote(lambda _: os.getpid()))
    fitting = ppo.fit.remote()
    while len(before := _trained(folder)) < count // 2:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    try:
        ray.get(fitting)
    except ray.exceptions.RayError:
        before = _trained(folder)
        return Outcome(before, _prompts(plain.run(folder, count, AHEAD)))
    raise AssertionError("it was over before it was killed")


def kill_moved(count: int, folder: str) -> Outcome:
    """On rayshot: it goes on from its last snapshot, by itself. None is taken that is not asked for here."""
    with rayshot.init("lost-prompts", storage=folder, snapshot=rayshot.SnapshotConfig()) as system:
        ppo = moved.PPO.remote(count, AHEAD)
        while len(system.status().actors) < ACTORS:  # a snapshot that is asked for while they begin comes late
            time.sleep(0.05)
        system.snapshot()
        fitting = ppo.fit.remote()
        while len(_state_of_trainer(system.snapshot())["trained"]) < count // 3:
            time.sleep(0.01)
        name = next(name for name in system.status().actors if name.startswith("trainer-"))
        os.kill(system.status().actors[name].pid, signal.SIGKILL)
        found = _prompts(ray.get(fitting))
        begun = rayshot.open(folder).system("lost-prompts").snapshot(system.status().recoveries[0].snapshot)
    known = len(_state_of_trainer(begun)["trained"])
    assert known < count, "it was over before it was killed"
    return Outcome(found[:known], found[known:])


def draw(outcomes: dict[str, Outcome], count: int) -> Picture:
    """A square for each prompt, row by row, for each of these programs."""
    rows = -(-count // ACROSS)
    panels = []
    for name, outcome in outcomes.items():
        lost = outcome.lost(count)
        kinds = [
            (outcome.before, BLUE, True, "trained before the kill"),
            (outcome.behind, GREEN, True, "trained after it"),
            (lost, RED, False, "never trained"),
        ]
        marks: list[Mark] = [Words((0, -1.2), name, INK, "left", 13)]
        for place, (prompts, colour, filled, word) in enumerate(kinds):
            squares = [(prompt % ACROSS + 0.5, prompt // ACROSS + 0.5) for prompt in prompts]
            if squares:
                marks.append(Dots(squares, colour, 9, "square", filled, [f"prompt {one}: {word}" for one in prompts]))
            x = 13 * place
            marks.append(Dots([(x + 0.5, rows + 1.2)], colour, 9, "square", filled))
            marks.append(Words((x + 1.3, rows + 1.2), f"{len(prompts)} {word}", INK, "left", 11))
        panels.append(Panel(marks, (-0.5, ACROSS + 0.5), (rows + 2, -2)))
    return Picture(panels, 1, 950, 90 + 30 * len(panels) * (rows + 4))


def _trained(folder: str) -> list[int]:
    """What the checkpoint of the plain program knows."""
    try:
        return _prompts(json.loads(Path(folder, "checkpoint.json").read_text())["trained"])
    except (FileNotFoundError, json.JSONDecodeError):  # there is none yet, or it is being written
        return []


def _state_of_trainer(snapshot):
    states = snapshot.states()
    return next((state for name, state in states.items() if name.startswith("trainer-")), {"trained": []})


def _prompts(samples) -> list[int]:
    return [sample[0] for sample in samples]


def main(count: int = 240) -> None:
    """Kill both, and say what was lost."""
    ray.init("local", num_cpus=16, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        outcomes = {
            "plain Ray, on from its last checkpoint": kill_plain(count, first),
            "rayshot, on from its last snapshot": kill_moved(count, second),
        }
    ray.shutdown()
    for name, outcome in outcomes.items():
        print(f"{name}: {len(outcome.lost(count))} of {count} prompts lost, {outcome.twice()} trained twice")
    PICTURE.write_bytes(as_png(draw(outcomes, count)))


if __name__ == "__main__":
    main()
