"""Nodes of Ray that tests start and end as pods: what runs in one has a name space of processes, and dies at once."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.processes import ROOT, own_environment

BIN = Path(sys.executable).parent
FOR_JOBS = Path(sys.prefix) / "metrics"
"""What `ray job` and its dashboard need beside Ray, where scripts/ensure-metrics has put it."""
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
TRIES = 4
"""A busy machine may not start a node in the 30 s that Ray gives it: then `wait` tries it anew, as KubeRay does."""


def name_spaces_can_be_made() -> bool:
    """Whether this user may start a process in a name space of its own."""
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def children(process: subprocess.Popen[Any]) -> list[int]:
    """What `unshare` and `nsenter` have started: they wait for it, and are not it."""
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def kill_children(process: subprocess.Popen[Any]) -> None:
    """SIGKILL what it has started, and wait until it has noticed; nothing where it has ended."""
    if process.poll() is None:
        for child in children(process):
            os.kill(child, signal.SIGKILL)
        process.wait(30)


class HeadEnded(AssertionError):
    """A worker cannot join: its head has given up."""


class Pod:
    """A head of Ray, or a worker of that of `head`. `ray stop` would end every Ray of the machine: this ends one.

    A head without a `token` asks for none; with `jobs` it takes those of `ray job submit` at `dashboard`. `variables`
    are those of its container. Two ways lead to it: `run` and `open` start programs of this machine that may join the
    cluster, `execute` and `start` programs inside of the pod, as `kubectl exec` does.
    """

    def __init__(
        self,
        token: str | None = None,
        port: int | None = None,
        *,
        cpus: int = 4,
        head: "Pod | None" = None,
        jobs: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = tempfile.mkdtemp(prefix="rp-", dir="/tmp")  # short: it holds sockets
        self.printed = Path(self.folder, "printed")
        self.port = head.port if head else port or free_port()
        self.address = f"{socket.gethostbyname(socket.gethostname())}:{self.port}"
        self.dashboard = f"127.0.0.1:{free_port()}"
        of_cluster: Mapping[str, str] = (
            head._of_cluster
            if head
            else {
                **own_environment(),
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join(map(str, [ROOT, FOR_JOBS] if jobs else [ROOT])),
                "PYTHONUNBUFFERED": "1",
                "RAY_AUTH_MODE": "disabled" if token is None else "token",
                **({} if token is None else {"RAY_AUTH_TOKEN": token}),
            }
        )
        self._of_cluster, self._head = of_cluster, head
        self.environment = {**of_cluster, "RAY_TMPDIR": self.folder, **(variables or {})}
        self._command = ["ray", "start", "--block", f"--num-cpus={cpus}", "--disable-usage-stats"]
        self._command += ["--min-worker-port=0", "--max-worker-port=0", f"--dashboard-agent-listen-port={free_port()}"]
        if head:
            # else Ray takes the head's folder, where two workers that start at once choose the same names for sockets
            self._command += [f"--address={self.address}", f"--temp-dir={self.folder}/ray"]
        else:
            self._command += ["--head", f"--port={self.port}", f"--ray-client-server-port={free_port()}"]
            self._command += [f"--include-dashboard={str(jobs).lower()}"]
            self._command += [f"--dashboard-port={self.dashboard.rpartition(':')[2]}"]
        self._start()

    def _start(self) -> None:
        with self.printed.open("a") as printed:  # as a container's log: what is run in the pod may write there too
            self._process = subprocess.Popen(
                [*UNSHARE, *self._command], env=self.environment, stdout=printed, stderr=subprocess.STDOUT
            )

    def wait(self) -> Self:
        """Wait until a program can join it."""
        for _ in range(TRIES):
            while self._process.poll() is None:
                if "Ray runtime started" in self.printed.read_text():
                    return self
                if self._head is not None and self._head._process.poll() is not None:
                    raise HeadEnded(f"the head has ended: {self._head.printed.read_text()}")
                time.sleep(0.1)
            self._start()
        raise AssertionError(f"the pod did not start: {self.printed.read_text()}")

    def run(
        self, *arguments: object, timeout: float = 60, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python with these arguments as a program of the cluster's environment."""
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**self.environment, **variables},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def open(self, *arguments: object, **variables: str) -> subprocess.Popen[str]:
        """Start this Python as `run` does; whoever asked speaks with it through its pipes."""
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={**self.environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, *command: object, log: Path) -> subprocess.Popen[str]:
        """Start a program inside of it. It is the child of what is returned, see `kill_children`."""
        (first,) = map(str, children(self._process))
        with log.open("w") as written:
            return subprocess.Popen(
                ["nsenter", "--target", first, "--pid", "--mount", f"--wd={ROOT}", *map(str, command)],
                env=self.environment | {"RAY_ADDRESS": self.address},
                stdout=written,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def execute(self, *command: object, timeout: float = 120) -> tuple[int, str]:
        """Run a program inside of it to its end; its exit code, and what it has said."""
        log = Path(tempfile.mkstemp(dir=self.folder)[1])
        code = self.start(*command, log=log).wait(timeout)
        return code, log.read_text()

    def kill(self) -> None:
        """End it as a machine ends that loses its power; twice is fine."""
        kill_children(self._process)

    def end(self) -> None:
        """End what is left of it, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
