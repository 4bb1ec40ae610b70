"""Requests for snapshots, until the snapshots begin."""

import threading
import time
import uuid
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from rayshot.errors import RayshotError, SnapshotAborted
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import ALIGNED, Mode
from rayshot.runtime.wire.actor_errors import ActorExited

if TYPE_CHECKING:
    from rayshot.log.records import CommitRecord

Figures = Mapping[str, int | float]
PAUSE_S, PAUSE_MAX_S = 0.02, 0.5
"""A snapshot that actors refuse because handlers wait is tried again behind a pause, which doubles each time."""
PAUSES = 10
"""A conclusion is followed by a pause of so many times as long as it took to come to its end."""


class SnapshotRequest(NamedTuple):
    """The details of a request for a snapshot.

    `mode` and `label` are as for `System.snapshot`; mode None means the configured mode. `initiators` are the actors
    that must begin the snapshot. `helpers` are the actors that the coordinator tells of it; None: all. The coordinator
    also tells all if the living actors are no longer exactly those that were `reached` by markers when the caller
    looked: an actor that ended may have been on the markers' only path. `final`: when the snapshot is durable, the
    system stops, and no handler has run since the cut. `first`: the first snapshot of a system that begins. `driver` is
    the process that asks, and `life` the life in which what it told has arrived; 0: it told nothing. `traced` =
    (seconds, full): before the snapshot, trace the system for so many seconds, with the messages' bytes or without. It
    is given up if it is not recorded within `within_s` seconds, or the time-out of the settings if that is shorter.
    """

    mode: Mode | None = None
    label: str | None = None
    initiators: tuple[str, ...] = ()
    helpers: frozenset[str] | None = None
    reached: frozenset[str] = frozenset()
    final: bool = False
    first: bool = False
    driver: str = ""
    traced: tuple[float, bool] | None = None
    life: int = 0
    within_s: float = inf


class Committed(NamedTuple):
    """The answer to an order: the commit, and which messages of the `driver` that asked are inside the cut.

    `sent` holds for each receiver the number of the last such message; `ended` are the actors that ended before the
    cut. `figures` are the stats of its manifest, and its bytes: the driver may not be able to read the storage. If the
    system stops with it, `unsettled` are the actors that have not done yet what follows from it outside.
    """

    record: "CommitRecord"
    sent: Mapping[str, int]
    ended: frozenset[str]
    figures: Figures
    unsettled: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request for a snapshot in that `mode`. When `done` is set, `committed` and `cut` or `error` is set too.

    `trigger` says why it is taken: "request", "savepoint", "interval", "drain" before a node goes, or "actor" if an
    actor began it.
    """

    mode: Mode
    order: SnapshotRequest = field(default_factory=SnapshotRequest)
    trigger: str = "actor"
    done: threading.Event = field(default_factory=threading.Event)
    committed: Committed | None = None
    error: RayshotError | None = None
    cut: Cut | None = None
    until: float = inf
    """When its time is up, by time.monotonic: set at its first try. It may be tried several times."""

    began: float | None = None
    """When it was tried first."""

    refusals: int = 0

    give_up: Callable[[], None] | None = None
    """Ends it with the error of its last try, as handlers waited then; None if it was not tried."""

    def begin(self, now: float, within_s: float) -> None:
        """It is tried, maybe not for the first time."""
        if self.began is None:
            self.began, self.until = now, min(self.until, now + within_s)

    def next_pause_s(self, held_s: float) -> float:
        """Its actors refused, after they were held for so long: how many seconds to wait before it is tried again.

        Once that can be bad luck, as an actor waited that never had before.
        """
        self.refusals += 1
        held_s *= 1 if self.refusals == 1 else PAUSES
        return max(held_s, min(PAUSE_S * 2.0 ** min(self.refusals - 1, 10), PAUSE_MAX_S))

    def settle(self, record: "CommitRecord", cut: Cut, figures: Figures, unsettled: tuple[str, ...]) -> None:
        """The snapshot is durable: let the waiting thread go on."""
        self.cut = cut
        channels = (channel for channel in cut.channels if channel.channel.sender == self.order.driver)
        sent = {channel.channel.receiver: channel.sent for channel in channels}
        self.committed = Committed(record, sent, frozenset(cut.ended), figures, unsettled)
        self.done.set()

    def refuse(self, error: RayshotError) -> None:
        """It failed or its fate is unknown: let the waiting thread go on with `error`, unless `done` is set."""
        if not self.done.is_set():
            self.error = error
            self.done.set()

    def wait(self) -> Committed:
        """Wait for the end of the request and return the commit. Raises the error with which it was refused."""
        self.done.wait()
        if self.error is not None:
            raise self.error
        assert self.committed is not None
        return self.committed


class Asked:
    """Requests that wait for their initiators to begin, by token, with their deadlines by time.monotonic."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[PendingRequest, float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: PendingRequest, timeout_s: float, living: Container[str]) -> str:
        """Keep a request and return its token. If its initiator is gone, refuse it at once."""
        token = uuid.uuid4().hex
        self._waiting[token] = (request, min(time.monotonic() + timeout_s, request.until))
        if request.order.initiators[0] not in living:
            self.drop(request.order.initiators[0])
        return token

    def take(self, token: str) -> PendingRequest | None:
        """Remove and return the request for which an actor began a snapshot; None if it began without a request."""
        request, _ = self._waiting.pop(token, (None, 0.0))
        return request

    def drop(self, initiator: str) -> None:
        """An actor ended: refuse the requests that it should begin."""
        error = ActorExited(f"actor {initiator!r} ended before it could begin a snapshot", actor=initiator)
        for token in [
            token for token, (request, _) in self._waiting.items() if request.order.initiators[0] == initiator
        ]:
            self._waiting.pop(token)[0].refuse(error)

    def refuse(self, error: RayshotError) -> None:
        """Refuse all requests: no snapshot begins any more."""
        for request, _ in self._waiting.values():
            request.refuse(error)
        self._waiting.clear()

    def expire(self, now: float) -> None:
        """Refuse the requests whose time is up."""
        late = [token for token, (_, deadline) in self._waiting.items() if now >= deadline]
        for token in late:
            request = self._waiting.pop(token)[0]
            initiator = request.order.initiators[0]
            error = SnapshotAborted(
                f"actor {initiator!r} was asked to begin a snapshot and had not done so when its time was up: does a "
                "handler of it take long? See system.status()",
                reason=AbortReason.TIMEOUT.value,
                missing=(initiator,),
            )
            request.refuse(error)


