"""Capture of an actor's state: inline, or in a forked child, which stops the actor for some milliseconds only.

The child has the parent's memory as it was at the fork, so it can pickle while the actor goes on. The child uses only
its own thread, its pipe and a spill file, and ends by `_exit`. It closes every other descriptor: a child that held the
raylet's socket would hide its parent's death. It dies with the worker, the thread that forked it, and so with its
actor. Otherwise a child that hangs would outlive the actor, and could leave a spill file that nobody removes.

Shared memory can change after the fork: `shared_memory` says which of it a child may read. If a state is in other
shared memory, or holds ObjectRefs or handles of plain Ray actors, it is captured inline.
"""

import ctypes
import errno
import gc
import itertools
import logging
import mmap
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgpack

from rayshot.errors import RayshotError, StateNotSerializable
from rayshot.format.paths import find_paths
from rayshot.format.pickling import dump_state, shapes_in_messages
from rayshot.format.references import provide_plain_handles
from rayshot.format.shape_tables import pack_shapes
from rayshot.model.cell import Cell
from rayshot.runtime.door.shared_memory import Buffer, held_buffers, maps_data, take_shared_memory_away
from rayshot.runtime.wire.reports import Captured

log = logging.getLogger("rayshot")
FORK_BYTES_MIN = 1 << 20
"""For states with more bytes than this, a fork stops the actor for less time than pickling does."""
_FORK_RESIDENT_BYTES_MIN = 300 << 20
INLINE_IN_A_ROW_MAX = 1 << 10
"""At most so many captures are made inline before a fork is tried again."""
BEGIN_S = 1.0
"""A child that has not begun after so many seconds never will: a normal child needs some milliseconds."""
TRIAL_S = 1.0
"""An actor with shared memory waits so many seconds for its first child: it may find the state in that memory."""
REFERENCES, SHARED_MEMORY = "ObjectRefs", "shared memory"
"""What a child may find in a state, so that the actor must capture it inline."""
_BEGUN = b"b"
_NO_ANSWER: bytes = msgpack.packb(None)
_FOUND_SHARED = "the state is in memory that others can write, as a mapped file is: captured inline from now on"
_COMES_APART = (
    "%s: its state has arrays that share memory, and after a restore each of them has its own: they are arrays of "
    "objects, or lie far apart in a large array. Keep the large array, and make the others from it in on_restore"
)
_COPY_BYTES = 8 << 20
_SPOOL_PREFIX, _SPOOL_SUFFIX = "rayshot", ".spill"
_counts = itertools.count(1)
"""One counter for the process: an actor that goes back to a snapshot gets another capturer, but no used names."""
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_PR_SET_PDEATHSIG = 1
_FLAGS_FIELD, _PF_EXITING = 6, 0x4
"""A field of /proc/PID/stat, counted after the name, and a flag in it; see proc(5) and the kernel's sched.h."""
_process = ctypes.PyDLL(None)  # loaded here, because the child must not take a lock of the loader


