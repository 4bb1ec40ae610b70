"""How much memory this machine uses, and whether it has room for a benchmark with a large state."""

import shutil
from pathlib import Path

from benchmarks.report import NotRun

USED = ("AnonPages", "Shmem", "SUnreclaim", "PageTables", "KernelStack")
"""What processes and the kernel hold and cannot be had back by dropping caches."""


def used_bytes() -> int:
    """Memory that this machine holds for processes: what they made, what they share, and what the kernel needs for it.

    Not what is missing of the memory that is available: a virtual machine hands freed pages to its host and counts them
    neither as used nor as free for a second or more.
    """
    found = _meminfo()
    return sum(found[name] for name in USED)


def _meminfo() -> dict[str, int]:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return {line.partition(":")[0]: int(line.split()[1]) << 10 for line in lines}


def check_memory(size_bytes: int, *, memory_per_state: int, shared_memory_per_state: int) -> None:
    """Raise NotRun unless so many times the state are free, as memory and in /dev/shm."""
    available = _meminfo()["MemAvailable"]
    shared = shutil.disk_usage("/dev/shm").free
    if available < memory_per_state * size_bytes or shared < shared_memory_per_state * size_bytes:
        raise NotRun(
            f"a state of {size_bytes >> 20:,} MB needs {memory_per_state}x of it as free memory and "
            f"{shared_memory_per_state}x in /dev/shm; there are {available >> 20:,} MB and {shared >> 20:,} MB"
        )
