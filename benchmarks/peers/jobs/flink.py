"""What the jobs on Flink share: a cluster of their own, its checkpoints on disk, and its REST port to watch it."""

import json
import os
import socket
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyflink.common import Configuration

from benchmarks.peers.measuring import Job, Steady

POLL_S = 0.1
FETCH_MS = 100
SITE_PACKAGES = next(path for path in sys.path if path.endswith("site-packages"))


def configuration(job: Job, port: int) -> Any:
    """One task manager with one slot, REST on `port`; goes on from the latest checkpoint of `job` if that restarts."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        (SITE_PACKAGES, str(Path.cwd()))
    )  # the Python inside the JVM looks there
    settings = {
        "parallelism.default": "1",
        "rest.bind-port": str(port),
        "rest.port": str(port),
        "rest.address": "127.0.0.1",
        "metrics.fetcher.update-interval": str(FETCH_MS),
        "python.execution-mode": "thread",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "state.backend.type": "hashmap",
        "execution.checkpointing.dir": (job.folder / "checkpoints").as_uri(),
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.num-retained": "3",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    if job.interval_s:
        settings["execution.checkpointing.interval"] = f"{1000 * job.interval_s:g} ms"
    if job.restart:
        settings["execution.state-recovery.path"] = _latest_checkpoint(job)
    found = Configuration()
    for name, value in settings.items():
        found.set_string(name, value)
    return found


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def watch(job: Job, client: Any, port: int) -> None:
    """Watch a job until it has ended; `client` is the JobClient."""
    base = f"http://127.0.0.1:{port}/jobs/{client.get_job_id()}"
    completed, restored = 0, False
    steady = Steady(job, lambda: completed)
    if job.restart:
        steady.resumed(0)
    ended = client.get_job_execution_result()
    while not ended.done():
        statistics = _ask(f"{base}/checkpoints")
        completed = max(completed, statistics.get("counts", {}).get("completed", 0))
        restored = restored or bool(statistics.get("counts", {}).get("restored", 0))
        steady.see(_records(base))
        time.sleep(POLL_S)
    ended.result()
    assert restored or not job.restart, "the job began anew, and not from its checkpoint"
    steady.finish(job.records)


def _records(base: str) -> int:
    """The records that left the source: Flink holds no more behind it than its network buffers."""
    vertices = _ask(base).get("vertices", ())
    if not vertices:
        return 0
    metrics = f"{base}/vertices/{vertices[0]['id']}/metrics"
    names = [metric["id"] for metric in _ask_list(metrics)]
    out = sorted((name for name in names if name.startswith("0.Source__") and name.endswith(".numRecordsOut")), key=len)
    return sum(int(metric["value"]) for metric in _ask_list(f"{metrics}?get={quote(out[0])}")) if out else 0


def _ask_list(address: str) -> list[dict[str, Any]]:
    found = _ask(address)
    return found if isinstance(found, list) else []


def _ask(address: str) -> Any:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)
    except OSError:  # not there yet, or gone with the job
        return {}


def _latest_checkpoint(job: Job) -> str:
    complete = (job.folder / "checkpoints").glob("*/chk-*/_metadata")
    return max((file.parent for file in complete), key=lambda folder: int(folder.name.removeprefix("chk-"))).as_uri()
