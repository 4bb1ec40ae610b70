"""What an actor is in one life of its system, and how this ends when the system goes back to a snapshot.

Each life of an actor gets new objects: machine, channels, mailbox, state, outcomes. So nothing that is late, such as a
timer or an answer, can reach the new life through an object of the old one. Only Ray's actor stays, with its process
and its sockets.
"""

import gc
import logging
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from rayshot.errors import SystemRecovering, SystemStopped
from rayshot.protocol.events import DeadlinePassed
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.worker import Worker

log = logging.getLogger("rayshot")
HANDLER_S = 0.5
"""A handler of the old life has so many seconds to end, then as many after an exception was raised in it. So has its
hook that says that the actor goes back."""


@dataclass(frozen=True)
class Incarnation:
    """An actor's process in one life, and the worker that runs its handlers."""

    process: ActorProcess
    worker: Worker

    @property
    def rolls_back(self) -> bool:
        """Whether this life is over because the system goes back to a snapshot."""
        return isinstance(self.process.runner.down, SystemRecovering)

    def begin(self, end_process: Callable[[int], object] = os._exit) -> None:
        """The actor was loaded: call its hook, then handle messages when it is resumed.

        Raises HookFailed. If the hook does not end, end this process: another one takes its place.
        """
        self.worker.start()
        with ExitStack() as failed:
            failed.callback(self._give_up, end_process)
            self.worker.tell_of_restore()
            failed.pop_all()

    def _give_up(self, end_process: Callable[[int], object]) -> None:
        process = self.process
        with process.runner.lock:
            process.shut(SystemStopped(f"actor {process.name!r} could not be loaded"))
        if not self.worker.join(HANDLER_S):
            log.error("%s: its process ends", process.name, exc_info=sys.exception())
            end_process(1)

    def leave(self, why: SystemRecovering, end_process: Callable[[int], object] = os._exit) -> None:
        """Work no more. If a handler or the hook does not end in time, end this process: another takes its place.

        A handler that went on would use the files and connections of the new life beside it.
        """
        process, worker = self.process, self.worker
        with process.runner.lock:
            for snapshot in process.runner.participant.open_snapshots:
                process.runner.handle(DeadlinePassed(snapshot))  # what was captured for it is removed
            process.shut(why)
        for has_ended in (worker.rest, worker.join):
            if not has_ended(HANDLER_S):
                worker.interrupt()
                if not has_ended(HANDLER_S):
                    log.error("%s: a handler does not end, and the system goes back: its process ends", process.name)
                    end_process(1)
        process.cell.drop()
        gc.collect()
