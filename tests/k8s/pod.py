"""A head of Ray that dies as a pod does: in a name space of processes, whose first one takes all others along."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.processes import ROOT

BIN = Path(sys.executable).parent
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
LEFT_OUT = ("RAYSHOT_FORKS", "RAY_ADDRESS", "PYTHONPATH")
"""What tests in one name space have: it would lead out of the pod."""


def name_spaces_can_be_made() -> bool:
    """Whether this user may start a process in a name space of its own."""
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


def children(process: subprocess.Popen[str]) -> list[int]:
    """What `unshare` and `nsenter` have started: they wait for it, and are not it."""
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def kill_children(process: subprocess.Popen[str]) -> None:
    """SIGKILL what it has started, and wait until it has noticed."""
    for child in children(process):
        os.kill(child, signal.SIGKILL)
    process.wait(30)


class Pod:
    """A cluster of one node with a token, and what is started in it: `variables` are those of its container."""

    def __init__(self, variables: dict[str, str], resources: str = "4") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rp-", dir="/tmp", ignore_cleanup_errors=True)
        port = free_port()
        self.environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT} | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "RAY_TMPDIR": self._folder.name,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_ADDRESS": f"{socket.gethostbyname(socket.gethostname())}:{port}",
            **variables,
        }
        start = ["ray", "start", "--head", "--block", f"--port={port}", f"--num-cpus={resources}"]
        start += [f"--ray-client-server-port={free_port()}", "--min-worker-port=0", "--max-worker-port=0"]
        start += ["--include-dashboard=false", "--disable-usage-stats"]
        self._log = (Path(self._folder.name) / "head.log").open("w")
        self._head = subprocess.Popen(
            [*UNSHARE, *start],
            env={name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def wait(self) -> bool:
        """Wait until a program can join it; False where `ray start` has given up, which it does after 30 s."""
        while self._head.poll() is None:
            if "Ray runtime started" in self.log:
                return True
            time.sleep(0.2)
        return False

    @property
    def log(self) -> str:
        """What the head has said."""
        return Path(self._log.name).read_text()

    def start(self, *command: object, log: Path) -> subprocess.Popen[str]:
        """Start a program in it, as `kubectl exec` and a job of Ray do. It is the child of what is returned."""
        (first,) = map(str, children(self._head))
        with log.open("w") as written:
            return subprocess.Popen(
                ["nsenter", "--target", first, "--pid", "--mount", f"--wd={ROOT}", *map(str, command)],
                env=self.environment,
                stdout=written,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def run(self, *command: object, log: Path, timeout_s: float = 120.0) -> tuple[int, str]:
        """Run a program in it to its end; its exit code, and what it has said."""
        code = self.start(*command, log=log).wait(timeout_s)
        return code, log.read_text()

    def kill(self) -> None:
        """All of its processes are gone at once; twice is fine."""
        if self._head.poll() is None:
            kill_children(self._head)

    def end(self) -> None:
        """Kill it, and remove its files."""
        self.kill()
        self._log.close()
        self._folder.cleanup()
