"""A training whose generator and trainer loop for ever, with engines that are faked: on rayshot, and on plain Ray.

The generator waits for a slot, asks all engines for answers to the next prompts, and puts them into a queue as one
sample. The trainer takes it, gives the slot back, trains, and broadcasts its weights to the engines. A lock keeps the
engines from answering with half of the weights. A sample depends on its number only, so two trainings can be compared.
"""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.queue import Queue as PlainQueue

import rayshot
from benchmarks.cluster import wait_for

ENGINES, SLOTS = 2, 2
STOP = "stop"
Sample = tuple[int, tuple[int, ...]]


def sample(number: int) -> Sample:
    """What the generator makes as its sample of this number, from 1."""
    return number, tuple(_answer(prompt) for prompt in range((number - 1) * ENGINES, number * ENGINES))


def _answer(prompt: int) -> int:
    return prompt * prompt % 8191


class Data:
    """Prompts, each given once."""

    def __init__(self) -> None:
        self.given = 0

    def next_prompts(self, count: int) -> list[int]:
        """The next ones."""
        self.given += count
        return list(range(self.given - count, self.given))


class Engine:
    """Answers prompts after a while."""

    def __init__(self, answer_s: float) -> None:
        self.answer_s, self.answered, self.weights = answer_s, 0, 0

    def generate(self, prompt: int) -> int:
        """An answer."""
        time.sleep(self.answer_s)
        self.answered += 1
        return _answer(prompt)

    def load(self, weights: int) -> None:
        """From now on answer with these."""
        self.weights = weights


class Generator:
    """Makes samples, and notes each of them in a file, beside its state."""

    def __init__(self, data: Any, engines: list[Any], lock: Any, rollouts: Any, slots: Any, notes: Path) -> None:
        self.data, self.engines, self.lock, self.rollouts, self.slots = data, engines, lock, rollouts, slots
        self.made, self.notes = 0, notes

    def make(self, slot: object) -> bool:
        """Make one sample, as there is a slot for it; returns whether to go on."""
        if slot == STOP:
            self.rollouts.put(STOP)
            return False
        with self.lock:
            prompts = ray.get(self.data.next_prompts.remote(len(self.engines)))
            asked = zip(self.engines, prompts, strict=True)
            answers = ray.get([engine.generate.remote(prompt) for engine, prompt in asked])
        self.made += 1
        note(self.notes, self.made)
        self.rollouts.put((self.made, tuple(answers)))
        return True


class Trainer:
    """Trains with samples, and notes each of them in a file, beside its state."""

    def __init__(self, engines: list[Any], lock: Any, rollouts: Any, slots: Any, train_s: float, notes: Path) -> None:
        self.engines, self.lock, self.rollouts, self.slots = engines, lock, rollouts, slots
        self.train_s, self.notes = train_s, notes
        self.trained: list[Sample] = []

    def train(self, rollout: Any) -> bool:
        """Train with one sample; returns whether to go on."""
        if rollout == STOP:
            return False
        number, answers = rollout
        self.slots.put(0)
        time.sleep(self.train_s)
        self.trained.append((number, tuple(answers)))
        note(self.notes, number)
        with self.lock:
            ray.get([engine.load.remote(number) for engine in self.engines])
        return True


class LoopingGenerator(Generator):
    """A generator on rayshot."""

    def fit(self) -> None:
        """Make samples until there is a stop among the slots."""
        for slot in rayshot.loop(self.slots.get):
            if not self.make(slot):
                break


class LoopingTrainer(Trainer):
    """A trainer on rayshot."""

    def fit(self) -> list[Sample]:
        """Train until there is a stop among the samples; returns all of them."""
        for rollout in rayshot.loop(self.rollouts.get):
            if not self.train(rollout):
                break
        return self.trained


class PlainGenerator(Generator):
    """A generator on plain Ray."""

    def fit(self) -> None:
        """As that of a LoopingGenerator."""
        while self.make(self.slots.get()):
            pass


class PlainTrainer(Trainer):
    """A trainer on plain Ray."""

    def fit(self) -> list[Sample]:
        """As that of a LoopingTrainer."""
        while self.train(self.rollouts.get()):
            pass
        return self.trained


