"""How an actor takes part in conclusions; see `protocol.concluding`."""

import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from rayshot.model.cell import Cell
from rayshot.protocol.concluding import ConclusionId, HoldBack, Rest
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.mailbox import Mailbox
from rayshot.runtime.actor.runner import Runner

REST_S = 0.005
"""An actor reports that it rests when it has done so for so long: one that answers many questions would report each."""


class Concluding:
    """Holds an actor back, and reports to the coordinator. Call everything under the lock.

    What the worker calls is only for an actor that is held: see `Runner.held`.
    """

    def __init__(self, runner: Runner, mailbox: Mailbox, cell: Cell) -> None:
        self._runner, self._mailbox, self._cell = runner, mailbox, cell
        self._hold = HoldBack()
        self._until = 0.0
        self._rests_since: float | None = None
        """Since when there is nothing that may begin; None if that is not so."""
        self._is_known = False
        """Whether the coordinator knows that this actor asks."""
        self._has_refused = False
        """Whether a snapshot waits for the end of the constructor."""
        self.begun: Callable[[], None] = lambda: None
        """Called when the actor is held from now on."""

    def _note(self) -> None:
        self._runner.held = self._hold.conclusion is not None

    def next_due(self) -> float:
        """When the worker of a held actor must look here next, by time.monotonic."""
        return self._until if self._rests_since is None else min(self._until, self._rests_since + REST_S)

    def wait(self) -> None:
        """A handler waits for another actor: the coordinator must know that this actor asks.

        A server that asks once, as it begins, is still a server.
        """
        assert self._runner.lock.locked()
        if not (self._is_known or self._cell.constructing):
            self._is_known = True
            self._tell("asks")

    def refuse(self) -> None:
        """A snapshot is refused, as a handler waits. If that is the constructor, the snapshot waits for its end."""
        assert self._runner.lock.locked()
        self.wait()
        self._has_refused |= self._cell.constructing

    def constructed(self) -> None:
        """The constructor has ended."""
        assert self._runner.lock.locked()
        if self._has_refused:
            self._tell("constructed")

    # Orders ----------------------------------------------------------------------------------------------------

    def begin(self, conclusion: ConclusionId, within_s: float) -> None:
        """Begin nothing more but what somebody waits for, for so many seconds at most."""
        assert self._runner.lock.locked()
        if self._hold.begin(conclusion, self._runner.participant.open_snapshots):
            self._note()
            self._until, self._rests_since = time.monotonic() + within_s, None
            self.begun()
            self._runner.interrupted = True
            self._runner.notify()

    def breathe(self, conclusion: ConclusionId, count: int) -> None:
        """Begin so many messages besides."""
        assert self._runner.lock.locked()
        self._hold.breathe(conclusion, count)
        self._rests_since = None
        self._runner.notify()

    def end(self, conclusion: ConclusionId | None) -> None:
        """Go on: this conclusion is over. None: another coordinator has taken over, and must learn what it needs."""
        assert self._runner.lock.locked()
        self._hold.end(conclusion)
        self._note()
        self._is_known = self._is_known and conclusion is not None
        self._runner.notify()

    # What happens ----------------------------------------------------------------------------------------------

    def asked(self, sender: str, last: int) -> None:
        """See HoldBack."""
        assert self._runner.lock.locked()
        self._hold.asked(sender, last)
        if self._runner.held:
            self._runner.notify()

    def recorded(self, snapshot: SnapshotId) -> None:
        """See HoldBack."""
        assert self._runner.lock.locked()
        self._hold.recorded(snapshot)
        self._note()

    # On the worker ---------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Go on if nobody has said so until the deadline."""
        assert self._runner.lock.locked()
        if time.monotonic() >= self._until:
            self._hold.end()
            self._note()

    def limits(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        """The numbers up to which messages may begin now; `limits` are those of open snapshots.

        A creation may begin in any case: who asks the new actor waits for that too.
        """
        assert self._runner.lock.locked()
        if self._hold.breaths or not self._cell.born:
            return limits
        return self._hold.limits(limits, self._mailbox.senders())

    @property
    def breathes(self) -> bool:
        """Whether something may begin besides."""
        return self._hold.breaths > 0

    def begins(self) -> bool:
        """The actor begins a batch. Returns whether it may begin only one message of it, as that begins besides."""
        assert self._runner.lock.locked()
        breathes, self._rests_since = self._hold.breaths > 0, None
        self._report(self._hold.begins())
        return breathes

    def rests(self) -> None:
        """The actor has nothing that it may begin. That is reported only when it has lasted for a moment."""
        assert self._runner.lock.locked()
        now = time.monotonic()
        self._rests_since = self._rests_since or now
        if now >= self._rests_since + REST_S:
            self._rests_since = inf
            self._report(self._hold.rests())

    def _report(self, report: Rest | None) -> None:
        if report is not None:
            self._tell("rests", report)

    def _tell(self, what: str, *args: Any) -> None:
        identity = self._runner.identity
        getattr(identity.coordinator, what).remote(identity.name, identity.incarnation, *args)
