"""Asynchronous reinforcement learning: one actor generates while another one trains on what was generated before."""

import time

import ray

import rayshot


@rayshot.actor(num_cpus=0)
class Prompts:
    """The data: hands out each prompt once."""

    def __init__(self, count):
        self.count, self.position = count, 0

    def next_batch(self, size):
        """The next prompts; none at the end."""
        first, self.position = self.position, min(self.count, self.position + size)
        return list(range(first, self.position))


@rayshot.actor(num_cpus=0)
class Engine:
    """Stands for a model that generates: its answer follows from the prompt and the version of its weights."""

    def __init__(self):
        self.version, self.generated = 0, []

    def load(self, version):
        """Take new weights."""
        self.version = version

    def generate(self, prompt):
        """A sample: the prompt, the version, and the answer."""
        time.sleep(0.02)
        self.generated.append(prompt)
        return prompt, self.version, 1_000 * self.version + prompt


@rayshot.actor(num_cpus=0)
class Generator:
    """Generates as long as it finds a slot: so it is ahead of the trainer by a few batches, and no more."""

    def __init__(self, prompts, engines, lock, rollouts, slots):
        self.prompts, self.engines, self.lock = prompts, engines, lock
        self.rollouts, self.slots = rollouts, slots

    def fit(self):
        """Generate until there are no more prompts."""
        for _ in rayshot.loop(self.slots.get):
            batch = ray.get(self.prompts.next_batch.remote(len(self.engines)))
            if not batch:
                break
            self.lock.acquire()
            samples = [engine.generate.remote(prompt) for engine, prompt in zip(self.engines, batch, strict=False)]
            samples = ray.get(samples)
            self.lock.release()
            self.rollouts.put(samples)
        self.rollouts.put(None)


@rayshot.actor(num_cpus=0)
class Trainer:
    """Trains on each batch, and gives the engines the new weights."""

    def __init__(self, prompts, engines, lock, rollouts, slots):
        self.prompts, self.engines, self.lock = prompts, engines, lock
        self.rollouts, self.slots = rollouts, slots
        self.trained, self.version = [], 0

    def fit(self):
        """Train until nothing more comes; returns the samples in the order in which they were trained."""
        for samples in rayshot.loop(self.rollouts.get):
            if samples is None:
                break
            time.sleep(0.02)
            self.trained += samples
            self.version += 1
            self.slots.put(self.version)
            self.broadcast()
        return self.trained

    def broadcast(self):
        """Load the new weights into all engines."""
        self.lock.acquire()
        ray.get([engine.load.remote(self.version) for engine in self.engines])
        self.lock.release()


@rayshot.actor(num_cpus=0)
class PPO:
    """Makes all others, and starts the two that never return."""

    def __init__(self, count, ahead):
        rollouts, slots = (rayshot.Queue(actor_options={"num_cpus": 0}) for _ in range(2))
        for _ in range(ahead):
            slots.put(0)
        prompts, engines = Prompts.remote(count), [Engine.remote() for _ in range(2)]
        shared = prompts, engines, rayshot.Lock({"num_cpus": 0}), rollouts, slots
        self.generator = Generator.remote(*shared)
        self.trainer = Trainer.remote(*shared)

    def fit(self):
        """Generate and train; returns what the trainer returns."""
        self.generator.fit.remote()
        return self.trainer.fit.remote()


def run(count=80, ahead=2):
    """Train on so many prompts; returns the samples in the order of their training: prompt, version, answer."""
    return ray.get(PPO.remote(count, ahead).fit.remote())


if __name__ == "__main__":
    with rayshot.init("training", storage="./shots", fresh=True):
        print(run())
