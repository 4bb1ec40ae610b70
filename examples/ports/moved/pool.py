"""A pool of actors: a leader gives each item to a worker that is free, and takes the results as they come."""

import time

import ray

import rayshot


@rayshot.actor(num_cpus=0)
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


@rayshot.actor(num_cpus=0)
class Leader:
    """Has the workers, and what they found."""

    def __init__(self, workers):
        self.workers = [Worker.remote() for _ in range(workers)]
        self.found = []

    def look(self, ranges):
        """Look in all ranges; returns the longest chain so far, and how many were looked at."""
        idle, busy = [*self.workers], {}
        while ranges or busy:
            while ranges and idle:
                worker = idle.pop()
                busy[worker.look.remote(*ranges.pop(0))] = worker
            (ready,), _ = rayshot.wait([*busy])
            idle.append(busy.pop(ready))
            self.found.append(ray.get(ready))
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
    with rayshot.init("pool", storage="./shots", fresh=True):
        print(run())
