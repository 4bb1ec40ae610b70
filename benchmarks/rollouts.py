"""A training of two loops around two queues is killed 100 times: each sample is made once and trained once, in order.

Killed with SIGKILL are any actor, the coordinator, or both, at moments that a seed chooses, some while the system still
goes back. In the end the samples that were trained must be those of an undisturbed run, in its order. Beside that: how
much work a kill costs, and how fast the loops are against the same ones on plain Ray.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import ray
from ray.util.queue import Queue as PlainQueue

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.kills import AFTER_S_MAX, COORDINATOR, Kill, Killing, plan
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import Measure, in_turn, paired_ratios, quantile
from benchmarks.training import ENGINES, Sample, Training, begin_ours, begin_plain, read_notes, sample
from rayshot import FailureConfig, SnapshotConfig

BODY_S = 0.1
INTERVAL_S = 2.0
HEALS = FailureConfig(backoff_s=0.0)
EVERY_TWO_SECONDS = SnapshotConfig(interval_s=INTERVAL_S, num_to_keep=3)
VICTIMS = ("generator", "trainer", "data", "engine0", "engine1", "slots", "rollouts", "lock", "parent")
SEED = 1985
MADE_AGAIN, BACK = "work made again at a kill of an actor", "kill until it runs again"
SAMPLES_A_SECOND, PASS = "samples a second", "a pass of a loop over a queue"
NONE_WRONG = Target("<=", 0)
MADE_AGAIN_TARGET, RATE_TARGET, PASS_TARGET = Target("<=", 2.0), Target(">=", 0.95), Target("<=", 1.0)


def wrong_in(trained: Sequence[Sample], undisturbed: Sequence[Sample]) -> dict[str, int]:
    """How many samples are lost, trained more than once, or not what and where they are in an undisturbed run."""
    return {
        "lost": len({*undisturbed} - {*trained}),
        "trained more than once": len(trained) - len({*trained}),
        "otherwise than in an undisturbed run": sum(
            found != wanted for found, wanted in zip(trained, undisturbed, strict=False)
        )
        + abs(len(trained) - len(undisturbed)),
    }


def made_again(notes: Sequence[tuple[float, int]], kills: Sequence[float]) -> list[int]:
    """For each of these moments, how many samples are trained again behind it.

    Asserts that no sample was passed over: each one follows the one before it, or is a sample that was there already.
    """
    again = dict.fromkeys((float("-inf"), *kills), 0)
    for (_, before), (at, now) in pairwise([(0.0, 0), *notes]):
        assert now <= before + 1, f"sample {now} follows sample {before}"
        again[max(kill for kill in again if kill < at)] += before + 1 - now
    return [again[kill] for kill in kills]


def run(*, short: bool) -> Report:
    """The kills, an undisturbed run of as many samples, then both loops in turn with plain Ray's."""
    count, after_s, rounds, seconds, passes = (3, 1.0, 1, 1.0, 50) if short else (100, AFTER_S_MAX, 5, 10.0, 2_000)
    kills = plan(SEED, count, VICTIMS, after_s)
    with fresh_cluster() as folder:
        with rayshot.init("rollouts", storage=folder, failure=HEALS, snapshots=EVERY_TWO_SECONDS) as system:
            killing, trained, notes, wrong = torment(system, folder / "killed", kills)
        wrong |= wrong_in(trained, _undisturbed(folder / "undisturbed", len(trained)))
        rates = in_turn(
            rounds,
            {
                "rayshot": partial(_rate_ours, folder, seconds),
                "ray": partial(_rate, begin_plain, folder / "plain", seconds),
            },
            warm_up=False,
        )
        with rayshot.init("passes", storage=folder, failure=ONE_LIFE):
            pass_ms = in_turn(3 * rounds, _passes(passes))
    of_actors = [at for at, kill in zip(killing.killed_at, kills, strict=True) if kill.victims != (COORDINATOR,)]
    pace_s = median(now - before for (before, _), (now, _) in pairwise(notes))
    again_s = [pace_s * samples for samples in made_again(notes, of_actors)]
    return Report(
        "rollouts",
        f"A training of two loops is killed {count} times: is each sample trained once, in order?",
        {
            "kills": [" and ".join(kill.victims) for kill in kills],
            "seed": SEED,
            "interval_s": INTERVAL_S,
            "body_s": BODY_S,
            "rounds": rounds,
            "seconds": seconds,
            "passes": passes,
        },
        (
            Series(MADE_AGAIN, "s", tuple(again_s)),
            Series(BACK, "s", tuple(killing.back_s)),
            *(Series(f"{SAMPLES_A_SECOND}: {way}", "1/s", tuple(found)) for way, found in rates.items()),
            *(Series(f"{PASS}: {way}", "ms", tuple(found)) for way, found in pass_ms.items()),
        ),
        (
            *(Figure(f"samples {name}", float(found), "", target=NONE_WRONG) for name, found in wrong.items()),
            Figure("samples trained in the end", float(len(trained)), ""),
            Figure("samples trained in all lives", float(len(notes)), ""),
            Figure.median_of(f"{MADE_AGAIN}, p50", again_s, "s", MADE_AGAIN_TARGET),
            Figure(f"{MADE_AGAIN}, the most", max(again_s), "s"),
            Figure.median_of(f"{BACK}, p50", killing.back_s, "s"),
            Figure(f"{BACK}, p99", quantile(killing.back_s, 0.99), "s"),
            Figure.median_of(
                f"{SAMPLES_A_SECOND}: rayshot / ray", paired_ratios(rates["rayshot"], rates["ray"]), "x", RATE_TARGET
            ),
            Figure.median_of(
                f"{PASS}: rayshot / ray", paired_ratios(pass_ms["rayshot"], pass_ms["ray"]), "x", PASS_TARGET
            ),
        ),
    )


