"""Brings the conversations of the actors to their end before a snapshot; see `protocol.concluding`."""

import logging
import threading
import time
from math import inf
from typing import Any

from rayshot.errors import SnapshotAborted
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import CollectorEffect, SendBegin
from rayshot.protocol.concluding import Conclusion, ConclusionId, Doing, Rest
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.coordinator.requests import PAUSES, PendingRequest
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door.survived_errors import survived
from rayshot.runtime.wire.waiting import tell_chain

log = logging.getLogger("rayshot")
BREATH_S = 1.0
"""The concluder looks so often what the actors do. Who has waited for so long waits, and does not only ask."""
FAILURES_MAX = 2
"""When so many conclusions have failed in a row, who waits for durable results is told: handlers may wait for it."""
CONSTRUCTOR_S = 10.0
"""Snapshots wait so long for a constructor that refused one as it waits. Then its actor counts as one that asks."""
_ENDED = 0.0
SLACK_S = 5.0
"""An actor that hears nothing goes on by itself so many seconds behind the time of the conclusion."""


class Concluder:
    """At most one conclusion at a time, for one request. Call everything public under the system's lock.

    `pause_until`: no snapshot begins by itself before this time, by time.monotonic, as it took the last conclusion so
    long to come to its end. `failures` counts the conclusions in a row whose time was up.
    """

    def __init__(self, members: Members, term: int, lock: SystemLock) -> None:
        self.pause_until = 0.0
        self.failures = 0
        self._members, self._term, self._lock = members, term, lock
        self._asking: set[str] = set()
        """The actors that have waited for others in this life."""
        self._constructing: dict[str, float] = {}
        """Until when snapshots wait for constructors that refused one, by actor; or that one has ended."""
        self._conclusion: Conclusion | None = None
        self._request: PendingRequest | None = None
        """The request for which conversations end; None if for none."""
        self._found_at: float | None = None
        """When they had ended, and the request's snapshot began."""
        self._number = 0
        self._began = self._until = self._look_at = 0.0
        self._seen: dict[str, dict[str, Any]] = {}
        """What the actors did at the last look."""

    # What actors tell ------------------------------------------------------------------------------------------

    def asks(self, name: str) -> None:
        """An actor waits for another one."""
        assert self._lock.is_held, "conversations end under the lock"
        self._constructing.pop(name, None)
        if name in self._members.hosts:
            self._asking.add(name)
            if self._conclusion is not None and self._found_at is None:
                self._tell(self._conclusion, name)

    def refused(self, name: str) -> None:
        """An actor refused a snapshot, as a handler of it waits.

        If it is not known to ask, that is its constructor. Nobody is held for this: it may wait for what the actors do
        that it has just made, and they would be held too.
        """
        assert self._lock.is_held, "conversations end under the lock"
        if name in self._asking or name not in self._members.hosts:
            return
        now = time.monotonic()
        until = self._constructing.setdefault(name, now + CONSTRUCTOR_S)
        if _ENDED < until <= now:
            self.asks(name)

    def constructed(self, name: str) -> None:
        """This constructor has ended. Its refusal may not have arrived yet."""
        assert self._lock.is_held, "conversations end under the lock"
        if name in self._members.hosts:
            self._constructing[name] = _ENDED

    def hear(self, name: str, report: Rest) -> None:
        """An actor reports whether it rests."""
        assert self._lock.is_held, "conversations end under the lock"
        if self._conclusion is not None:
            self._conclusion.hear(name, report)

    def join(self, name: str, now: float) -> tuple[ConclusionId, float] | None:
        """An actor joins. Returns the arguments of `Host.conclude` if conversations are to end now."""
        assert self._lock.is_held, "conversations end under the lock"
        if self._conclusion is None or self._found_at is not None:
            return None
        self._conclusion.tell(name)
        return self._conclusion.identity, self._until - now + SLACK_S

    def lose(self, name: str) -> None:
        """An actor has ended."""
        assert self._lock.is_held, "conversations end under the lock"
        self._asking.discard(name)
        self._constructing.pop(name, None)
        if self._conclusion is not None:
            self._conclusion.lose(name)

    # Requests --------------------------------------------------------------------------------------------------

    def admits(self, request: PendingRequest, now: float, within_s: float) -> bool:
        """Whether the snapshot of this request may begin now. Otherwise the conversations are brought to their end."""
        assert self._lock.is_held, "conversations end under the lock"
        if self._conclusion is None and any(now < until for until in self._constructing.values()):
            return False
        if self._conclusion is None and self._asking:
            self._begin(request, now, within_s)
        if self._conclusion is None:
            return True
        if request is self._request and not self._conclusion.restless:
            self._found_at, self.failures = now, 0
        return self._found_at is not None and request is self._request

    def held_first(self, effects: tuple[CollectorEffect, ...]) -> tuple[CollectorEffect, ...]:
        """A snapshot begins by these effects: whom it holds learns of it first, as the others work meanwhile."""
        held = frozenset[str]() if self._conclusion is None else self._conclusion.told
        return tuple(sorted(effects, key=lambda one: not (isinstance(one, SendBegin) and one.process in held)))

    def _begin(self, request: PendingRequest, now: float, within_s: float) -> None:
        assert self._lock.is_held, "conversations end under the lock"
        self._number += 1
        self._request, self._found_at, self._seen = request, None, {}
        self._began, self._until, self._look_at = now, now + within_s, now + BREATH_S
        self._conclusion = Conclusion(ConclusionId(self._term, self._number))
        for name in sorted({*self._asking, *request.order.initiators} & self._members.hosts.keys()):
            self._tell(self._conclusion, name)

    def _tell(self, conclusion: Conclusion, name: str) -> None:
        if name not in conclusion.told:
            conclusion.tell(name)
            self._members.tell(name, "conclude", conclusion.identity, self._until - self._began + SLACK_S)

    def end_for(self, request: PendingRequest) -> float:
        """All have recorded the snapshot of this request, or it failed: its actors go on, if any are held for it.

        Returns for how many seconds their conversations were ending, without the snapshot itself.
        """
        assert self._lock.is_held, "conversations end under the lock"
        conclusion, now = self._conclusion, time.monotonic()
        if conclusion is None or request is not self._request:
            return 0.0
        self._request = self._conclusion = None
        for name in sorted(conclusion.told):  # even if all is well: some may have heard late that they are held
            self._members.tell(name, "concluded", conclusion.identity)
        held_s = (self._found_at or now) - self._began
        self.pause_until = now + PAUSES * held_s
        return held_s

    # Time ------------------------------------------------------------------------------------------------------

    def tick(
        self, now: float, waiting: tuple[PendingRequest, ...]
    ) -> tuple[SnapshotAborted, tuple[PendingRequest, ...]] | None:
        """Look what the actors do if they take long. If time is up, returns the error, and the requests for it.

        These are all that wait, unless the conversations had only the time that was left of one of them.
        """
        assert self._lock.is_held, "conversations end under the lock"
        conclusion, request = self._conclusion, self._request
        if conclusion is None or request is None:
            return None
        if request.done.is_set():
            self.end_for(request)
        elif self._found_at is None and now >= self._until:
            error, had_all = self._too_long(conclusion), self._until < request.until
            self.failures += had_all
            self.end_for(request)
            return error, waiting if had_all else (request,)
        elif self._found_at is None and now >= self._look_at:
            self._look_at = inf
            threading.Thread(target=self._look, args=(conclusion,), name="rayshot-conclude", daemon=True).start()
        return None

    def _look(self, conclusion: Conclusion) -> None:
        """Let held messages begin if nothing else seems to happen. Hold no lock: asking takes a moment."""
        seen: dict[str, dict[str, Any]] = {}
        with survived("nobody could be asked for what waits, a defect of rayshot"):
            asked, doing = frozenset[str](), dict[str, Doing]()
            while to_ask := self._to_ask(conclusion, doing) - asked:
                asked |= to_ask
                seen |= {name: one for name, one in self._members.status(to_ask).items() if one is not None}
                doing = {name: _doing(one) for name, one in seen.items()}
        with self._lock:
            if conclusion is not self._conclusion or self._found_at is not None:
                return
            self._seen, self._look_at = seen, time.monotonic() + BREATH_S
            for name, count in conclusion.breathe(doing, BREATH_S).items():
                self._members.tell(name, "breathe", conclusion.identity, count)

    def _to_ask(self, conclusion: Conclusion, doing: dict[str, Doing]) -> frozenset[str]:
        with self._lock:
            return (conclusion.told | conclusion.chain(doing)) & self._members.hosts.keys()

    def _too_long(self, conclusion: Conclusion) -> SnapshotAborted:
        detail = (
            f"handlers that wait for other actors did not come to their end within {self._until - self._began:g} s: "
            f"{tell_chain(conclusion.restless, self._seen)}. See rayshot help porting#asking; "
            "a method that never returns needs rayshot.loop: rayshot help porting#loops"
        )
        return SnapshotAborted(
            f"no snapshot was begun: {detail}",
            reason=AbortReason.SUSPENDED.value,
            detail=detail,
            missing=conclusion.restless,
        )


def _doing(status: dict[str, Any]) -> Doing:
    return Doing(bool(status["handler"]), status["waits_for"], status["waits_s"], status["held"])