class CaptureChild:
    """A forked child that pickles a state into a spill file. It reads the buffers `held`, which stay until it ends."""

    def __init__(self, pid: int, pipe: int, spill: Path, held: Sequence[Buffer] = ()) -> None:
        self._pid = pid
        self._pipe = pipe
        self._held = held
        self._received, self._silent = b"", False
        self._outcome: Captured | StateNotSerializable | None = None
        self._readable = select.poll()  # `select` takes no descriptor above 1023, and actors have as many as they like
        self._readable.register(pipe, select.POLLIN)
        self._spill = spill
        self._lock = threading.Lock()
        self._reaped = False
        self.cancelled = False
        self._forked_at = time.monotonic()

    @property
    def age_s(self) -> float:
        """Seconds since the fork."""
        return time.monotonic() - self._forked_at

    def cancel(self) -> None:
        """Kill the child, because nobody needs the state any more. `wait` then raises."""
        self.cancelled = True
        self._kill()

    def has_begun(self, timeout_s: float) -> bool:
        """Whether the child runs Python code, or has ended, within `timeout_s` seconds."""
        return bool(self._readable.poll(1e3 * timeout_s))

    def has_ended(self, timeout_s: float) -> bool:
        """Whether the child ends within `timeout_s` seconds."""
        with suppress(TimeoutError):
            self._read(time.monotonic() + timeout_s)
            return True
        return False

    def discard(self) -> None:
        """Kill the child, whatever it does, and remove its spill file."""
        self._reap()
        self._spill.unlink(missing_ok=True)  # only now the child cannot make a new one

    def _kill(self) -> None:
        with self._lock:
            if not self._reaped:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> Captured:
        """Wait for the child. Raises StateNotSerializable, or TimeoutError after killing it."""
        if self._outcome is None:
            self._outcome = self._wait(time.monotonic() + timeout_s)
        if isinstance(self._outcome, StateNotSerializable):
            raise self._outcome
        return self._outcome

    def _wait(self, deadline: float) -> Captured | StateNotSerializable:
        with ExitStack() as failed:
            failed.callback(self.discard)
            self._read(deadline)
            failed.pop_all()
        status = self._reap()
        match msgpack.unpackb(self._received.removeprefix(_BEGUN) or _NO_ANSWER):
            case [True, "pickle" | "cloudpickle" as codec, list(sizes), bool(apart), bytes(shapes)]:
                return Captured(codec, tuple(sizes), (), str(self._spill), (), apart, shapes)
            case [False, str(message), str(path), str(inline)]:
                refusal = StateNotSerializable(message, path=path, inline=inline)
            case None if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV:
                refusal = StateNotSerializable(_FOUND_SHARED, pid=self._pid, inline=SHARED_MEMORY)
            case None:
                message = f"the child that pickles the state (pid {self._pid}) died"
                refusal = StateNotSerializable(message, pid=self._pid)
            case answer:
                raise AssertionError(answer)
        self._spill.unlink(missing_ok=True)
        return refusal

    def _reap(self) -> int:
        os.close(self._pipe)
        self._kill()
        with self._lock:
            _, status = os.waitpid(self._pid, 0)
            self._reaped = True
        self._held = ()
        return status

    def _read(self, deadline: float) -> None:
        """Read the child's answer until the child ends. Raises TimeoutError."""
        while not self._silent:
            if not self._readable.poll(1e3 * max(0.0, deadline - time.monotonic())):
                raise TimeoutError("the child that pickles the state did not end in time")
            part = os.read(self._pipe, 65536)
            self._received += part
            self._silent = not part


