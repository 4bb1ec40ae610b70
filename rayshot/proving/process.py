"""The prover: a process that forks a scratch process for each trial, and stays as it was.

Theory of operation. It begins as a fresh interpreter, so it has nothing of what the living actors have: no registry
that they filled, no lock, no connection. It has one thread, so a fork of it lacks none. It loads nothing itself: each
trial runs in a child, which may hang, die or eat its memory, and ends by `_exit`. If a child imported modules and still
had one thread, the prover imports them too, so that the next children need not. It ends when its socket closes, so with
whoever asks, and its child ends with it.

A trial that is refuted is made once more, exactly. Only the same error twice is an answer.
"""

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgpack

from rayshot.proving.loading import TrialLoad
from rayshot.proving.messages import receive, send
from rayshot.proving.trial import Trial, TrialAnswer

IMPORT_S = 30.0
"""The modules of a state may take so many seconds to import."""
_IMPORTED = b"i"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.PyDLL(None)  # loaded here, because a child must not take a lock of the loader


def serve(descriptor: int) -> None:
    """Make the trials that come through this socket, until it closes."""
    connection = socket.socket(fileno=descriptor)
    while (request := receive(connection)) is not None:
        packed, (file,) = request
        answer, modules = _prove(Trial.unpack(packed), file, connection)
        os.close(file)
        send(connection, answer.pack())
        for module in modules:
            with suppress(Exception):
                importlib.import_module(module)


def _prove(trial: Trial, file: int, connection: socket.socket) -> tuple[TrialAnswer, list[str]]:
    """The answer to a trial, and the modules that this process may import too."""
    first, modules = _in_child(trial, file, connection, exactly=False)
    if first.word != "refuted":
        return first, modules
    again, _ = _in_child(trial, file, connection, exactly=True)
    if again.word != "refuted" or again.error != first.error:
        return TrialAnswer("unproved", f"{first.reason}; another time: {again.reason or 'it loaded'}"), modules
    return again, modules


def _in_child(trial: Trial, file: int, connection: socket.socket, *, exactly: bool) -> tuple[TrialAnswer, list[str]]:
    read_end, write_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _die_with(parent)
            os.setpgid(0, 0)
            connection.close()
            os.close(read_end)
            _load(trial, file, write_end, exactly=exactly)
        finally:
            os._exit(1)
    os.close(write_end)
    try:
        return _heard(read_end, connection, trial.load_s)
    finally:
        for kill in (os.killpg, os.kill):  # with all that it started; a child that has not begun has no group
            with suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read_end)


def _heard(pipe: int, connection: socket.socket, load_s: float) -> tuple[TrialAnswer, list[str]]:
    """What the child at the other end of the pipe says."""
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    waiting.register(connection, select.POLLHUP)
    said, deadline, what = b"", time.monotonic() + IMPORT_S, "import its modules"
    while True:
        events = dict(waiting.poll(1e3 * max(0.0, deadline - time.monotonic())))
        if connection.fileno() in events:
            return TrialAnswer("unproved", "nobody asks any more"), []
        if not events:
            limit_s = load_s if said else IMPORT_S
            return TrialAnswer("unproved", f"it took longer than {limit_s:g} s to {what}"), []
        part = os.read(pipe, 65536)
        if part and not said:
            deadline, what = time.monotonic() + load_s, "load"
        said += part
        if not part:
            break
    try:
        packed, modules = msgpack.unpackb(said.removeprefix(_IMPORTED))
        return TrialAnswer.unpack(packed), modules
    except (ValueError, TypeError, msgpack.UnpackException):
        return TrialAnswer("unproved", f"the process that had to {what} died"), []


def _load(trial: Trial, file: int, pipe: int, *, exactly: bool) -> None:
    """The child's work."""
    gc.disable()
    before = set(sys.modules)
    load = TrialLoad(trial, file)
    load.import_modules()
    os.write(pipe, _IMPORTED)
    alone = len(list(Path("/proc/self/task").iterdir())) == 1
    modules = [name for name in sys.modules if name not in before] if alone else []
    answer = load.run(exactly=exactly)
    said = msgpack.packb((answer.pack(), modules))
    while said:
        said = said[os.write(pipe, said) :]
    os._exit(0)


def _die_with(parent: int) -> None:
    """Have this process killed when its parent dies, which may have died already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
