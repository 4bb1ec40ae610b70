"""A small disk that becomes full, for `chaos`."""

import errno
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
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
        self._holding: threading.Thread | None = None

    def fill(self) -> None:
        """It is full, and stays so for FULL_S seconds: whatever is deleted meanwhile makes no room."""
        self.free()
        ballast = self._ballast.open("wb", buffering=0)
        _write_until_full(ballast)
        self._holding = threading.Thread(target=self._hold_full, args=(ballast,))
        self._holding.start()

    def free(self) -> None:
        """Wait until it is full no more."""
        if self._holding is not None:
            self._holding.join()

    def _hold_full(self, ballast: FileIO) -> None:
        end = time.monotonic() + FULL_S
        with ballast:
            while time.monotonic() < end:
                time.sleep(REFILL_S)
                _write_until_full(ballast)
        self._ballast.unlink()


def _write_until_full(ballast: FileIO) -> None:
    for size in (BLOCK, PAGE):
        try:
            while True:
                ballast.write(bytes(size))
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