class Capturer:
    """Captures one actor's state by the `method` of its class; "auto" decides from the size of the last capture."""

    def __init__(self, name: str, spill_folder: str) -> None:
        self.method = "auto"
        self._name = name
        self._spill_folder = spill_folder
        self._last_size: int | None = None
        self._inline_left, self._inline_again = 0, 1
        self._holds_references = self._in_shared_memory = self._has_forked = self._has_said_apart = False

    def capture(self, cell: Cell) -> Captured | CaptureChild:
        """Capture the state as it is now. Call between two handlers. Raises StateNotSerializable."""
        if self._inline_left:
            self._inline_left -= 1
            return self._inline(cell)
        return self._fork(cell) if self._by_fork() else self._inline(cell)

    def learn(self, captured: Captured) -> None:
        """Remember how large the state was, and that a child could write it. Say once that arrays come apart."""
        self._last_size = captured.size
        if captured.comes_apart and not self._has_said_apart:
            self._has_said_apart = True
            log.warning(_COMES_APART, self._name)
        if captured.spill is not None:
            self._inline_again = 1

    def child_failed(self, error: Exception) -> None:
        """A child failed: capture inline the next time, and while the state holds ObjectRefs or plain handles.

        A child cannot keep ObjectRefs alive, and Ray's locks, which a plain handle needs to be pickled, may be held by
        threads that a child does not have. A state in shared memory is captured inline from now on. Each further
        failure in a row doubles the number of inline captures: many actors may share the room for spills, and each
        looks at the free room before the others have written.
        """
        self._inline_left = self._inline_again
        self._inline_again = min(2 * self._inline_again, INLINE_IN_A_ROW_MAX)
        inline = error.evidence.get("inline") if isinstance(error, StateNotSerializable) else None
        self._holds_references = inline == REFERENCES
        self._in_shared_memory |= inline == SHARED_MEMORY

    def _by_fork(self) -> bool:
        if (
            self._holds_references
            or self._in_shared_memory
            or (self._last_size is not None and self._last_size > _room(self._spill_folder))
        ):
            return False
        if self.method != "auto":
            return self.method == "fork"
        if self._last_size is None:
            return _resident_bytes() >= _FORK_RESIDENT_BYTES_MIN
        return self._last_size >= FORK_BYTES_MIN

    def _inline(self, cell: Cell) -> Captured:
        pickled = dump_state(cell.state(), self._name, cell.instance)
        parts = (pickled.stream, *(bytes(buffer) for buffer in pickled.buffers))
        sizes = tuple(map(len, parts))
        shapes = pack_shapes(shapes_in_messages(), pickled.shapes)
        captured = Captured(pickled.codec, sizes, parts, None, pickled.references, pickled.comes_apart, shapes)
        self._holds_references = bool(pickled.references or pickled.handles)
        self.learn(captured)
        return captured

    def _fork(self, cell: Cell) -> Captured | CaptureChild:
        """Fork. If the first fork finds the state in shared memory, capture it inline at once."""
        child = self._begun(cell)
        tried, self._has_forked = self._has_forked, True
        if not tried and maps_data() and child.has_ended(TRIAL_S):
            try:
                child.wait(0.0)
            except StateNotSerializable as error:  # of another error, those hear who wait for the child
                if error.evidence.get("inline") == SHARED_MEMORY:
                    self.child_failed(error)
                    return self._inline(cell)
        return child

    def _begun(self, cell: Cell) -> CaptureChild:
        """Fork, and fork once more if the child hangs.

        In Python 3.11 a child first takes the lock of the list of thread states. When a thread of Ray enters Python, it
        adds its state under that lock, without the interpreter's lock. If it does so at the moment of the fork, the
        child waits for a thread that it does not have. So this method waits for the child's first byte.
        """
        state = cell.state()  # called in the parent, where its errors are seen
        child = self._forked(state, cell)
        if child.has_begun(BEGIN_S):
            return child
        child.discard()
        return self._forked(state, cell)

    def _forked(self, state: Any, cell: Cell) -> CaptureChild:
        spill = Path(self._spill_folder) / f"{_spill_prefix()}{os.getpid()}-{next(_counts)}{_SPOOL_SUFFIX}"
        read_end, write_end = os.pipe()
        parent = os.getpid()
        held = held_buffers()
        pid = os.fork()
        if pid == 0:
            _die_with(parent)
            _pickle_in_child(state, cell.instance, self._name, spill, write_end, held)
        os.close(write_end)
        return CaptureChild(pid, read_end, spill, held)


def spill_folder() -> str:
    """The folder for captures on the way from the actor to its vault: in memory if possible, else on disk."""
    shared = Path("/dev/shm")  # noqa: S108 - names in it hold the pid, files are made exclusively
    return str(shared) if os.access(shared, os.W_OK) else tempfile.gettempdir()


def read_spill(captured: Captured) -> list[memoryview]:
    """The parts of a spilled state, mapped and not copied. The file is removed; the mapping keeps its bytes.

    Raises OSError if the file is missing or has another size: an incomplete state must not be committed.
    """
    assert captured.spill is not None
    path = Path(captured.spill)
    with path.open("rb") as file:
        path.unlink()
        size = os.fstat(file.fileno()).st_size
        if size != captured.size:
            raise OSError(f"{path} has {size:,} bytes instead of {captured.size:,}")
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if size else memoryview(b"")
    parts, offset = [], 0
    for size in captured.sizes:
        parts.append(whole[offset : offset + size])
        offset += size
    return parts


