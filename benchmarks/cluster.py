"""A Ray cluster for one benchmark, with nothing left of it afterwards."""

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import ray

import rayshot

Answer = TypeVar("Answer")
ONE_LIFE = rayshot.FailureConfig(scope="stop")
"""For a system that takes snapshots only when asked; the benchmark `healing` measures what more costs."""
POLL_S = 0.02
WAIT_S_MAX = 300.0
SETTLE_S = 0.5
"""What goes on behind the back of whoever measures, such as deleting old snapshots, is over by then."""


@contextmanager
def fresh_cluster(*, object_store_bytes: int = 512 << 20) -> Iterator[Path]:
    """Start Ray on this machine; yields a folder for storage. Both are gone at the end.

    Within another one only the folder is fresh: where figures mean nothing, its start and end need not be waited for.
    """
    with tempfile.TemporaryDirectory(prefix="rayshot-benchmark-") as folder:
        if ray.is_initialized():
            yield Path(folder)
            return
        ray.init(
            address="local",
            num_cpus=max(4, os.cpu_count() or 1),
            object_store_memory=object_store_bytes,
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
        try:
            yield Path(folder)
        finally:
            ray.shutdown()


def wait_for(ask: Callable[[], Answer | None], what: str, *, poll_s: float = POLL_S) -> Answer:
    """Ask until there is an answer. Raises TimeoutError after some minutes."""
    deadline = time.monotonic() + WAIT_S_MAX
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {WAIT_S_MAX:g} s")
        time.sleep(poll_s)
    return answer


def settle(system: rayshot.System) -> None:
    """Take no more snapshots by themselves, and let the one that is under way end, before what comes next."""
    system.configure(rayshot.SnapshotConfig())
    wait_for(lambda: None if system.status().snapshots else True, "the end of the last snapshot")
    time.sleep(SETTLE_S)
