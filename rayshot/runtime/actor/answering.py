"""How an actor's process answers questions about itself. They change nothing."""

import os
import time
from typing import Any

from rayshot.format.codec import method_of
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.hooks import ON_SNAPSHOT
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.incarnation import Incarnation
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.channel.outbox import waiting_in
from rayshot.runtime.door import door, here
from rayshot.runtime.door.shared_memory import held_buffers


class Answering:
    """A base of the host's class. `_asked_at`: when each open snapshot was asked for, and the message handled then.

    `_looked_at`: which message was handled at the last look, and when it was first seen. The coordinator makes it look
    every few seconds, with other questions, so no message has to note when its handler begins.
    """

    _incarnation: Incarnation
    _asked_at: dict[SnapshotId, tuple[float, Any]]
    _looked_at: tuple[Any, float] = (None, 0.0)

    @property
    def _process(self) -> ActorProcess:
        """What the actor is in the present life. A method reads it once: it may be another one a moment later."""
        return self._incarnation.process

    @property
    def _worker(self) -> Worker:
        return self._incarnation.worker

    def _look_at_handler(self) -> float:
        """Seconds that the running handler, or hook, runs at least; 0 if none runs."""
        if (hook := self._process.outside.hook) is not None:
            return time.monotonic() - hook[1]
        at, now, life = self._worker.at, time.monotonic(), self._process.identity.incarnation
        was_at, since = self._looked_at
        if at is None or was_at != (life, at):
            self._looked_at = (life, at), now
            return 0.0
        return now - since

    @door.method("control")
    def receivers(self) -> tuple[str, ...]:
        """The receivers of this actor's channels, sorted."""
        process = self._process
        with process.runner.lock:
            return tuple(sorted(process.channels.out))

    @door.method("control")
    def progress(self, snapshot: SnapshotId) -> tuple[bool, str, float]:
        """Why a snapshot waits here: (recorded, what runs or "", seconds that it runs at least).

        What runs is the method of a handler, a hook, or the function of `on_snapshot`.
        """
        process = self._process
        if (seals_s := process.outside.seals_s(snapshot)) is not None:
            return True, ON_SNAPSHOT, seals_s
        handling, hook = self._worker.handling, process.outside.hook
        with process.runner.lock:
            asked_at, was_handling = self._asked_at.get(snapshot, (time.monotonic(), None))
            recorded = snapshot not in process.recording.captures
        if hook is not None:
            return recorded, method_of(hook[0]), time.monotonic() - hook[1]
        if handling is None or handling is not was_handling:
            return recorded, "", 0.0
        return recorded, method_of(handling) or "a reply", time.monotonic() - asked_at

    @door.method("control")
    def status(self) -> dict[str, Any]:
        """Counters for `system.status()`."""
        process, handling, handled_s = self._process, self._worker.runs, self._look_at_handler()
        with process.runner.lock:
            return {
                "node": here.address(),
                "handler": "" if handling is None or process.runner.idle else method_of(handling) or "a reply",
                "waits_for": process.recording.waits_for,
                "waits_s": process.suspension.waits_s,
                "waits_at": process.suspension.waits_at,
                "handled_s": handled_s,
                "mailbox": len(process.channels.mailbox),
                "held": process.suspension.may_begin,
                "outbox": process.channels.waiting,
                "dead_letters": len(process.channels.dead_letters),
                "pinned_bytes": sum(buffer.nbytes for buffer in held_buffers()),
                "waiting": waiting_in(process.channels.out.values()),
                "born": process.cell.born,
                "down": process.runner.down is not None,
                "pid": os.getpid(),
            }

    @door.method("control")
    def figures(self) -> tuple[str, int, int, int, int, bool, bool]:
        """The figures of this actor for the system's metrics: the fields of `metrics.ActorFigures`."""
        process = self._process
        specification = process.cell.specification
        self._look_at_handler()
        with process.runner.lock:
            return (
                "" if specification is None else specification.class_name,
                sum(process.channels.mailbox.received().values()),
                process.channels.dead_letters.count,
                len(process.channels.mailbox),
                process.channels.waiting,
                not process.runner.idle,
                any(channel.full for channel in process.channels.out.values()),
            )

    @door.method("control")
    def surroundings(self) -> Any:
        """Where this process runs: its `ProcessSurroundings`."""
        from rayshot.proving.surroundings import ProcessSurroundings  # noqa: PLC0415 - late: few actors are asked

        return ProcessSurroundings.here()

    @door.method("control")
    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """The last dead letters."""
        return self._process.channels.dead_letters.all()
