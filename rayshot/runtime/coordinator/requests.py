"""Snapshots that somebody asked for, until they begin."""

import threading
import time
import uuid
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rayshot.errors import RayshotError, SnapshotAborted
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import ALIGNED
from rayshot.runtime.wire.actor_errors import ActorExited

if TYPE_CHECKING:
    from rayshot.store.records import CommitRecord

Figures = Mapping[str, int | float]


class Order(NamedTuple):
    """What somebody asks for when he asks for a snapshot.

    `mode` and `label` as for `System.snapshot`; mode None is what the configuration says. `initiators` are the actors
    that are to begin it, `helpers` those whom the coordinator tells (None: all), and all as well where others are there
    by then than were `reached` by markers when somebody looked: those may have lost their way with one that ended.
    `final`: when it is durable the system stops, and no handler has run since the cut. `first`: the one with which a
    system begins. `driver` is the process that asks. `traced`: the system is traced before it for so many seconds, in
    full or not.
    """

    mode: str | None = None
    label: str | None = None
    initiators: tuple[str, ...] = ()
    helpers: frozenset[str] | None = None
    reached: frozenset[str] = frozenset()
    final: bool = False
    first: bool = False
    driver: str = ""
    traced: tuple[float, bool] | None = None


class Committed(NamedTuple):
    """What is answered to an order: the commit, and what of the messages of the `driver` that asked is inside the cut.

    `sent` holds for each receiver the number of the last such message; `ended` are the actors that ended before it.
    `figures` are the stats of its manifest, and its bytes: whoever asked may not be able to read the storage.
    """

    record: "CommitRecord"
    sent: Mapping[str, int]
    ended: frozenset[str]
    figures: Figures


@dataclass(slots=True, eq=False)
class Request:
    """Somebody waits for a snapshot in that `mode`. `committed` or `error` is there when `done` is set.

    `trigger` says who: "request", "savepoint", "interval", "drain" before a node goes, or "actor" where an actor began
    it.
    """

    mode: str
    order: Order = field(default_factory=Order)
    trigger: str = "actor"
    done: threading.Event = field(default_factory=threading.Event)
    committed: Committed | None = None
    error: RayshotError | None = None

    def settle(self, record: "CommitRecord", cut: Cut, figures: Figures) -> None:
        """Let the one who waits go on: it is durable."""
        channels = (channel for channel in cut.channels if channel.channel.sender == self.order.driver)
        sent = {channel.channel.receiver: channel.sent for channel in channels}
        self.committed = Committed(record, sent, frozenset(cut.ended), figures)
        self.done.set()

    def refuse(self, error: RayshotError) -> None:
        """Let the one who waits go on, if nobody has: there is no snapshot, or nobody knows."""
        if not self.done.is_set():
            self.error = error
            self.done.set()

    def wait(self) -> Committed:
        """What came of it. Raises what it was refused with."""
        self.done.wait()
        if self.error is not None:
            raise self.error
        assert self.committed is not None
        return self.committed


class Asked:
    """Requests that wait for their initiators to begin, by token, with their deadlines by time.monotonic."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Request, float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request, timeout_s: float, living: Container[str]) -> str:
        """Keep a request, unless its initiator is gone; returns its token."""
        token = uuid.uuid4().hex
        self._waiting[token] = (request, time.monotonic() + timeout_s)
        if request.order.initiators[0] not in living:
            self.drop(request.order.initiators[0])
        return token

    def take(self, token: str) -> Request | None:
        """The request for which an actor has begun a snapshot; None for one of its own."""
        request, _ = self._waiting.pop(token, (None, 0.0))
        return request

    def drop(self, initiator: str) -> None:
        """An actor ended, and will begin nothing."""
        error = ActorExited(f"actor {initiator!r} ended before it could begin a snapshot", actor=initiator)
        for token in [
            token for token, (request, _) in self._waiting.items() if request.order.initiators[0] == initiator
        ]:
            self._waiting.pop(token)[0].refuse(error)

    def refuse(self, error: RayshotError) -> None:
        """None will be begun any more."""
        for request, _ in self._waiting.values():
            request.refuse(error)
        self._waiting.clear()

    def expire(self, now: float) -> None:
        """Give up those whose time is up."""
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
    """Requests for snapshots until these begin. Call under the coordinator's lock.

    `asked` holds those whose initiators were told; `exploring`: the channels are looked up for an aligned one.
    """

    def __init__(self) -> None:
        self._wanted: dict[Request, float] = {}
        """Those that wait for their turn, and until when, by time.monotonic."""
        self.asked = Asked()
        self.exploring = False

    @property
    def is_empty(self) -> bool:
        """Whether none waits for its turn."""
        return not self._wanted

    def add(self, request: Request, timeout_s: float) -> None:
        """It begins when those before it have ended, within so many seconds."""
        self._wanted[request] = time.monotonic() + timeout_s

    def expire(self, now: float) -> None:
        """Give up those whose time is up."""
        self.asked.expire(now)
        for request in [request for request, due in self._wanted.items() if now >= due]:
            del self._wanted[request]
            request.refuse(
                SnapshotAborted(
                    "the snapshot did not come to its turn in the time that it may take: others were under way, or the "
                    "system was being restored. Take another one",
                    reason=AbortReason.TIMEOUT.value,
                )
            )

    def fits(self, room: int) -> bool:
        """Whether one more may begin where so many may be open besides those that are."""
        return len(self.asked) + self.exploring < room

    def next(self, room: int, *, aligning: bool) -> Request | None:
        """Take the next one that may begin; while one is `aligning` that is no aligned one."""
        if not self.fits(room):
            return None
        blocked = self.exploring or aligning
        request = next((one for one in self._wanted if not (blocked and one.mode == ALIGNED)), None)
        if request is not None:
            del self._wanted[request]
        return request

    def refuse(self, error: RayshotError) -> None:
        """None begins any more."""
        for request in self._wanted:
            request.refuse(error)
        self._wanted.clear()
        self.asked.refuse(error)
