"""The end of a prover that asks: it starts the process, gives it trials, and ends it."""

import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from rayshot.proving.messages import receive, send
from rayshot.proving.process import IMPORT_S
from rayshot.proving.surroundings import ProcessSurroundings
from rayshot.proving.trial import Trial, TrialAnswer

PROVING = "RAYSHOT_PROVING"
"""The variable that is "1" in processes that load states for trial."""
START_S = 10.0
"""A prover has so many seconds more than the limits of its trial, to start and to answer."""
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rayshot.proving.process import serve
serve(int(sys.argv[2]))
"""
_SETTINGS = {
    PROVING: "1",
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Keep Ray from beginning a cluster where a state calls it, and libraries from starting threads when imported."""


class Prover:
    """A prover in these surroundings. It starts with the first trial, and again after it has died. For one thread."""

    def __init__(self, surroundings: ProcessSurroundings) -> None:
        self._surroundings = surroundings
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The process; None while there is none."""
        return None if self._process is None else self._process.pid

    def ask(self, trial: Trial, file: int) -> TrialAnswer:
        """Make a trial of the state in this file. It takes at most the time of its limits.

        Who kills a process that has made earlier trials is not known, so a fresh one then makes it. If that one dies
        too, it was the state.
        """
        had_made_others = self._process is not None
        answer = self._ask(trial, file)
        if answer is None and had_made_others:
            answer = self._ask(trial, file)
        return answer or TrialAnswer("unproved", "the process that proves states died")

    def _ask(self, trial: Trial, file: int) -> TrialAnswer | None:
        """The answer to a trial; None if the process died."""
        try:
            connection = self._connection or self._start()
        except OSError as error:  # a container of its own, or the machine has no room
            self.close()
            return TrialAnswer("unproved", f"no process can be started where the actor runs: {error}")
        connection.settimeout(2 * (IMPORT_S + trial.load_s) + START_S)
        try:
            send(connection, trial.pack(), file)
            answered = receive(connection)
        except TimeoutError:
            self.close()
            return TrialAnswer("unproved", "the process that proves states does not answer")
        except OSError:
            answered = None
        if answered is None:
            self.close()
            return None
        return TrialAnswer.unpack(answered[0])

    def _start(self) -> socket.socket:
        where = self._surroundings
        own, other = socket.socketpair()
        self._connection = own
        with other:
            self._process = subprocess.Popen(  # noqa: S603 - the interpreter of an actor of this system
                [where.executable, "-c", _CODE, json.dumps(where.path), str(other.fileno())],
                env={**where.environment, **_SETTINGS},
                cwd=where.folder,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return own

    def close(self) -> None:
        """End the process, and what it runs. The next trial starts another one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._connection = self._process = None


def spread(parts: Sequence[bytes | memoryview], folder: str | None = None) -> int:
    """A file with these parts, one after the other, that has no name. Raises OSError."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for part in parts:
            rest = memoryview(part)
            while rest.nbytes:
                rest = rest[file.write(rest) :]
        return os.dup(file.fileno())
