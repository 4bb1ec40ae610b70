"""Jobs from outside: started, read, killed, started again."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environment import ROOT, python_of
from benchmarks.peers.measuring import EVENT, MARK, marked_processes

JOB_S_MAX = 180.0
LINES_SHOWN = 15


class JobFailed(Exception):
    """A job ended otherwise than with an exact count."""


@dataclass(frozen=True, slots=True)
class Task:
    """One job: the module `jobs.<module>` in an environment, with its sizes. `interval_s` 0: without checkpoints."""

    environment: str
    module: str
    records: int
    keys: int
    interval_s: float
    warm_share: float = 0.25


@dataclass(frozen=True, slots=True)
class Measured:
    """The steady part of a run."""

    records: int
    seconds: float
    processor_s: float
    checkpoints: int

    @property
    def per_second(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def per_core(self) -> float:
        """Records for each second of processor time."""
        return self.records / self.processor_s


def measure(task: Task) -> Measured:
    """Run a job to its end. Raises JobFailed, also where it counted wrong."""
    with _folder() as folder, _started(task, folder) as job:
        measured = job.wait_for("measured")
        job.wait_for("exact")
        job.wait_for_end()
    return Measured(**{name: measured[name] for name in Measured.__slots__})


@dataclass(frozen=True, slots=True)
class Recovered:
    """A run that was killed: seconds from the new start until records were processed, and what it did until then."""

    seconds: float
    resumed_at: int


def recover(task: Task, run_s: float) -> Recovered:
    """Kill all processes of a job `run_s` after it became steady and has a checkpoint, and start it again.

    It must count exactly.
    """
    with _folder() as folder:
        with _started(task, folder) as job:
            job.wait_for("steady")
            job.wait_for("saved")
            time.sleep(run_s)
            if job.has_ended():
                raise JobFailed(f"{task.module} had ended before it could be killed: {job.last_lines()}")
            job.kill()
        began_at = time.time()
        with _started(task, folder, "--restart") as job:
            processing = job.wait_for("processing")
            job.wait_for("exact")
            job.wait_for_end()
    return Recovered(processing["at"] - began_at, processing["resumed_at"])


class _RunningJob:
    """A job's processes, and a thread that reads what it prints."""

    def __init__(self, task: Task, folder: Path, arguments: tuple[str, ...]) -> None:
        python = python_of(task.environment)
        assert python is not None, f"there is no environment {task.environment}"
        self.mark = uuid.uuid4().hex
        warm = int(task.records * task.warm_share)
        sizes = {"records": task.records, "keys": task.keys, "interval-s": task.interval_s, "warm": warm}
        command = [python, "-m", f"benchmarks.peers.jobs.{task.module}", "--folder", str(folder), *arguments]
        command += [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
        self._module = task.module
        self._lines: list[str] = []
        self._events: dict[str, dict[str, Any]] = {}
        self._news = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, MARK: self.mark, **(_own_path() if task.environment == "rayshot" else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, event: str) -> dict[str, Any]:
        """Wait until the job has told of this. Raises JobFailed where it ends before, or takes too long."""
        deadline = time.monotonic() + JOB_S_MAX
        with self._news:
            while event not in self._events:
                if self._ended or not self._news.wait(deadline - time.monotonic()):
                    raise JobFailed(f"{self._module} never said {event!r}: {self.last_lines()}")
            return self._events[event]

    def wait_for_end(self) -> None:
        """Wait until it has ended. Raises JobFailed where it fails."""
        if self._process.wait(JOB_S_MAX):
            raise JobFailed(f"{self._module} ended with {self._process.returncode}: {self.last_lines()}")

    def has_ended(self) -> bool:
        """Whether the job's own process is gone."""
        return self._process.poll() is not None

    def last_lines(self) -> str:
        """What it printed last."""
        return "\n".join(self._lines[-LINES_SHOWN:])

    def kill(self) -> None:
        """End all processes of the job at once, also those that it started in the background."""
        while pids := [pid for pid in marked_processes(self.mark) if not _is_zombie(pid)]:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line.rstrip())
                _, found, told = line.partition(EVENT)
                if found:
                    event = json.loads(told)
                    self._events[event.pop("event")] = event
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def _is_zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


@contextmanager
def _started(task: Task, folder: Path, *arguments: str) -> Iterator[_RunningJob]:
    """A job, of which nothing runs afterwards."""
    job = _RunningJob(task, folder, arguments)
    try:
        yield job
    finally:
        job.kill()


def _own_path() -> dict[str, str]:
    """This tree before all that is on the path."""
    return {"PYTHONPATH": os.pathsep.join(path for path in (str(ROOT), os.environ.get("PYTHONPATH")) if path)}


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder with a short name: Ray's sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
