"""Processes that tests start: forked from a server which has only imported, or programs of their own."""

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import signal
from pathlib import Path

ROOT = Path(__file__).parents[1]

START = multiprocessing.get_context("forkserver")
"""Not plain forks: one of a process that had used a cloud could not use one."""

START.set_forkserver_preload(["tests.inert.judge", "tests.snapshots.victims"])  # in one place, as the last call counts


def end_server() -> None:
    """End the server; the next process starts another one."""
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]


def search_path(*folders: Path) -> dict[str, str]:
    """The variable with which a program imports this project, these folders, and what this process can besides."""
    return {"PYTHONPATH": os.pathsep.join([*map(str, (ROOT, *folders)), os.environ["PYTHONPATH"]])}


def own_environment() -> dict[str, str]:
    """The variables of this process without those of Ray and rayshot, as a user has them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "RAYSHOT_"))}
    return kept | {"RAY_worker_niceness": "0"}  # at Ray's 15, a worker takes minutes to start beside what runs here


def marked(mark: str) -> dict[int, str]:
    """The living processes whose environment holds this mark, a program's and all it started, with their commands."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            pass  # it ended, or belongs to somebody else
    return found


def kill_marked(mark: str) -> None:
    """SIGKILL all of them, also those that they start meanwhile."""
    while found := marked(mark):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def runs(pid: int) -> bool:
    """Whether this process runs; a dead one for which nobody has waited does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