class Admission:
    """Requests for snapshots, until the snapshots begin. Call under the coordinator's lock.

    `asked` holds the requests whose initiators were told. `exploring`: the coordinator looks up the channels for an
    aligned snapshot now.
    """

    def __init__(self) -> None:
        self._wanted: dict[PendingRequest, float] = {}
        """The requests that wait for their turn, with their deadlines by time.monotonic."""
        self._put_off: dict[PendingRequest, float] = {}
        """Those that were tried, and are tried again at this time."""
        self.asked = Asked()
        self.exploring = False

    @property
    def is_empty(self) -> bool:
        """Whether no request waits, for its turn or to be tried again."""
        return not (self._wanted or self._put_off)

    def add(self, request: PendingRequest, timeout_s: float) -> None:
        """Add a request behind the others. It is refused if it does not begin within `timeout_s` seconds."""
        self._wanted[request] = min(time.monotonic() + timeout_s, request.until)

    def put_off(self, request: PendingRequest, until: float) -> None:
        """Try this request again at that time. One of an actor is dropped if another such one waits already."""
        if request.trigger != "actor" or all(one.trigger != "actor" for one in self.waiting):
            self._put_off[request] = until

    def try_now(self) -> None:
        """Try all requests again that were put off."""
        self._wanted |= {request: request.until for request in self._put_off}
        self._put_off.clear()

    def expire(self, now: float) -> None:
        """Refuse the requests whose time is up."""
        self.asked.expire(now)
        for request in [request for request, due in self._put_off.items() if now >= due]:
            del self._put_off[request]
            self._wanted[request] = request.until
        for request in [request for request, due in self._wanted.items() if now >= due]:
            self.drop(request)
            if request.give_up is not None:
                request.give_up()
            request.refuse(
                SnapshotAborted(
                    "the snapshot did not begin within its time-out: others were open, or the system was being "
                    "restored. Take another one",
                    reason=AbortReason.TIMEOUT.value,
                )
            )

    def fits(self, room: int) -> bool:
        """Whether one more snapshot may begin, if `room` snapshots may be open besides the open ones."""
        return len(self.asked) + self.exploring < room

    def next(self, room: int, *, aligning: bool) -> PendingRequest | None:
        """The next request that may begin; `drop` it then. While a snapshot is `aligning`, skip aligned ones."""
        if not self.fits(room):
            return None
        blocked = self.exploring or aligning
        return next((one for one in self._wanted if not (blocked and one.mode == ALIGNED)), None)

    def drop(self, request: PendingRequest) -> None:
        """This request waits for its turn no more."""
        del self._wanted[request]

    @property
    def waiting(self) -> tuple[PendingRequest, ...]:
        """The requests that wait for their turn or to be tried again."""
        return (*self._wanted, *self._put_off)

    def refuse_waiting(self, error: RayshotError, requests: tuple[PendingRequest, ...]) -> tuple[PendingRequest, ...]:
        """Refuse these requests, which are `waiting`; returns them."""
        for request in requests:
            request.refuse(error)
            self._wanted.pop(request, None)
            self._put_off.pop(request, None)
        return requests

    def refuse(self, error: RayshotError) -> None:
        """Refuse all requests: no snapshot begins any more."""
        self.refuse_waiting(error, self.waiting)
        self.asked.refuse(error)
