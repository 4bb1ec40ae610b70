"""A tree of actors: each makes its children, and asks them for what is below it."""

import ray

import rayshot


@rayshot.actor(num_cpus=0)
class Node:
    """Counts words; a node with children passes each word on to one of them."""

    def __init__(self, depth):
        self.children = [Node.remote(depth - 1) for _ in range(2)] if depth else []
        self.counts = {}

    def add(self, words):
        """Count these words below here."""
        if not self.children:
            for word in words:
                self.counts[word] = self.counts.get(word, 0) + 1
            return len(words)
        left = [word for word in words if len(word) % 2]
        right = [word for word in words if not len(word) % 2]
        return sum(
            ray.get([child.add.remote(share) for child, share in zip(self.children, (left, right), strict=True)])
        )

    def count(self):
        """All words below here, with how often each was added."""
        total = dict(self.counts)
        for counts in ray.get([child.count.remote() for child in self.children]):
            for word, times in counts.items():
                total[word] = total.get(word, 0) + times
        return total


def run(text, rounds, depth=2):
    """Add the words of a text to a new tree, so many times; returns how often each is in it."""
    root, words = Node.remote(depth), text.split()
    for _ in range(rounds):
        assert ray.get(root.add.remote(words)) == len(words)
    return ray.get(root.count.remote())


if __name__ == "__main__":
    with rayshot.init("tree", storage="./shots", fresh=True):
        print(run("the actors of a tree ask their children and the children ask theirs", 20))
