"""Whether this machine has room for a benchmark with a large state."""

import shutil
from pathlib import Path

from benchmarks.report import NotRun


def available_bytes() -> int:
    """Memory that this machine can still give to processes."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def check_memory(size_bytes: int, *, memory_per_state: int, shared_memory_per_state: int) -> None:
    """Raise NotRun unless so many times the state are free, as memory and in /dev/shm."""
    available = available_bytes()
    shared = shutil.disk_usage("/dev/shm").free
    if available < memory_per_state * size_bytes or shared < shared_memory_per_state * size_bytes:
        raise NotRun(
            f"a state of {size_bytes >> 20:,} MB needs {memory_per_state}x of it as free memory and "
            f"{shared_memory_per_state}x in /dev/shm; there are {available >> 20:,} MB and {shared >> 20:,} MB"
        )
