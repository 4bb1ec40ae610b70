"""Heartbeats: a life of a system says in its storage that it runs, so that no program begins or resumes it elsewhere.

A heartbeat is an object that names its life. The clock of the store counts its age. Objects never change, so a life
writes the next heartbeat before it removes the last. A life that ends removes its own. A life that was killed cannot:
it counts as running until its last heartbeat is ALIVE_S old. A program on the same machine knows earlier, because it
sees that the process is gone. A heartbeat fences nothing: EPOCH does that.
"""

import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

from rayshot.errors import BadManifest, KeyNotFound, StoreUnavailable
from rayshot.format import canonical
from rayshot.format.bounds import check_count, check_text
from rayshot.store.clock import store_now
from rayshot.store.layout import heartbeat_folder
from rayshot.store.once import create_once
from rayshot.store.store import Store

HEARTBEAT_FORMAT = 1
HEARTBEAT_BYTES_MAX = 4096
BEAT_S = 15.0
"""The time between two heartbeats."""
ALIVE_S = 60.0
"""For how long a life counts as running after its last heartbeat."""
LIFE_DIGITS = 10
HOST_LENGTH_MAX = 128
LOOKS_MAX = 20
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
        self._folder = heartbeat_folder(system)
        self._incarnation = incarnation
        self._number = 0
        self._data = canonical.pack(
            {
                "format": HEARTBEAT_FORMAT,
                "incarnation": incarnation,
                "host": socket.gethostname()[:HOST_LENGTH_MAX] or UNKNOWN,
                "process": process_mark(pid),
            }
        )

    def beat(self) -> None:
        """Write a heartbeat and remove the earlier ones, also of earlier lives. Raises StoreError."""
        key = f"{self._folder}/{self._incarnation:0{LIFE_DIGITS}}-{self._number:08}-{uuid.uuid4().hex}"
        create_once(self._store, key, self._data)
        self._number += 1
        self._clear(key)

    def end(self) -> None:
        """Remove all heartbeats of this life and of earlier ones. Raises StoreError."""
        self._clear(None)

    def _clear(self, but: str | None) -> None:
        later = f"{self._folder}/{self._incarnation + 1:0{LIFE_DIGITS}}"
        for entry in list(self._store.list(self._folder)):
            if entry.key < later and entry.key != but:
                self._store.delete(entry.key)


def last_heartbeat(store: Store, system: str) -> Heartbeat | None:
    """The last heartbeat of the latest life; None if that life ended by itself, or no life ever ran.

    Raises BadManifest for a heartbeat that cannot be read, and StoreError.
    """
    for _ in range(LOOKS_MAX):
        last = max(store.list(heartbeat_folder(system)), key=lambda entry: entry.key, default=None)
        if last is None:
            return None
        try:
            data = store.read_range(last.key, 0, HEARTBEAT_BYTES_MAX + 1)
        except KeyNotFound:  # the next one has been written, or the life has ended
            continue
        return _decode(data, last.key, max(0.0, store_now(store, system) - last.modified))
    raise StoreUnavailable(f"{heartbeat_folder(system)} changed during each of {LOOKS_MAX} reads; try again")


def _decode(data: bytes, key: str, age_s: float) -> Heartbeat:
    what = f"the heartbeat {key}"
    match canonical.unpack(data, what=what, bytes_max=HEARTBEAT_BYTES_MAX):
        case {"format": 1, "incarnation": incarnation, "host": host, "process": process}:
            return Heartbeat(
                check_count(incarnation, f"the incarnation in {what}", smallest=1),
                check_text(host, f"the host in {what}"),
                check_text(process, f"the process in {what}"),
                age_s,
            )
        case _:
            raise BadManifest(f"{what} was not written by rayshot, or is damaged; delete this object")


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
