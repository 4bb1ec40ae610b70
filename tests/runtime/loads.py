"""Actors under load, in a module that Ray's workers can import; and what their processes need."""

import os
import time
from pathlib import Path
from typing import Any

import rayshot


@rayshot.actor(capture="inline")
class Consumer:
    """Takes numbers in order; each costs it so many seconds."""

    def __init__(self, handler_s: float = 0.0) -> None:
        self.handler_s = handler_s
        self.count = 0
        self.wrong: list[tuple[int, int]] = []

    def take(self, number: int, _ballast: bytes = b"") -> None:
        """Take the next number."""
        if number != self.count:
            self.wrong.append((self.count, number))
        self.count = number + 1
        time.sleep(self.handler_s)

    def wait_for(self, file: str) -> None:
        """Take nothing until there is a file."""
        while not Path(file).exists():
            time.sleep(0.01)

    def read(self) -> tuple[int, list[tuple[int, int]]]:
        """How many were taken, and what was wrong."""
        return self.count, self.wrong


@rayshot.actor(capture="inline")
class Producer:
    """Tells a consumer numbers, one in each handler; each costs it so many seconds."""

    def __init__(self, consumer: Any, handler_s: float, ballast_bytes: int) -> None:
        self.consumer, self.handler_s, self.ballast_bytes = consumer, handler_s, ballast_bytes
        self.count = 0
        self.going = True

    def go_on(self, me: Any) -> None:
        """Tell one, and go on."""
        if self.going:
            self.consumer.take.tell(self.count, bytes(self.ballast_bytes))
            self.count += 1
            time.sleep(self.handler_s)
            me.go_on.tell(me)

    def stop(self) -> int:
        """Tell no more. Returns how many were told."""
        self.going = False
        return self.count


def rss_bytes(pid: int | None = None) -> int:
    """The memory of a process, without what it only shares with others."""
    lines = Path(f"/proc/{pid or os.getpid()}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) << 10


def descriptors() -> int:
    """The open files of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the numbers alone
