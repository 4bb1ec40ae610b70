"""Contextual bandits: simulators of users ask a policy what to show, and tell it whether the user clicked."""

import math
import random

import ray


@ray.remote(num_cpus=0)
class Policy:
    """Shows to each kind of user what promises most: a high rate of clicks, or one that is not known well."""

    def __init__(self, arms):
        self.arms, self.shown, self.clicked = arms, {}, {}

    def choose(self, kind):
        """What to show to this kind of user."""
        shown = [self.shown.get((kind, arm), 0) for arm in range(self.arms)]
        if 0 in shown:
            return shown.index(0)
        return max(range(self.arms), key=lambda arm: self.promise(kind, arm, sum(shown)))

    def promise(self, kind, arm, total):
        """The rate of clicks, plus more where it is known less."""
        shown = self.shown[kind, arm]
        return self.clicked.get((kind, arm), 0) / shown + math.sqrt(2 * math.log(total) / shown)

    def learn(self, kind, arm, clicked):
        """It was shown, and clicked or not."""
        self.shown[kind, arm] = self.shown.get((kind, arm), 0) + 1
        self.clicked[kind, arm] = self.clicked.get((kind, arm), 0) + clicked

    def read(self):
        """How often each was shown to each kind of user, and clicked."""
        return {key: (shown, self.clicked[key]) for key, shown in sorted(self.shown.items())}


@ray.remote(num_cpus=0)
class Simulator:
    """Users of one kind, who like one thing more than the others."""

    def __init__(self, kind, policy):
        self.kind, self.policy = kind, policy
        self.chance, self.clicks = random.Random(kind), 0

    def simulate(self, users):
        """So many users come; returns how many have clicked in all."""
        for _ in range(users):
            arm = ray.get(self.policy.choose.remote(self.kind))
            clicked = int(self.chance.random() < (0.8 if arm == self.kind else 0.2))
            ray.get(self.policy.learn.remote(self.kind, arm, clicked))
            self.clicks += clicked
        return self.clicks


def run(rounds=30, kinds=3):
    """The clicks of each kind of user, and what the policy knows."""
    policy = Policy.remote(kinds)
    simulators = [Simulator.remote(kind, policy) for kind in range(kinds)]
    for _ in range(rounds):
        clicks = ray.get([simulator.simulate.remote(8) for simulator in simulators])
    return clicks, ray.get(policy.read.remote())


if __name__ == "__main__":
    print(*run())
