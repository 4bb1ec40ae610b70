"""How an actor takes part in conclusions; see `protocol.concluding`."""

import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from rayshot.protocol.concluding import ConclusionId, HoldBack, Rest
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.mailbox import Mailbox
from rayshot.runtime.actor.runner import Runner

REST_S = 0.005
"""An actor reports that it rests when it has done so for so long: one that answers many questions would report each."""


class Concluding:
    """Holds an actor back, and reports to the coordinator. Call everything under the lock."""

    def __init__(self, runner: Runner, mailbox: Mailbox) -> None:
        self._runner, self._mailbox = runner, mailbox
        self._hold = HoldBack()
        self._until = 0.0
        self._rests_since: float | None = None
        """Since when there is nothing that may begin; None if that is not so."""
        self._is_known = False
        """Whether the coordinator knows that this actor asks."""
        self.begun: Callable[[], None] = lambda: None
        """Called when the actor is held from now on."""

    @property
    def holds(self) -> bool:
        """Whether the actor begins only what somebody waits for."""
        return self._hold.conclusion is not None

    @property
    def next_due(self) -> float | None:
        """When the worker must look here next, by time.monotonic; None if nothing holds the actor."""
        if not self.holds:
            return None
        return self._until if self._rests_since is None else min(self._until, self._rests_since + REST_S)

    def wait(self) -> None:
        """A handler waits for another actor: the coordinator must know that this actor asks."""
        assert self._runner.lock.locked()
        if not self._is_known:
            self._is_known = True
            self._tell("asks")

    # Orders ----------------------------------------------------------------------------------------------------

    def begin(self, conclusion: ConclusionId, within_s: float) -> None:
        """Begin nothing more but what somebody waits for, for so many seconds at most."""
        assert self._runner.lock.locked()
        if self._hold.begin(conclusion, self._runner.participant.open_snapshots):
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
        self._is_known = self._is_known and conclusion is not None
        self._runner.notify()

    # What happens ----------------------------------------------------------------------------------------------

    def asked(self, sender: str, last: int) -> None:
        """See HoldBack."""
        assert self._runner.lock.locked()
        self._hold.asked(sender, last)
        if self.holds:
            self._runner.notify()

    def recorded(self, snapshot: SnapshotId) -> None:
        """See HoldBack."""
        assert self._runner.lock.locked()
        self._hold.recorded(snapshot)

    # On the worker ---------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Go on if nobody has said so until the deadline."""
        assert self._runner.lock.locked()
        if self.holds and time.monotonic() >= self._until:
            self._hold.end()

    def limits(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        """The numbers up to which messages may begin now; `limits` are those of open snapshots."""
        assert self._runner.lock.locked()
        if not self.holds or self._hold.breaths:
            return limits
        return self._hold.limits(limits, self._mailbox.senders())

    def stops(self, sender: str, number: int) -> bool:
        """Whether the actor may not begin this message now, although it has begun the batch."""
        return not self._hold.may_begin(sender, number)

    @property
    def breathes(self) -> bool:
        """Whether the next message is one that begins besides: no other one of its batch may."""
        return self._hold.breaths > 0

    def begins(self) -> None:
        """The actor begins a message."""
        assert self._runner.lock.locked()
        self._rests_since = None
        self._report(self._hold.begins())

    def rests(self) -> None:
        """The actor has nothing that it may begin. That is reported only when it has lasted for a moment."""
        assert self._runner.lock.locked()
        if self.holds:
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