class Parent:
    """Begins the two loops, and keeps what comes of them."""

    def __init__(self, generator: Any, trainer: Any) -> None:
        self.generator, self.trainer = generator, trainer
        self.trained: list[Sample] | None = None

    def begin(self) -> None:
        """Let both loop."""
        self.generator.fit.tell()
        self.trainer.fit.remote().then(self.end)

    def end(self, trained: list[Sample]) -> None:
        """The trainer has ended."""
        self.trained = trained

    def read(self) -> list[Sample] | None:
        """All samples that were trained, once the training has ended."""
        return self.trained


class _LockActor:
    """What Ray has no class for."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def acquire(self) -> None:
        await self._lock.acquire()

    async def release(self) -> None:
        self._lock.release()


class PlainLock:
    """A lock on plain Ray, as programs write it."""

    def __init__(self) -> None:
        self.actor = ray.remote(num_cpus=0)(_LockActor).remote()

    def __enter__(self) -> None:
        ray.get(self.actor.acquire.remote())

    def __exit__(self, *_: object) -> None:
        ray.get(self.actor.release.remote())


@dataclass
class Training:
    """One that runs. `made` and `trained` are the files with a line for each sample: see `read_notes`."""

    slots: Any
    trained: Path
    result: Any
    """Called without arguments it returns all samples that were trained, or None while the training goes on."""
    actors: list[Any]

    def await_sample(self, number: int) -> None:
        """Wait until the sample of this number was trained."""
        wait_for(lambda: last_noted(self.trained) >= number or None, f"sample {number}")

    def stop(self) -> list[Sample]:
        """End the loops; returns all samples that were trained."""
        self.slots.put(STOP)
        found: list[Sample] = wait_for(self.result, "the end of the training")
        return found


def begin_ours(folder: Path, body_s: float) -> Training:
    """Begin a training in the system that this program uses."""

    def make(cls: type[Any], name: str, *args: Any) -> Any:
        return rayshot.actor(num_cpus=0)(cls).options(name=name).remote(*args)

    trained = _new(folder)
    engines = [make(Engine, f"engine{k}", body_s) for k in range(ENGINES)]
    slots = rayshot.Queue(SLOTS + 1, actor_options={"name": "slots", "num_cpus": 0})
    rollouts = rayshot.Queue(SLOTS, actor_options={"name": "rollouts", "num_cpus": 0})
    lock = rayshot.Lock(actor_options={"name": "lock", "num_cpus": 0})
    data = make(Data, "data")
    generator = make(LoopingGenerator, "generator", data, engines, lock, rollouts, slots, folder / "made")
    trainer = make(LoopingTrainer, "trainer", engines, lock, rollouts, slots, body_s, trained)
    parent = make(Parent, "parent", generator, trainer)
    parent.begin.tell()
    for _ in range(SLOTS):
        slots.put(0)
    return Training(slots, trained, lambda: ray.get(parent.read.remote()), [])


def begin_plain(folder: Path, body_s: float) -> Training:
    """Begin the same training with plain Ray."""

    def make(cls: type[Any], *args: Any) -> Any:
        return ray.remote(num_cpus=0)(cls).remote(*args)

    trained = _new(folder)
    engines = [make(Engine, body_s) for _ in range(ENGINES)]
    slots = PlainQueue(SLOTS + 1, actor_options={"num_cpus": 0})
    rollouts = PlainQueue(SLOTS, actor_options={"num_cpus": 0})
    lock, data = PlainLock(), make(Data)
    generator = make(PlainGenerator, data, engines, lock, rollouts, slots, folder / "made")
    trainer = make(PlainTrainer, engines, lock, rollouts, slots, body_s, trained)
    generator.fit.remote()
    result = trainer.fit.remote()
    for _ in range(SLOTS):
        slots.put(0)
    actors = [*engines, slots.actor, rollouts.actor, lock.actor, data, generator, trainer]
    return Training(slots, trained, lambda: ray.get(result) if ray.wait([result], timeout=0)[0] else None, actors)


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "trained").touch()
    return folder / "trained"


# Notes: what was done, also by lives that did not come to count -------------------------------------------------------


def note(file: Path, number: int) -> None:
    """Add a line: when, and which sample. The line is there also if the process is killed right behind this."""
    line = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(line, f"{time.monotonic():.6f} {number}\n".encode())
    finally:
        os.close(line)


def read_notes(file: Path) -> list[tuple[float, int]]:
    """All lines: when, and which sample."""
    found = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    return [(float(when), int(number)) for when, number in found]


def last_noted(file: Path) -> int:
    """The number in the last line; 0 if there is none."""
    notes = read_notes(file)
    return notes[-1][1] if notes else 0
