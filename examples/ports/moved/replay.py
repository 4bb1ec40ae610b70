"""A replay buffer: workers walk and put each step into it, a learner learns from steps that it draws from it."""

import random

import ray

import rayshot


@rayshot.actor(num_cpus=0)
class Buffer:
    """Keeps steps, and draws some of them by chance."""

    def __init__(self, seed):
        self.steps, self.chance = [], random.Random(seed)

    def add(self, steps):
        """Keep these; returns how many there are."""
        self.steps += steps
        return len(self.steps)

    def sample(self, count):
        """So many steps."""
        return self.chance.choices(self.steps, k=count)

    def read(self):
        """All steps, sorted: workers put them here in any order."""
        return sorted(self.steps)


@rayshot.actor(num_cpus=0)
class Worker:
    """Walks on a ring of ten places, and is paid in the last one."""

    def __init__(self, me, buffer):
        self.me, self.buffer, self.chance = me, buffer, random.Random(me)
        self.place = self.taken = 0

    def walk(self, steps):
        """So many steps; returns how many it has taken."""
        walked = []
        for _ in range(steps):
            move = self.chance.choice((-1, 1))
            following = (self.place + move) % 10
            walked.append((self.me, self.taken, self.place, move, following, int(following == 9)))
            self.place, self.taken = following, self.taken + 1
        ray.get(self.buffer.add.remote(walked))
        return self.taken


@rayshot.actor(num_cpus=0)
class Learner:
    """Learns what a move is worth in each place."""

    def __init__(self, buffer):
        self.buffer, self.learned = buffer, 0
        self.worth = {(place, move): 0.0 for place in range(10) for move in (-1, 1)}

    def learn(self, batch):
        """From so many steps; returns how many it has learned from."""
        for _, _, place, move, following, paid in ray.get(self.buffer.sample.remote(batch)):
            best = max(self.worth[following, -1], self.worth[following, 1])
            self.worth[place, move] += 0.3 * (paid + 0.8 * best * (1 - paid) - self.worth[place, move])
            self.learned += 1
        return self.learned

    def policy(self):
        """The better move in each place."""
        return [max((-1, 1), key=lambda move: self.worth[place, move]) for place in range(10)]


def run(rounds=60, workers=3, seed=7):
    """All steps that were taken, how many were learned from, and the better move in each place."""
    buffer = Buffer.remote(seed)
    team, learner = [Worker.remote(me, buffer) for me in range(workers)], Learner.remote(buffer)
    for _ in range(rounds):
        ray.get([worker.walk.remote(10) for worker in team])
        learned = ray.get(learner.learn.remote(100))
    return ray.get(buffer.read.remote()), learned, ray.get(learner.policy.remote())


if __name__ == "__main__":
    with rayshot.init("replay", storage="./shots", fresh=True):
        print(*run()[1:])