# Kills --------------------------------------------------------------------------------------------------------------


def torment(
    system: rayshot.System, folder: Path, kills: Sequence[Kill]
) -> tuple[Killing, list[Sample], list[tuple[float, int]], dict[str, int]]:
    """Train in a system that heals itself, and kill meanwhile.

    Returns what the kills did, what was trained in the end, the notes of all lives, and what is wrong beside that.
    """
    training = begin_ours(folder, BODY_S)
    training.await_sample(2)
    system.snapshot()

    def say() -> str:
        notes = read_notes(training.trained)
        return f"sample {notes[-1][1] if notes else 0}, {len(notes)} trained in all"

    killing = Killing(system, say)
    killing.carry_out(kills)
    trained = training.stop()
    states = system.snapshot().states()
    answered = sum(states[f"engine{k}"]["answered"] for k in range(ENGINES))
    wrong = {
        "made more or less than once": abs(states["generator"]["made"] - len(trained)),
        "asked of an engine more or less than once": abs(answered - ENGINES * len(trained)),
    }
    return killing, trained, read_notes(training.trained), wrong


def _undisturbed(folder: Path, count: int) -> list[Sample]:
    """The first samples of a training on plain Ray that nothing disturbs, and that does not wait."""
    training = begin_plain(folder, 0.0)
    training.await_sample(count)
    trained = training.stop()[:count]
    assert trained == [sample(number) for number in range(1, count + 1)]
    _end(training)
    return trained


# Speed --------------------------------------------------------------------------------------------------------------


def _rate_ours(folder: Path, seconds: float) -> float:
    name = f"undisturbed-{time.monotonic_ns()}"
    with rayshot.init(name, storage=folder, failure=HEALS, snapshots=EVERY_TWO_SECONDS):
        return _rate(begin_ours, folder / name, seconds)


def _rate(begin: Callable[[Path, float], Training], folder: Path, seconds: float) -> float:
    """Samples a second in so many seconds, behind the first ones."""
    training = begin(folder / str(time.monotonic_ns()), BODY_S)
    training.await_sample(5)
    began_at = time.monotonic()
    time.sleep(seconds)
    notes = [at for at, _ in read_notes(training.trained) if at >= began_at]
    training.stop()
    _end(training)
    return (len(notes) - 1) / (notes[-1] - notes[0])


def _end(training: Training) -> None:
    for actor in training.actors:
        ray.kill(actor)


class Consumer:
    """Takes items from a queue that has them all."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.taken = self.count = 0
        self.began = 0.0

    def begin(self, count: int) -> None:
        """The loop that follows makes so many passes."""
        self.taken, self.count, self.began = 0, count, time.perf_counter()

    def take(self) -> bool:
        """An item was taken; returns whether to go on."""
        self.taken += 1
        return self.taken < self.count

    def pass_ms(self) -> float:
        """How long a pass took."""
        return (time.perf_counter() - self.began) / self.count * 1e3


class LoopingConsumer(Consumer):
    """On rayshot."""

    def consume(self) -> float:
        """Returns the milliseconds of a pass."""
        for _ in rayshot.loop(self.queue.get):
            if not self.take():
                break
        return self.pass_ms()


class PlainConsumer(Consumer):
    """On plain Ray."""

    def consume(self) -> float:
        """As that of a LoopingConsumer."""
        while True:
            self.queue.get()
            if not self.take():
                break
        return self.pass_ms()


def _passes(count: int) -> dict[str, Measure]:
    """In the system that this program uses, and beside it: how many milliseconds a pass takes."""
    ours, plain = rayshot.Queue(actor_options={"num_cpus": 0}), PlainQueue(actor_options={"num_cpus": 0})
    looping = rayshot.actor(num_cpus=0)(LoopingConsumer).remote(ours)
    return {
        "rayshot": partial(_pass_ms, looping, ours, count),
        "ray": partial(_pass_ms, ray.remote(num_cpus=0)(PlainConsumer).remote(plain), plain, count),
    }


def _pass_ms(consumer: Any, queue: Any, count: int) -> float:
    queue.put_nowait_batch(list(range(count)))
    ray.get(consumer.begin.remote(count))
    return float(ray.get(consumer.consume.remote()))
