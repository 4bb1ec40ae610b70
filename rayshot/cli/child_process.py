"""Ask questions in a child process that this process might not survive.

Ray's core ends its whole process, with exit code 1 and without a message, if a head is away for a minute while it is
asked. A command that may wait this long asks from a child, and can say what happened when the child has ended.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

from rayshot.errors import ClusterUnreachable

Answer = TypeVar("Answer")
LOOK_S = 1.0
_forking = multiprocessing.get_context("fork")


class HeadLost(ClusterUnreachable):
    """The child ended without an answer: the head of its cluster was away for too long while it was asked."""

    def __init__(self) -> None:
        super().__init__(
            "the head of the Ray cluster went away before it answered. When it is back, `rayshot status` shows "
            "the system, and `rayshot list STORAGE` its snapshots"
        )


def ask_apart(question: Callable[[], Answer]) -> Answer:
    """Return what `question` returns in a child. Raises what it raises, and HeadLost if the child ended before.

    The child ends with this process at the latest, and ignores Ctrl-C, which is for this process. A process that has
    loaded Ray asks directly: a fork of it would lack Ray's threads.
    """
    if "ray" in sys.modules:
        return question()
    answers, sending = _forking.Pipe(duplex=False)
    child = _forking.Process(target=_answer, args=(question, sending, os.getpid()))
    child.start()
    sending.close()
    try:
        answer, error = answers.recv()
    except EOFError:
        raise HeadLost from None
    finally:
        answers.close()
        child.kill()
        child.join()
    if error is not None:
        raise error
    return answer  # type: ignore[no-any-return]  # it came through the pipe


def _answer(question: Callable[[], object], sending: Connection, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        answer = question()
    except Exception as error:  # noqa: BLE001 - it is raised in the process that awaits the answer
        sending.send((None, error))
    else:
        sending.send((answer, None))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
