"""Two ranks that exchange gradients belong to the snapshots of their lead: `python examples/holders/trainer.py`.

The lead is an actor of the system, the ranks are plain Ray actors, which talk beside channels. So to a snapshot the
group is one: a step is one handler of the lead, and between two handlers no gradient is under way. There each rank
copies what it has. The copies are written beside the handlers, a shard from each rank, into the folder of the snapshot.
Run it twice: the second run goes on from the last snapshot of the first.
"""

import hashlib
import json
import logging
import os
import queue
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

import rayshot
from examples.holders.deaths import ask, kill, wait_for

RANKS, SIZE, BATCH, STEPS = 2, 1_000, 8, 100
RATE, FRICTION = 0.05, 0.9
GRADIENT_S_MAX, WATCH_S = 30.0, 0.5

Numbers = NDArray[np.float64]


class Model:
    """A rank's linear model: weights and their momentum, which all ranks have alike, and dice of its own."""

    def __init__(self, rank: int) -> None:
        self.weights: Numbers = np.zeros(SIZE)
        self.momentum: Numbers = np.zeros(SIZE)
        self.dice = np.random.default_rng(rank)
        self.steps = 0

    def gradient(self) -> Numbers:
        """Of the squared error over a batch that it draws."""
        known = self.dice.normal(size=(BATCH, SIZE)) / np.sqrt(SIZE)
        return np.asarray(known.T @ (known @ (self.weights - np.linspace(-1, 1, SIZE))))

    def step(self, *gradients: Numbers) -> None:
        """Go where the gradients of all ranks lead."""
        self.momentum = FRICTION * self.momentum - RATE * sum(gradients)
        self.weights = self.weights + self.momentum
        self.steps += 1

    def digest(self) -> str:
        """Equal for two models only if all their numbers are."""
        return hashlib.blake2b(self.weights.tobytes() + self.momentum.tobytes()).hexdigest()


