"""What large objects cost that go to actors, by a reference and by value; against plain Ray."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import in_turn, paired_ratios

READERS = 4
BY_REFERENCE_MB, BY_VALUE_MB = 300, 100
BY_REFERENCE_TARGET = Target("<=", 1.2)
BY_REFERENCE = f"{BY_REFERENCE_MB} MB by one reference to {READERS} actors"
BY_VALUE = f"{BY_VALUE_MB} MB by value to an actor"


class Reader:
    """Looks at what it is given."""

    def look(self, array: Any) -> int:
        """The last element."""
        return int(array[-1])


def run(*, short: bool) -> Report:
    """Measure in turn: one object that is put once for several actors, and a large argument without a reference."""
    rounds, scale = (1, 10) if short else (15, 1)
    shared = np.ones((BY_REFERENCE_MB << 20) // scale, np.uint8)
    given = np.ones((BY_VALUE_MB << 20) // scale, np.uint8)
    with fresh_cluster() as folder, rayshot.init("references", storage=folder, failure=ONE_LIFE):
        ways = {"rayshot": rayshot.actor(num_cpus=0)(Reader), "ray": ray.remote(num_cpus=0)(Reader)}
        readers = {way: [made.remote() for _ in range(READERS)] for way, made in ways.items()}
        found = {
            BY_REFERENCE: in_turn(rounds, {way: _by_reference(some, shared) for way, some in readers.items()}),
            BY_VALUE: in_turn(rounds, {way: _by_value(some[0], given) for way, some in readers.items()}),
        }
    return Report(
        "references",
        "What do large objects cost that go to actors?",
        {"rounds": rounds, "readers": READERS},
        tuple(
            Series(f"{what}: {way}", "ms", tuple(samples)) for what, of in found.items() for way, samples in of.items()
        ),
        tuple(
            Figure.median_of(
                f"{what}: rayshot / ray",
                paired_ratios(of["rayshot"], of["ray"]),
                "x",
                BY_REFERENCE_TARGET if what == BY_REFERENCE else None,
            )
            for what, of in found.items()
        ),
    )


def _by_reference(readers: list[Any], array: Any) -> Callable[[], float]:
    """Milliseconds until all actors have looked at a new object."""

    def measure() -> float:
        began_at = time.perf_counter()
        ref = ray.put(array)
        ray.get([reader.look.remote(ref) for reader in readers])
        return (time.perf_counter() - began_at) * 1e3

    return measure


def _by_value(reader: Any, array: Any) -> Callable[[], float]:
    """Milliseconds until an actor has looked at its argument."""

    def measure() -> float:
        began_at = time.perf_counter()
        ray.get(reader.look.remote(array))
        return (time.perf_counter() - began_at) * 1e3

    return measure
