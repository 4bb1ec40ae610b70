"""Heads of Ray clusters that tests start and end, each with processes of its own, as in a pod."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.processes import ROOT

START_S = 60.0


class Pod:
    """A head in a process namespace of its own. `ray stop` would end every Ray of the machine: this ends one."""

    def __init__(self, token=None, port=None):
        self.folder = tempfile.mkdtemp(prefix="rp-", dir="/tmp")  # short: it holds sockets
        self._printed = Path(self.folder, "printed")
        self.port, client = port or free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "RAYSHOT_"))},
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": self.folder,
            "RAY_AUTH_MODE": "disabled" if token is None else "token",
            **({} if token is None else {"RAY_AUTH_TOKEN": token}),
        }
        ray = Path(sys.executable).with_name("ray")
        command = [ray, "start", "--head", "--block", "--port", self.port, "--ray-client-server-port", client]
        command += ["--num-cpus", 4, "--include-dashboard", "false", "--disable-usage-stats"]
        command += ["--temp-dir", self.folder, "--min-worker-port", 0, "--max-worker-port", 0]
        self._process = subprocess.Popen(
            ["unshare", "-pf", "--mount-proc", "--kill-child", *map(str, command)],
            env=self.environment,
            stdout=self._printed.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self):
        """Wait until a program can join it."""
        deadline = time.monotonic() + START_S
        while "Ray runtime started" not in self._printed.read_text():
            assert time.monotonic() < deadline, "the head did not start"
            assert self._process.poll() is None, self._printed.read_text()
            time.sleep(0.1)
        return self

    def run(self, *arguments, timeout=60, stdin="", **variables):
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

    def open(self, *arguments, **variables):
        """Start this Python as `run` does; whoever asked speaks with it through its pipes."""
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={**self.environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def kill(self):
        """End it as a machine ends that loses its power."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self):
        """End what is left of it, and remove its folder."""
        with contextlib.suppress(ProcessLookupError):
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port():
    """A port that nobody has at this moment."""
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]
