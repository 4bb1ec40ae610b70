"""A real Azure Blob Storage server for tests: Azurite, which `scripts/ensure-azurite` installs."""

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.places.s3_server import START_MAX_S, free_ports

ACCOUNT = "rayshottests"
CONTAINER = "shots"
KEY = base64.b64encode(b"a secret that never shows, either").decode()
VERSION = "2021-12-02"
PROGRAM = Path(sys.prefix, "azurite/node_modules/.bin/azurite-blob")


@contextmanager
def running_azurite(folder: Path) -> Iterator[str]:
    """Start it with an empty container; yield its endpoint, which contains the account."""
    if shutil.which("node") is None or not PROGRAM.exists():
        pytest.skip(
            f"Azure storage is tested with Azurite: install nodejs and npm, then scripts/ensure-azurite {sys.prefix}"
        )
    [port] = free_ports(1)
    command = [str(PROGRAM), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
    process = subprocess.Popen(
        [*command, "--disableTelemetry"],
        cwd=folder,
        env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _make_container(process, f"http://127.0.0.1:{port}/{ACCOUNT}")
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"
    finally:
        process.kill()
        process.wait()


def _make_container(process: subprocess.Popen[bytes], endpoint: str) -> None:
    deadline = time.monotonic() + START_MAX_S
    while True:
        try:
            urllib.request.urlopen(_signed_creation(endpoint), timeout=5).close()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"azurite refuses to make a container: {error.read()!r}") from error
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, "azurite did not start"  # noqa: PT018
            time.sleep(0.02)
        else:
            return


def _signed_creation(endpoint: str) -> urllib.request.Request:
    """A request that makes the container, signed with the shared key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    signed = [*(f"{name}:{value}" for name, value in headers.items()), f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}"]
    text = "\n".join(["PUT", *[""] * 11, *signed, "restype:container"])
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    return urllib.request.Request(
        f"{endpoint}/{CONTAINER}?restype=container",
        method="PUT",
        headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"},
    )