class Rank:
    """A rank and its part of the checkpoints. It takes a gradient while it waits for it, and writes while it steps."""

    def __init__(self, rank: int) -> None:
        self.rank, self.model = rank, Model(rank)
        self.mail: queue.SimpleQueue[Numbers] = queue.SimpleQueue()
        self.copies: dict[str, dict[str, Any]] = {}

    def meet(self, other: Any) -> None:
        """Get to know the other rank."""
        self.other = other

    def take(self, gradient: Numbers) -> None:
        """Get a gradient from the other rank."""
        self.mail.put(gradient)

    def step(self) -> int:
        """Exchange gradients, and make a step; returns how many it made."""
        gradient = self.model.gradient()
        self.other.take.remote(gradient)
        self.model.step(gradient, self.mail.get(timeout=GRADIENT_S_MAX))
        return self.model.steps

    def fix(self, cut: str) -> None:
        """Copy what its shard has: its half of what all ranks have, and its own dice."""
        half = slice(self.rank * SIZE // RANKS, (self.rank + 1) * SIZE // RANKS)
        self.copies[cut] = {
            "weights": self.model.weights[half].copy(),
            "momentum": self.model.momentum[half].copy(),
            "dice": json.dumps(self.model.dice.bit_generator.state),
            "steps": self.model.steps,
        }

    def write(self, cut: str, folder: str) -> int:
        """Write the shard of that copy; returns its steps."""
        copy = self.copies.pop(cut)
        np.savez(f"{folder}/rank{self.rank}.npz", **copy)
        return int(copy["steps"])

    def load(self, folder: str) -> int:
        """Read the shards; returns the steps."""
        shards = [dict(np.load(f"{folder}/rank{rank}.npz")) for rank in range(RANKS)]
        self.model.weights, self.model.momentum = (
            np.concatenate([shard[name] for shard in shards]) for name in ("weights", "momentum")
        )
        self.model.dice.bit_generator.state = json.loads(str(shards[self.rank]["dice"]))
        self.model.steps = int(shards[self.rank]["steps"])
        return self.model.steps

    def process(self) -> int:
        """The id of its process."""
        return os.getpid()

    def look(self) -> tuple[int, str]:
        """Its steps, and the digest of its model."""
        return self.model.steps, self.model.digest()


@rayshot.actor(on_error="stop")
class Lead:
    """Lets the ranks make their steps. If one of them dies, the handler raises, and all go back."""

    def __init__(self) -> None:
        self.steps = 0
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def train(self, goal: int) -> None:
        """Make one step with all ranks, and come back until there are `goal`."""
        if self.steps < goal:
            done = self._all("step")
            self.steps += 1
            assert done == [self.steps] * RANKS
            rayshot.current().after(0.0, self.train, goal)

    def watch(self) -> None:
        """Look after the ranks: if one died between two goals, nobody else would notice, and no snapshot succeed."""
        self.looks()
        rayshot.current().after(WATCH_S, self.watch)

    def progress(self) -> int:
        """How many steps it let them make."""
        return self.steps

    def looks(self) -> list[tuple[int, str]]:
        """The steps of each rank, and the digest of its model."""
        return self._all("look")

    def processes(self) -> list[int]:
        """The ids of the ranks' processes."""
        return self._all("process")

    def on_snapshot(self, cut: rayshot.ActorCut) -> Callable[[], dict[str, Any]]:
        """Let all ranks copy now. They write their copies while they make further steps."""
        self._all("fix", cut.snapshot)
        write = self._later("write", cut.snapshot, cut.folder)
        return lambda: {"steps": write()}

    def on_restore(self, back: rayshot.ActorCut) -> None:
        """Begin with new ranks, from the shards of this cut."""
        back.verify()
        self._begin()
        loaded = self._all("load", back.folder)
        assert loaded == [self.steps] * RANKS == back.payload["steps"]

    def on_rollback(self) -> None:
        """End the ranks. Where this process died they ended with it."""
        for rank in self.ranks:
            ray.kill(rank)

    def _begin(self) -> None:
        remote: Any = ray.remote(Rank)
        self.ranks = [remote.options(num_cpus=0, max_concurrency=4).remote(rank) for rank in range(RANKS)]
        ray.get([rank.meet.remote(other) for rank, other in zip(self.ranks, reversed(self.ranks), strict=True)])

    def _later(self, method: str, *arguments: Any) -> Callable[[], list[Any]]:
        ranks = self.ranks
        return lambda: ray.get([getattr(rank, method).remote(*arguments) for rank in ranks])

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        return self._later(method, *arguments)()


def undisturbed(steps: int) -> str:
    """The digest of a model to which nothing happens."""
    models = [Model(rank) for rank in range(RANKS)]
    for _ in range(steps):
        gradients = [model.gradient() for model in models]
        for model in models:
            model.step(*gradients)
    return models[0].digest()


def begin(_system: rayshot.System) -> None:
    """Make the lead, where there is no snapshot to go on from."""
    lead = Lead.options(name="lead").remote()
    lead.watch.tell()


def main(storage: str = "./shots") -> None:
    """Train; kill the lead, then a rank; compare with a training to which nothing happened."""
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    system = rayshot.resume(
        "trainer",
        storage=storage,
        begin=begin,
        snapshots=rayshot.SnapshotConfig(interval_s=0.3),
    )
    lead = system.get_actor("lead", Lead)
    goal: int = ask(lead.progress)
    for dies in ("nobody", "the lead", "a rank"):
        if dies == "the lead":
            kill(system, "lead")
        elif dies == "a rank":
            os.kill(ask(lead.processes)[-1], signal.SIGKILL)
        goal += STEPS
        lead.train.tell(goal)
        wait_for(lead, goal)
        print(f"{goal} steps; {dies} was killed before the last {STEPS}")
    outside = system.snapshot().outside["lead"]
    print(f"the snapshot has {outside.payload} and {[file.path for file in outside.files]}")
    same = ask(lead.looks) == [(goal, undisturbed(goal))] * RANKS
    print(f"the same as without the deaths: {same}, after {goal} steps")
    system.shutdown()
    ray.shutdown()
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
