"""What a job measures of itself: records, seconds and processor seconds of its steady part, and its checkpoints."""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "RAYSHOT_PEERS_JOB"
"""An environment variable that all processes of a job inherit, so that they are found and nothing else is."""
EVENT = "PEERS "
"""Begins each line that a job prints for whoever started it; engines print what they like besides."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Job:
    """What a job is to do. `records` and `warm` are numbers of records, in whole batches.

    `interval_s` is 0 for a run without checkpoints. `folder` is the job's own; `restart` says that an earlier life
    left a checkpoint in it. Measured is what comes after the first `warm` records.
    """

    records: int
    keys: int
    interval_s: float
    folder: Path
    warm: int
    restart: bool


def job_of_command_line() -> Job:
    """Read the job from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--interval-s", type=float, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--warm", type=int, required=True)
    parser.add_argument("--restart", action="store_true")
    return Job(**vars(parser.parse_args()))


def marked_processes(mark: str) -> Iterator[int]:
    """The processes whose environment holds MARK with that value."""
    wanted = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)
        except OSError:  # it ended, or is not ours
            continue


def processor_s(mark: str) -> float:
    """Seconds of processor time that a job has used: its living processes, and the children that they waited for."""
    ticks = 0
    for pid in marked_processes(mark):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class _Stamp:
    at: float
    processor_s: float
    records: int
    checkpoints: int


class Steady:
    """Watches a job go by. `checkpoints` counts those that were completed until now."""

    def __init__(self, job: Job, checkpoints: Callable[[], int]) -> None:
        self._job = job
        self._checkpoints = checkpoints
        self._began: _Stamp | None = None
        self._resumed_at: int | None = None
        self._saved = job.interval_s == 0

    def resumed(self, records: int) -> None:
        """Say at how many records a restarted job goes on."""
        self._resumed_at = records

    def see(self, records: int) -> None:
        """So many records were processed until now; called often."""
        if self._resumed_at is not None and records > self._resumed_at:
            tell("processing", at=time.time(), resumed_at=self._resumed_at)
            self._resumed_at = None
        if self._began is None and records >= self._job.warm:
            self._began = self._stamp(records)
            tell("steady", at=self._began.at)
        if not self._saved and self._checkpoints() > 0:
            self._saved = True
            tell("saved")

    def finish(self, records: int) -> None:
        """All records were processed: say what was measured."""
        ended, began = self._stamp(records), self._began
        if began is None:
            assert self._job.restart, "a job ended before it was warm"
            return
        tell(
            "measured",
            records=ended.records - began.records,
            seconds=ended.at - began.at,
            processor_s=max(ended.processor_s - began.processor_s, 1 / _TICKS_PER_SECOND),
            checkpoints=ended.checkpoints - began.checkpoints,
        )

    def _stamp(self, records: int) -> _Stamp:
        return _Stamp(time.time(), processor_s(os.environ[MARK]), records, self._checkpoints())


def tell(event: str, **facts: Any) -> None:
    """Print one line for whoever started the job."""
    print(EVENT + json.dumps({"event": event, **facts}), flush=True)
