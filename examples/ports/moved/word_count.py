"""Word count: mappers read articles as they are asked for, and each reducer gathers its words from all mappers."""

import collections
import zlib

import ray

import rayshot


@rayshot.actor(num_cpus=0)
class Mapper:
    """Reads articles, and keeps their counts until all reducers have them."""

    def __init__(self, articles):
        self.articles, self.counts = articles, {}

    def count(self, number, reducer, reducers):
        """What words of that reducer are in an article, and how often."""
        if number not in self.counts:
            words = self.articles[number % len(self.articles)].split()
            self.counts = {number: collections.Counter(words)}
        return [pair for pair in self.counts[number].items() if zlib.crc32(pair[0].encode()) % reducers == reducer]


@rayshot.actor(num_cpus=0)
class Reducer:
    """Adds up its words, article by article."""

    def __init__(self, me, reducers, mappers):
        self.me, self.reducers, self.mappers = me, reducers, mappers
        self.total = collections.Counter()

    def next(self, number):
        """Take the words of one article of each mapper; returns the most frequent word so far."""
        asked = [mapper.count.remote(number, self.me, self.reducers) for mapper in self.mappers]
        for pairs in ray.get(asked):
            for word, times in pairs:
                self.total[word] += times
        return self.total.most_common(1)

    def read(self):
        """How often each word came."""
        return dict(self.total)


def run(articles, rounds=60, mappers=2, reducers=2):
    """Read so many articles with each mapper; returns how often each word came."""
    team = [Mapper.remote(articles[me::mappers]) for me in range(mappers)]
    gathering = [Reducer.remote(me, reducers, team) for me in range(reducers)]
    for number in range(rounds):
        ray.get([reducer.next.remote(number) for reducer in gathering])
    return {
        word: times for counts in ray.get([one.read.remote() for one in gathering]) for word, times in counts.items()
    }


if __name__ == "__main__":
    with rayshot.init("word-count", storage="./shots", fresh=True):
        print(run(["to be or not to be", "that is the question", "whether it is nobler"]))
