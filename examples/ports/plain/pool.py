"""A pool of actors: a leader gives each item to a worker that is free, and takes the results as they come."""

import time

import ray
from ray.util import ActorPool


@ray.remote(num_cpus=0)
class Worker:
    """Looks for the longest chain of halving and tripling that begins in a range of numbers."""

    def __init__(self):
        self.looked = 0

    def look(self, begin, end):
        """The number with the longest chain, and its length."""
        time.sleep(0.03)
        self.looked += 1
        return max(((self.length(number), number) for number in range(begin, end)), key=lambda pair: pair[0])

    def length(self, number):
        """How many steps lead from a number to 1."""
        steps = 0
        while number != 1:
            number = 3 * number + 1 if number % 2 else number // 2
            steps += 1
        return steps


@ray.remote(num_cpus=0)
class Leader:
    """Has the workers, and what they found."""

    def __init__(self, workers):
        self.workers = [Worker.remote() for _ in range(workers)]
        self.pool = ActorPool(self.workers)
        self.found = []

    def look(self, ranges):
        """Look in all ranges; returns the longest chain so far, and how many were looked at."""
        look = lambda worker, span: worker.look.remote(*span)  # noqa: E731
        for length, number in self.pool.map_unordered(look, ranges):
            self.found.append((length, number))
        return max(self.found), len(self.found)


def ranges(round_, size):
    """The ten ranges of a round."""
    return [(begin, begin + size) for begin in range(1 + 10 * size * round_, 1 + 10 * size * (round_ + 1), size)]


def run(rounds=12, workers=3, size=40):
    """Look in that many rounds of ten ranges each; returns the longest chain, and how many ranges were looked at."""
    leader = Leader.remote(workers)
    for round_ in range(rounds):
        found = ray.get(leader.look.remote(ranges(round_, size)))
    return found


if __name__ == "__main__":
    print(run())
