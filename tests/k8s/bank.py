"""What the program of the pods says, and what its bank leaves in its storage."""

import re
import time
from pathlib import Path

import rayshot
from rayshot.snapshots.snapshot import Snapshot

SUM = 6000
PATIENCE_S = 240.0
"""A killed life counts as living for 60 s, and the machine is shared."""


def await_line(log: Path, pattern: str) -> str:
    """Wait until the file holds what matches, and return it."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[0]


def snapshots(storage: Path) -> tuple[Snapshot, ...]:
    """All that are committed, the oldest first."""
    return tuple(rayshot.open(storage).system("bank").snapshots())


def latest(storage: Path) -> Snapshot:
    """The one to which the bank would go back now."""
    return rayshot.open(storage).system("bank").latest()


def money(snapshot: Snapshot) -> tuple[int, int]:
    """How much of it is in accounts, and how much in messages."""
    messages = (message for channel in snapshot.channels.values() for message in channel.messages)
    held = sum(state["balance"] for state in snapshot.states().values())
    return held, sum(message.args[0] for message in messages if message.method == "deposit")