def sweep_spills(folder: str) -> bool:
    """Remove the spills of actors that died before their vault had read them. Returns whether others have spills.

    The others are living actors. Containers may share the folder but not see each other's processes: spills of other
    containers stay, and do not count.
    """
    others, prefix = False, _spill_prefix()
    for path in Path(folder).glob(f"{prefix}*{_SPOOL_SUFFIX}"):
        pid = path.name.removeprefix(prefix).partition("-")[0]
        if not pid.isdecimal():
            continue
        if _lives(pid):
            others = True
            continue
        with suppress(OSError):  # it belongs to another user, or another vault was faster
            path.unlink()
    return others


def _spill_prefix() -> str:
    """The prefix with this process's PID namespace: only inside it does a PID name the owner (namespaces(7))."""
    namespace = _PID_NAMESPACE.stat().st_ino if _PID_NAMESPACE.exists() else 0
    return f"{_SPOOL_PREFIX}-{namespace}-"


def _lives(pid: str) -> bool:
    """Whether a process lives and is not exiting. Ray reports a death as soon as the sockets are closed."""
    try:
        fields = Path("/proc", pid, "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return not int(fields[_FLAGS_FIELD]) & _PF_EXITING


def _die_with(parent: int) -> None:
    """Have this process killed when the thread that forked it ends. That thread may have ended already."""
    if sys.platform == "linux":
        _process.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _pickle_in_child(state: Any, own: object, name: str, spill: Path, pipe: int, held: Sequence[Buffer]) -> None:
    """Pickle the state into the spill, write an answer to the pipe, and exit. Never returns."""
    status = 1
    try:
        os.write(pipe, _BEGUN)
        gc.disable()  # only the actor may run finalizers of its garbage
        os.closerange(0, pipe)
        os.closerange(pipe + 1, min(1 << 20, os.sysconf("SC_OPEN_MAX")))
        try:
            take_shared_memory_away(held)
            provide_plain_handles(lambda _handle: (bytes, ()), lambda *_: None)  # Ray may hold its locks
            pickled = dump_state(state, name, own)
            if pickled.references:
                path = pickled.references[0].path
                raise StateNotSerializable(
                    f"{path} is an ObjectRef: captured inline from now on", path=path, inline=REFERENCES
                )
            if pickled.handles:
                (path,) = find_paths(state, name, pickled.handles[:1])
                raise StateNotSerializable(
                    f"{path} is the handle of a plain Ray actor: captured inline from now on",
                    path=path,
                    inline=REFERENCES,
                )
            sizes = [len(pickled.stream), *(buffer.nbytes for buffer in pickled.buffers)]
            _write_spill(spill, [memoryview(pickled.stream), *pickled.buffers])
            shapes = pack_shapes(shapes_in_messages(), pickled.shapes)
            answer: list[Any] = [True, pickled.codec, sizes, pickled.comes_apart, shapes]
        except RayshotError as error:
            evidence = error.evidence
            answer = [False, error.message, str(evidence.get("path", name)), str(evidence.get("inline", ""))]
        except OSError as error:
            answer = [False, f"{name}: the state cannot be spilled: {error}", name, ""]
            if error.errno == errno.EFAULT:
                answer = [False, _FOUND_SHARED, name, SHARED_MEMORY]
        try:
            os.write(pipe, msgpack.packb(answer))
        except BrokenPipeError:  # the actor died in the meantime
            spill.unlink(missing_ok=True)
        status = 0
    finally:
        os._exit(status)


def _write_spill(spill: Path, parts: list[memoryview]) -> None:
    file = os.open(spill, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    for part in parts:
        for start in range(0, part.nbytes, _COPY_BYTES):
            rest = part[start : start + _COPY_BYTES]
            while rest.nbytes:
                rest = rest[os.write(file, rest) :]
    os.close(file)


def _room(folder: str) -> int:
    """Bytes that a spill may have. A spill without room aborts its snapshot, and would do so again and again."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
