"""Heartbeats: a life of a system says in its storage that it runs, so that no program begins or resumes it elsewhere.

A heartbeat is an object that names its life. The clock of the store counts its age. Objects never change, so a life
writes the next heartbeat before it removes the last. A life that ends removes its own. A life that was killed cannot:
it counts as running until its last heartbeat is ALIVE_S old. A program on the same machine knows earlier, because it
sees that the process is gone. A heartbeat fences nothing: EPOCH does that.
"""

import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from rayshot.errors import LivesElsewhere
from rayshot.format.bounds import check_text
from rayshot.log.marks import LIFE_DIGITS, Kind, Marks, store_now
from rayshot.log.records import check_life
from rayshot.places.store import Store

HEARTBEAT = Kind("heartbeat", "heartbeats", {"incarnation": check_life, "host": check_text, "process": check_text})
BEAT_S = 15.0
"""The time between two heartbeats."""
ALIVE_S = 60.0
"""For how long a life counts as running after its last heartbeat."""
HOST_LENGTH_MAX = 128
UNKNOWN = "?"
"""Stands for a host or process that the operating system does not tell."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The life `incarnation` of a system ran on `host`, `age_s` seconds ago by the clock of the store.

    The life cannot run without `process`, which is written as `process_mark` writes it.
    """

    incarnation: int
    host: str
    process: str
    age_s: float

    @property
    def alive(self) -> bool:
        """Whether the life may still run."""
        return self.age_s < ALIVE_S and not _is_gone(self.process)


class Beating:
    """Writes the heartbeats of one life. One thread at a time may use it.

    Args:
        store: the storage of the system.
        system: the name of the system.
        incarnation: the number of the life.
        pid: the process without which the life cannot run.
    """

    def __init__(self, store: Store, system: str, incarnation: int, pid: int) -> None:
        self._store = store
        self._marks = Marks(store, system, HEARTBEAT)
        self._incarnation = incarnation
        self._number = 0
        self._host = socket.gethostname()[:HOST_LENGTH_MAX] or UNKNOWN
        self._process = process_mark(pid)

    def beat(self) -> None:
        """Write a heartbeat and remove the earlier ones, also of earlier lives. Raises StoreError."""
        name = f"{self._incarnation:0{LIFE_DIGITS}}-{self._number:08}-{uuid.uuid4().hex}"
        key = self._marks.write(name, incarnation=self._incarnation, host=self._host, process=self._process)
        self._number += 1
        self._clear(key)

    def end(self) -> None:
        """Remove all heartbeats of this life and of earlier ones. Raises StoreError."""
        self._clear(None)

    def _clear(self, but: str | None) -> None:
        later = f"{self._marks.folder}/{self._incarnation + 1:0{LIFE_DIGITS}}"
        for entry in self._marks.listed():
            if entry.key < later and entry.key != but:
                self._store.delete(entry.key)


def last_heartbeat(store: Store, system: str) -> Heartbeat | None:
    """The last heartbeat of the latest life; None if that life ended by itself, or no life ever ran.

    Raises BadManifest for a heartbeat that cannot be read, and StoreError.
    """
    last = next(iter(Marks(store, system, HEARTBEAT).present(newest=1)), None)
    if last is None:
        return None
    return Heartbeat(**last.said, age_s=max(0.0, store_now(store, system) - last.written_at))


def check_nobody_lives(store: Store, system: str) -> None:
    """Raise LivesElsewhere if another cluster may still run a life of `system`. Also raises StoreError."""
    last = last_heartbeat(store, system)
    if last is None or not last.alive:
        return
    left_s = ALIVE_S - last.age_s
    until = time.strftime("%H:%M:%S", time.localtime(time.time() + left_s))
    raise LivesElsewhere(
        f"life {last.incarnation} of system {system!r} may still run in another cluster: {last.host} said "
        f"{last.age_s:.0f} s ago that it runs. If it does not say so again, it counts as dead at {until}, in "
        f"{left_s:.0f} s: try again then. If you know that it is dead, or is to end, rayshot.resume({system!r}, ..., "
        f"takeover=True) goes on now. Should it run after all, it takes no more snapshots and stops, and what it does "
        f"behind its last one is lost",
        system=system,
        incarnation=last.incarnation,
        host=last.host,
        seconds_left=left_s,
    )


def process_mark(pid: int) -> str:
    """Name a process uniquely, by machine, name space, number and start time; UNKNOWN if one of them is unknown."""
    place, started = _place(), _started(pid)
    return UNKNOWN if place is None or started is None else f"{place} pid {pid} {started}"


def _is_gone(mark: str) -> bool:
    """Whether the process of `mark` is certainly gone: it ran on this machine and is not there any more."""
    place, _, process = mark.rpartition(" pid ")
    pid, _, started = process.partition(" ")
    return place == _place() and pid.isdecimal() and _started(int(pid)) != started


def _place() -> str | None:
    """The machine's boot and the name space of process numbers; None if the operating system does not tell."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process started, as the operating system counts; None if it has ended or the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
