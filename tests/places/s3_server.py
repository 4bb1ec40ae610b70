"""A real S3 server for tests: SeaweedFS, as one process on free ports, with keys that it checks."""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from obstore.exceptions import BaseError
from obstore.store import S3Store

BUCKET = "rayshot-tests"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "rayshot-tests", "AWS_SECRET_ACCESS_KEY": "a-secret-that-never-shows"}
START_MAX_S = 60.0
_PORTS = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]


@dataclass(frozen=True)
class S3Server:
    """A running server, which takes the keys in CREDENTIALS. `pid` is its process."""

    port: int
    pid: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def address(self, prefix: str, endpoint: str | None = None) -> str:
        """The storage at `prefix` in the bucket, through `endpoint` where something stands in between."""
        return f"s3://{BUCKET}/{prefix}?endpoint={endpoint or self.endpoint}&region=us-east-1"


@contextmanager
def running_s3_server() -> Iterator[S3Server]:
    """Start a server in a folder of its own; kill it and remove the folder at the end."""
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="rayshot-s3-", ignore_cleanup_errors=True))
        )
        yield stack.enter_context(_weed(folder))


@contextmanager
def _weed(folder: Path) -> Iterator[S3Server]:
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [_identity()]}))
    (folder / "data").mkdir()
    command = [
        str(Path(sys.executable).with_name("weed")),
        "mini",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-s3.config={config}",
        "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-admin.ui=false",
        "-webdav=false",
        "-master.telemetry=false",
        f"-bucket={BUCKET}",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _await_ready(process, f"http://127.0.0.1:{ports['s3.port']}", log)
        yield S3Server(ports["s3.port"], process.pid)
    finally:
        process.kill()
        process.wait()


def _identity() -> dict[str, object]:
    access, secret = CREDENTIALS.values()
    return {
        "name": "tests",
        "credentials": [{"accessKey": access, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }


def _await_ready(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    """Wait until the bucket can be listed."""
    access, secret = CREDENTIALS.values()
    client = S3Store(
        BUCKET,
        config={"endpoint": endpoint, "region": "us-east-1", "access_key_id": access, "secret_access_key": secret},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    deadline = time.monotonic() + START_MAX_S
    while True:
        try:
            client.list().collect()
        except (BaseError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}") from None
            time.sleep(0.02)
        else:
            return


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
