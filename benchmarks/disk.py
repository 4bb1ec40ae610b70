"""A small disk that becomes full, for `chaos`."""

import errno
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import NotRun

BYTES = 512 << 20
FULL_S = 5.0
BLOCK, PAGE = 1 << 20, 4_096
REFILL_S = 0.01


class Disk:
    """`folder` is where it is mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        self._filling: list[threading.Thread] = []
        self._at_once = threading.Lock()

    def fill(self) -> None:
        """Nothing more can be written for FULL_S seconds: whatever is deleted meanwhile makes no room."""
        filling = threading.Thread(target=self._hold_full)
        filling.start()
        self._filling.append(filling)

    def free(self) -> None:
        """Wait until it is full no more."""
        for filling in self._filling:
            filling.join()

    def _hold_full(self) -> None:
        with self._at_once:
            end = time.monotonic() + FULL_S
            with self._ballast.open("wb", buffering=0) as ballast:
                while time.monotonic() < end:
                    for size in (BLOCK, PAGE):
                        _write_until_full(ballast.fileno(), bytes(size))
                    time.sleep(REFILL_S)
            self._ballast.unlink()


def _write_until_full(file: int, some: bytes) -> None:
    try:
        while True:
            os.write(file, some)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextmanager
def small_disk() -> Iterator[Disk]:
    """Mount one in memory; it is gone at the end. Raises NotRun where this program may mount nothing."""
    with tempfile.TemporaryDirectory(prefix="rayshot-disk-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={BYTES}", "tmpfs", folder]
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
        if mounted.returncode:
            raise NotRun(f"no disk can be mounted here: {mounted.stderr.strip()}")
        disk = Disk(Path(folder))
        try:
            yield disk
        finally:
            disk.free()
            subprocess.run(["umount", "--lazy", folder], check=True)
