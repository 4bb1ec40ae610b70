"""A parameter server: workers pull the weights, and push what they have learned from their share of the points."""

import ray

import rayshot


@rayshot.actor(num_cpus=0)
class Server:
    """Holds the weights of a straight line."""

    def __init__(self, rate):
        self.rate, self.weights, self.pushed = rate, (0.0, 0.0), 0

    def pull(self):
        """The weights."""
        return self.weights

    def push(self, gradient):
        """Go a step against the gradient; returns how many steps that makes."""
        self.weights = tuple(weight - self.rate * part for weight, part in zip(self.weights, gradient, strict=True))
        self.pushed += 1
        return self.pushed


@rayshot.actor(num_cpus=0)
class Worker:
    """Learns from its share of the points. It asks the server as it begins, so as to begin where the others are."""

    def __init__(self, server, points):
        self.server, self.points, self.steps = server, points, 0
        self.weights = ray.get(server.pull.remote())

    def train(self, steps):
        """So many times: pull, compute, push. Returns the mean squared error of the last weights."""
        for _ in range(steps):
            self.weights = ray.get(self.server.pull.remote())
            ray.get(self.server.push.remote(self.gradient()))
            self.steps += 1
        return sum(error**2 for error in self.errors()) / len(self.points)

    def errors(self):
        """By how much the line misses each point."""
        slope, start = self.weights
        return [slope * x + start - y for x, y in self.points]

    def gradient(self):
        """In which direction the error grows."""
        errors = self.errors()
        by_slope = sum(error * x for error, (x, _) in zip(errors, self.points, strict=True))
        return 2 * by_slope / len(errors), 2 * sum(errors) / len(errors)


def run(points, rounds, workers=3):
    """The weights after all workers have trained for five steps in each round, and how many the server counts."""
    server = Server.remote(0.05)
    team = [Worker.remote(server, points[k::workers]) for k in range(workers)]
    for _ in range(rounds):
        ray.get([worker.train.remote(5) for worker in team])
    return ray.get(server.pull.remote()), ray.get(server.push.remote((0.0, 0.0))) - 1


if __name__ == "__main__":
    with rayshot.init("parameter-server", storage="./shots", fresh=True):
        print(run([(x / 10, 3 * x / 10 - 1) for x in range(-10, 11)], 20))
