"""What it costs actors that ask all the time that their conversations come to an end before each snapshot."""

import asyncio
import time
from functools import partial
from typing import Any

import ray

import rayshot
from benchmarks.cluster import fresh_cluster
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import Measure, in_turn, paired_ratios
from rayshot import SnapshotConfig

ASKERS = 16
ANSWER_S = 0.1
INTERVAL_S = 10.0
"""The usual one of a system that goes back by itself."""
SHARE_TARGET = Target(">=", 0.95)


class Answerer:
    """Answers after a while."""

    async def answer(self) -> None:
        """Take as long as a conversation shall."""
        await asyncio.sleep(ANSWER_S)


class Asker:
    """Asks again and again."""

    def __init__(self, other: Any) -> None:
        self.other, self.asked, self.asks = other, 0, False

    def begin(self, me: Any) -> None:
        """Begin to ask."""
        self.asks = True
        me.ask.tell(me)

    def ask(self, me: Any) -> None:
        """Ask once, and then again."""
        ray.get(self.other.answer.remote())
        self.asked += 1
        if self.asks:
            me.ask.tell(me)

    def read(self) -> int:
        """How often it has asked."""
        return self.asked

    def end(self) -> None:
        """Ask no more."""
        self.asks = False


def run(*, short: bool) -> Report:
    """Count the conversations of some seconds, with snapshots at the usual interval and without, in turn."""
    rounds, seconds, interval_s = (1, 4.0, 1.0) if short else (3, 3 * INTERVAL_S, INTERVAL_S)
    taken: list[float] = []
    with fresh_cluster() as folder:
        ways: dict[str, Measure] = {
            "with snapshots": partial(_asked, folder, seconds, SnapshotConfig(interval_s=interval_s), taken),
            "without": partial(_asked, folder, seconds, SnapshotConfig(interval_s=None), []),
        }
        found = in_turn(rounds, ways, warm_up=False)
    return Report(
        "concluding",
        f"What do {ASKERS} actors that ask all the time lose by a snapshot each {interval_s:g} s?",
        {"rounds": rounds, "seconds": seconds, "askers": ASKERS, "answer_s": ANSWER_S},
        tuple(Series(way, "1/s", tuple(samples)) for way, samples in found.items()),
        (
            Figure.median_of("conversations a second", found["with snapshots"], "1/s"),
            Figure.median_of("snapshots in a run", taken, ""),
            Figure.median_of(
                "with snapshots / without", paired_ratios(found["with snapshots"], found["without"]), "x", SHARE_TARGET
            ),
        ),
    )


def _asked(folder: Any, seconds: float, snapshot: SnapshotConfig, taken: list[float]) -> float:
    """Conversations in a second."""
    answerer, asker = rayshot.actor(num_cpus=0)(Answerer), rayshot.actor(num_cpus=0)(Asker)
    with rayshot.init(f"concluding-{time.monotonic_ns()}", storage=folder, snapshots=snapshot) as system:
        askers = [asker.remote(answerer.remote()) for _ in range(ASKERS)]
        ray.get([one.begin.remote(one) for one in askers])
        time.sleep(1.0)
        before, began_at = len(system.snapshots()), time.monotonic()
        start = _count(askers)
        time.sleep(seconds)
        asked = _count(askers) - start
        took_s = time.monotonic() - began_at
        taken.append(float(len(system.snapshots()) - before))
        ray.get([one.end.remote() for one in askers])
        return asked / took_s


def _count(askers: list[Any]) -> int:
    return sum(ray.get([one.read.remote() for one in askers]))
