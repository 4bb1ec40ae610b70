"""What it costs a busy system to tell Prometheus how it does.

The coordinator asks its actors and tells Ray each PAUSE_S. What that costs is too little to be seen beside the noise of
a machine, so for a while it is done up to FASTER times as often, and the cost is divided by how much more often it was.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.report import Figure, NotRun, Report, Series, Target
from benchmarks.samples import paired_ratios
from benchmarks.tokens import Ring
from rayshot.runtime.coordinator.metrics import PAUSE_S

EXPORTER = Path(sys.prefix) / "metrics"
"""What `ray[default]` needs to export metrics, where scripts/ensure-metrics has put it."""
FASTER = 50
COST = Target("<=", 0.5)
"""Percent of throughput."""


def run(*, short: bool) -> Report:
    """Measure windows as always and with metrics told FASTER, in turn."""
    if not EXPORTER.is_dir():
        raise NotRun("it needs what `make metrics` installs")
    actors, pairs, window_s = (4, 1, 0.5) if short else (16, 12, 8.0)
    paths = os.pathsep.join(filter(None, [str(EXPORTER), os.environ.get("PYTHONPATH")]))
    with (
        patch.dict(os.environ, PYTHONPATH=paths),
        fresh_cluster() as folder,
        rayshot.init("metrics", storage=folder, failure=ONE_LIFE) as system,
    ):
        ring = Ring(actors)
        ring.go()
        ring.messages_per_second(window_s)
        usual, faster, told = list[float](), list[float](), list[list[float]]()
        for _ in range(pairs):
            usual.append(ring.messages_per_second(window_s))
            told.append([])
            with _told_faster(system, told[-1]):
                faster.append(ring.messages_per_second(window_s))
    ratios = paired_ratios(faster, usual)
    often = [len(one) * PAUSE_S / window_s for one in told]
    costs = [100 * (1 - ratio) / factor for ratio, factor in zip(ratios, often, strict=True)]
    took_ms = [1e3 * seconds for one in told for seconds in one]
    return Report(
        "metrics",
        "What do metrics cost a busy system?",
        {"actors": actors, "pairs": pairs, "window_s": window_s, "usual_pause_s": PAUSE_S},
        (
            Series("as always", "1/s", tuple(usual)),
            Series("told more often", "1/s", tuple(faster)),
            Series("one telling", "ms", tuple(took_ms)),
        ),
        (
            Figure.median_of("cost of metrics", costs, "%", COST),
            Figure.median_of("throughput, told more often", ratios, "x"),
            Figure.median_of("how much more often", often, "x"),
            Figure.median_of("one telling", took_ms, "ms"),
        ),
    )


@contextmanager
def _told_faster(system: rayshot.System, told: list[float]) -> Iterator[None]:
    """Inside, the coordinator asks all actors and tells Ray FASTER times as often; `told` takes the seconds of each."""
    over = threading.Event()

    def tell() -> None:
        while True:  # at once, for the first time: a short window may be over before the first pause
            told.append(ray.get(system._identity.coordinator.__ray_call__.remote(_tell)))  # noqa: SLF001
            if over.wait(PAUSE_S / FASTER):
                return

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(coordinator: Any) -> float:
    metrics, began = coordinator._life.metrics, time.perf_counter()  # noqa: SLF001 - a coordinator offers no call for it
    metrics._ask_at = 0.0  # noqa: SLF001
    metrics._tell(*metrics.samples(time.monotonic()))  # noqa: SLF001
    return time.perf_counter() - began
