"""Run time of a fixed job over the interval between snapshots, one line per mode: figure 5 of arXiv 1506.08603.

The job counts words: sources send them to mappers, which send each to the counter that owns it. All channels are
declared, so that aligned snapshots know them; a source paces itself by a message to itself, which leads back.
"""

import time
from typing import Any

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster, settle, wait_for
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios

WIDTH = 2
"""Of each: sources, mappers, counters."""
WORDS = 1_000
BURST = 250
"""Words that a source sends in one handler."""
NONE = "no snapshots"
MODES: dict[str, dict[str, Any]] = {
    "stop-the-world": {"mode": "stop-the-world"},
    "aligned": {"mode": "aligned"},
    "aligned, time-out": {"mode": "aligned", "alignment_timeout_s": 0.02},
    "chandy-lamport": {"mode": "chandy-lamport"},
}
TARGET = Target("<=", 1.05)
"""For Chandy-Lamport at an interval of a second: what `snapshot` allows as throughput lost."""
TARGET_INTERVAL_S = 1.0
POLL_S = 0.1


class Source:
    """Sends `total` words, then says to all mappers that it is done."""

    def run(self, own: rayshot.ActorHandle, mappers: list[rayshot.ActorHandle], total: int) -> None:
        """Begin."""
        self.own, self.mappers, self.left = own, mappers, total
        self.began_at = time.monotonic()
        own.emit.tell()

    def emit(self) -> None:
        """Send a burst."""
        for _ in range(min(BURST, self.left)):
            self.left -= 1
            self.mappers[self.left % len(self.mappers)].take.tell(self.left % WORDS)
        if self.left:
            self.own.emit.tell()
        else:
            for mapper in self.mappers:
                mapper.end.tell()

    def began(self) -> float:
        """When it began, by the machine's monotonic clock."""
        return self.began_at


class Mapper:
    """Makes a word of each number, for the counter that owns it."""

    def meet(self, counters: list[rayshot.ActorHandle]) -> None:
        """Get to know the counters."""
        self.counters = counters

    def take(self, number: int) -> None:
        """Process one number."""
        self.counters[number % len(self.counters)].add.tell(f"word-{number}")

    def end(self) -> None:
        """A source is done."""
        for counter in self.counters:
            counter.end.tell()


class Counter:
    """Counts each word; the job is over for it when all sources have ended by way of all mappers."""

    def start(self, ends: int) -> None:
        """Begin anew."""
        self.counts: dict[str, int] = {}
        self.ends = ends
        self.ended_at: float | None = None

    def add(self, word: str) -> None:
        """Count one."""
        self.counts[word] = self.counts.get(word, 0) + 1

    def end(self) -> None:
        """A source is done, by way of one mapper."""
        self.ends -= 1
        if not self.ends:
            self.ended_at = time.monotonic()

    def result(self) -> tuple[float, int] | None:
        """When the last word was counted, and how many were; None while there are more."""
        return None if self.ended_at is None else (self.ended_at, sum(self.counts.values()))


class Job:
    """The actors of the job, with their channels declared."""

    def __init__(self, system: rayshot.System) -> None:
        self.sources, self.mappers, self.counters = (
            [rayshot.actor(kind).options(name=f"{kind.__name__}-{index}").remote() for index in range(WIDTH)]
            for kind in (Source, Mapper, Counter)
        )
        ray.get([mapper.meet.remote(self.counters) for mapper in self.mappers])
        for sources, receivers in ((self.sources, self.mappers), (self.mappers, self.counters)):
            for source in sources:
                for receiver in receivers:
                    system.connect(source, receiver)

    def run_s(self, words: int) -> float:
        """Run it once; returns the seconds from the first word sent to the last one counted."""
        ray.get([counter.start.remote(WIDTH * WIDTH) for counter in self.counters])
        for source in self.sources:
            source.run.tell(source, self.mappers, words // WIDTH)
        results = wait_for(self._results, "the end of the job", poll_s=POLL_S)
        began_at: float = min(ray.get([source.began.remote() for source in self.sources]))
        counted = sum(count for _, count in results)
        assert counted == words // WIDTH * WIDTH, f"{counted} of {words} words were counted"
        return max(ended_at for ended_at, _ in results) - began_at

    def _results(self) -> list[tuple[float, int]] | None:
        found = ray.get([counter.result.remote() for counter in self.counters])
        return None if None in found else found


def run(*, short: bool) -> Report:
    """Run the job in turn, without snapshots and in each mode, for each interval."""
    rounds, words, intervals = (
        (1, 2_000, (0.1, TARGET_INTERVAL_S)) if short else (2, 500_000, (0.05, 0.1, 0.25, 0.5, TARGET_INTERVAL_S, 3.0))
    )
    seconds: dict[tuple[str, float], list[float]] = {}
    taken: dict[tuple[str, float], list[float]] = {}
    with fresh_cluster() as folder, rayshot.init("interval", storage=folder, failure=ONE_LIFE) as system:
        job = Job(system)
        job.run_s(words)  # once to warm up
        for _ in range(rounds):
            for interval_s in intervals:
                for name, mode in {NONE: None, **MODES}.items():
                    if mode is not None:
                        system.configure(rayshot.SnapshotConfig(interval_s=interval_s, **mode))
                    before = len(system.snapshots())
                    seconds.setdefault((name, interval_s), []).append(job.run_s(words))
                    settle(system)
                    taken.setdefault((name, interval_s), []).append(float(len(system.snapshots()) - before))
    return _report(seconds, taken, {"rounds": rounds, "words": words, "intervals_s": list(intervals)})


def _report(
    seconds: dict[tuple[str, float], list[float]], taken: dict[tuple[str, float], list[float]], settings: dict[str, Any]
) -> Report:
    without = [one for (name, _), samples in seconds.items() if name == NONE for one in samples]
    shortest = min(settings["intervals_s"])
    ratios = {
        (name, interval_s): paired_ratios(samples, seconds[NONE, interval_s])
        for (name, interval_s), samples in seconds.items()
        if name != NONE
    }
    return Report(
        "interval",
        "How long does a fixed job run when snapshots are taken at an interval?",
        settings,
        (
            *(Series(f"{name}, {every(one)}: run time", "s", tuple(seconds[name, one])) for name, one in seconds),
            *(Series(f"{name}, {every(one)}: snapshots", "", tuple(taken[name, one])) for name, one in ratios),
        ),
        (
            Figure.median_of(NONE, without, "s"),
            *(
                Figure.median_of(f"{name}, {every(one)}", samples, "x", _target(name, one))
                for (name, one), samples in sorted(ratios.items())
            ),
            *(
                Figure.median_of(f"{name}, {every(shortest)}: snapshots taken", taken[name, shortest], "")
                for name in sorted(MODES)
            ),
        ),
    )


def _target(name: str, interval_s: float) -> Target | None:
    return TARGET if (name, interval_s) == ("chandy-lamport", TARGET_INTERVAL_S) else None


def every(interval_s: float) -> str:
    """An interval in words."""
    return f"every {interval_s:g} s"
