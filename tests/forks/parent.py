"""The process that Ray's workers are forked from in the tests: it has imported what each of them would import.

A worker that starts by itself takes a second of processor time, nearly all of it for imports, and the tests start
thousands. Here the interpreter that Ray starts hands its arguments, environment and files over (sitecustomize.py), and
a fork of this process runs Ray's own script with them. The interpreter lives as long as the fork, and the fork as long
as the interpreter: to Ray, which knows the one before the worker registers and the other afterwards, both are the
worker. A fork is a process like any other: it has its own pid, and dies of SIGKILL.

Each cluster has a parent of its own, which its first worker starts and which ends with the cluster's raylet.
"""

import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

LOADED = (
    "ray._private.workers.default_worker",
    "ray._common.usage.usage_lib",  # this and the next five: what Ray imports late, in each worker
    "ray._common.pydantic_compat",
    "ray._private.arrow_serialization",
    "pydantic.v1",
    "pyarrow",
    "pyarrow.json",
    "rayshot.runtime.coordinator.coordinator",
    "rayshot.runtime.coordinator.committer",
    "rayshot.runtime.node.vault",
    "rayshot.runtime.actor.host",
)
SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps numpy and pyarrow from starting threads when they are imported."""
ASKING_S = 5.0
"""An interpreter asks at once, or was stopped or ended in the midst of it."""
PASSED_ON = {"RAY_JOB_ID"}
"""Settings that differ from worker to worker and are not read while importing."""


class Request(NamedTuple):
    """What the interpreter `pid` was started with, and its standard files."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    pid: int
    files: list[int]


def main(address: str) -> None:
    """Fork whenever an interpreter asks at `address`, a path that appears once all is loaded, until the raylet ends."""
    load()
    with closing_file(os.pidfd_open(int(os.environ["RAY_RAYLET_PID"]))) as raylet, listening(address) as server:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries who ends
        waiting = select.poll()
        waiting.register(server, select.POLLIN)
        waiting.register(raylet, select.POLLIN)
        while True:
            if any(file == raylet for file, _ in waiting.poll()):
                Path(address).unlink()
                return
            connection, _ = server.accept()
            request = received(connection)
            if request is not None and os.fork() == 0:
                break
            connection.close()
            for file in () if request is None else request.files:
                os.close(file)
    stand_in(request, connection)
    runpy.run_path(request.arguments[0], run_name="__main__")


def load() -> None:
    """Import what a worker imports before it hosts an actor. Nothing of it may start a thread: a fork would lose it."""
    sys.path[0] = str(Path(__file__).parents[2])
    os.environ.update(SINGLE_THREADED)
    for name in LOADED:
        importlib.import_module(name)
    threads = [task.name for task in Path("/proc/self/task").iterdir()]
    assert len(threads) == 1, threads
    gc.collect()
    gc.freeze()


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    """A server whose address appears when it can be connected to."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{address}.bound")
        server.listen(256)
        Path(f"{address}.bound").rename(address)
        yield server


@contextmanager
def closing_file(descriptor: int) -> Iterator[int]:
    """A file that is closed in the end, in the forks too."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def received(connection: socket.socket) -> Request | None:
    """What is asked; None where who asked is gone already, or has settings of its own and is told to start itself."""
    files: list[int] = []
    connection.settimeout(ASKING_S)
    try:
        head, files, _, _ = socket.recv_fds(connection, 4, 3)
        with connection.makefile("rb") as stream:
            request = Request(*marshal.loads(stream.read(int.from_bytes(head, "big"))), files)
        alike = settings(request.environment) == settings(os.environ)
        connection.sendall(b"y" if alike else b"n")
        if alike:
            connection.settimeout(None)
            return request
    except (OSError, EOFError, ValueError, TypeError):
        pass
    for file in files:
        os.close(file)
    return None


def settings(environment: dict[str, str]) -> dict[str, str]:
    """What may have been read while importing."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("RAY_", "RAYSHOT_", "PYTHON")) and name not in PASSED_ON
    }


def stand_in(request: Request, connection: socket.socket) -> None:
    """Make this fork what the interpreter would have become."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for standard, file in enumerate(request.files):
        os.dup2(file, standard)
        os.close(file)
    os.setpgid(0, os.getpgid(request.pid))  # a raylet ends a worker with its whole group
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv[:] = request.arguments
    sys.path[0] = str(Path(request.arguments[0]).parent)
    threading.Thread(target=end_with, args=(connection,), name="end-with-interpreter", daemon=True).start()


def end_with(connection: socket.socket) -> None:
    """End this worker when the interpreter that it stands in for ends."""
    with closing(connection):
        connection.recv(1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
