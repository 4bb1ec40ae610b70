"""Who goes first on a busy machine: those who do little and for whom a whole snapshot waits.

An actor's handlers may keep every processor busy. Then each call to the coordinator or a vault waits for its turn
several times, and a snapshot of a few milliseconds takes hundreds.
"""

import contextlib
import os
from pathlib import Path

USUAL = os.getpriority(os.PRIO_PROCESS, 0)
FIRST = -10
"""A nice value. Lowering it takes CAP_SYS_NICE, which root has outside of most containers."""


def go_first() -> None:
    """Put all threads of this process, and those that they start, before others, where the system allows it."""
    with contextlib.suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), FIRST)


def go_with_others() -> None:
    """Let the calling thread wait its turn again: it is going to compute for long."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, USUAL)
