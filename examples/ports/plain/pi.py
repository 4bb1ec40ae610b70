"""Pi by chance: tasks throw darts at a square, and tell an actor how many of them hit the circle inside."""

import random
import time

import ray


@ray.remote(num_cpus=0)
class Progress:
    """Adds up what the tasks report."""

    def __init__(self, tasks):
        self.thrown, self.hit = [0] * tasks, [0] * tasks

    def report(self, task, thrown, hit):
        """So many more darts, of which so many hit."""
        self.thrown[task] += thrown
        self.hit[task] += hit

    def share(self):
        """How many darts were thrown, and how many hit."""
        return sum(self.thrown), sum(self.hit)


@ray.remote(num_cpus=0)
def throw(task, batches, size, progress):
    """Throw that many batches of darts."""
    chance = random.Random(task)
    for _ in range(batches):
        hits = sum(chance.random() ** 2 + chance.random() ** 2 <= 1 for _ in range(size))
        time.sleep(0.02)
        progress.report.remote(task, size, hits)


def run(tasks=3, batches=100, size=500):
    """Pi, and how many darts it was found with."""
    progress = Progress.remote(tasks)
    ray.get(progress.__ray_ready__.remote())
    ray.get([throw.remote(task, batches, size, progress) for task in range(tasks)])
    while (found := ray.get(progress.share.remote()))[0] < tasks * batches * size:
        time.sleep(0.02)
    thrown, hit = found
    return 4 * hit / thrown, thrown


if __name__ == "__main__":
    print(run())
