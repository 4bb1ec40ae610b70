"""The runner of the Collector: requests and actors' news go in; orders to actors, commits and answers come out."""

import logging
import threading
import time
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from rayshot.errors import ConfigError, Fenced, RayshotError, SystemRecovering
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    AbortWanted,
    AnnounceEnd,
    CaptureRefused,
    CollectorEffect,
    CollectorEvent,
    ProcessEnded,
    ProcessJoined,
    RecordArrived,
    SendBegin,
    SnapshotAnnounced,
    SnapshotStored,
    SnapshotWanted,
    StoreSnapshot,
)
from rayshot.protocol.concluding import ConclusionId, Rest
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import ALIGNED, CHANDY_LAMPORT, STOP_THE_WORLD, SnapshotId
from rayshot.protocol.recovery import Phase
from rayshot.protocol.topology import forward_inputs
from rayshot.runtime.coordinator.commit_news import SETTLE_S, CommitNews
from rayshot.runtime.coordinator.commit_queue import CommitQueue
from rayshot.runtime.coordinator.concluder import FAILURES_MAX, Concluder
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.coordinator.metrics import Metrics
from rayshot.runtime.coordinator.notifications import DurableNumbers
from rayshot.runtime.coordinator.pending_snapshots import (
    Ends,
    PendingSnapshot,
    abort_error,
    over_before_begun,
    why_unwritten,
)
from rayshot.runtime.coordinator.report_intake import Arrived, Gathered, ReportIntake
from rayshot.runtime.coordinator.requests import Admission, PendingRequest
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.wire.packets import pack_begin
from rayshot.runtime.wire.reports import Body
from rayshot.runtime.wire.settings import SystemSettings

if TYPE_CHECKING:
    from rayshot.log.records import CommitRecord
    from rayshot.runtime.coordinator.committer import Committer

log = logging.getLogger("rayshot")
EARLY, EARLY_S = 2, 0.5
"""The first snapshots of a life that goes back to them by itself, and the seconds between them: only the second one is
surely behind what its actors did in it, see `recovery`. When so many failed as are to come, these wait the interval."""
LOOK = 'the system was restored with outside="leave": it takes no snapshots, as what is outside would not be in them'
LATE_S = 60.0
"""For each so many seconds that a snapshot is under way it counts as one that failed."""
_REFUSED = (AbortReason.STORE_UNAVAILABLE, AbortReason.FENCED)
"""Where the system goes back, the storage refuses the snapshots of the life that is over."""
Begin = tuple[SnapshotId, int, frozenset[str], bool]
"""The arguments of `Host.begin`: the fields of Begun."""


class TakesSnapshots(Protocol):
    """What a runner asks and tells of its life; see `life.Life`."""

    @property
    def phase(self) -> Phase:
        """Where the life is."""

    @property
    def over(self) -> RayshotError | None:
        """A new error for who asks a life that is over; None while it goes on."""

    def holds_of(self, record: "CommitRecord", cut: Cut) -> DurableNumbers | None:
        """What a snapshot that was just committed holds of drivers."""

    def stored(self, holds: DurableNumbers | None) -> None:
        """A snapshot was committed. Under the lock, and before anybody is told."""

    def committed(self, holds: DurableNumbers | None) -> None:
        """Tell all others."""

    def savepoint_stored(self, snapshot: SnapshotId) -> None:
        """The snapshot was committed with which a person stops the system. Under the lock."""

    def fenced(self, error: Fenced) -> None:
        """Another life has the storage."""


class CollectorRunner:
    """See the module. `lock` is the system's; each method takes it.

    `config` says when snapshots begin by themselves. `committed` is the last commit of this life; `news` tells actors
    of the snapshots that advance.
    """

    def __init__(
        self,
        settings: SystemSettings,
        committer: "Committer",
        members: Members,
        metrics: Metrics,
        life: TakesSnapshots,
        lock: SystemLock,
    ) -> None:
        self.lock = lock
        self.config = settings.snapshot
        self.pending: dict[SnapshotId, PendingSnapshot] = {}
        self.committed: CommitRecord | None = None
        self.news = CommitNews(members, committer, lock)
        self._traced_always = bool(settings.trace)
        self._early = EARLY if settings.failure.heals and settings.snapshot.interval_s is not None else 0
        self._committer, self._members, self._metrics, self._life = committer, members, metrics, life
        self._collector = Collector(committer.incarnation)
        self._gathered: dict[SnapshotId, Gathered] = {}
        self._intake = ReportIntake(self._take, self.refuse)
        self._admission, self._ends = Admission(), Ends()
        self.concluder = Concluder(members, committer.epoch.position, lock)
        self._commits = CommitQueue(self._commit, self._uncommitted)
        self._last_began = self._last_ended = time.monotonic()
        self._fruitless = 0
        self._refused_early: set[SnapshotId] = set()
        """Snapshots that actors refused as handlers wait, before their announcement was there."""
        self._is_wanted = False
        """Whether drivers wait for a snapshot, as they may keep no more."""

    def start(self) -> None:
        """Begin to commit."""
        self._commits.start()

    def replace_machine(self, collector: Collector) -> None:
        """Go on with a machine that knows what was before this life, or before this coordinator."""
        with self.lock:
            self._collector = collector

    def begin_life(self) -> None:
        """The actors run from now on: let the snapshots begin that were asked for."""
        with self.lock:
            self._last_began = self._last_ended = time.monotonic()
            self._begin_wanted()

    def end(self, error: RayshotError) -> None:
        """Refuse what was asked for and has not begun: `error` says why the life is over. Those under way go on."""
        with self.lock:
            self._admission.refuse(error)
            self.news.end()

    def close(self) -> None:
        """Wait for the commits in the queue. Hold no lock."""
        self._intake.close()
        self._commits.close()

    def leave(self) -> None:
        """As `close`, of a life that the system left. Snapshots that are being stored keep nobody waiting too long."""
        self.close()
        with self.lock:
            unstored = [*self.pending.items()]
        for snapshot, pending in unstored:
            pending.request.done.wait(max(0.0, pending.given_up_at - time.monotonic()))
            pending.keep_nobody_waiting(snapshot, inf)

    def handle(self, event: CollectorEvent) -> None:
        """Give the machine an event, and carry out its effects."""
        with self.lock:
            self._carry_out(self._collector.handle(event))

    def fruitless(self, now: float) -> int:
        """How many snapshots failed since the last one that advances. Call under the lock."""
        assert self.lock.is_held, "failures are counted under the lock"
        tried = [one.began for one in self._admission.waiting if one.began is not None]
        late = sum(int((now - began) // LATE_S) for began in (*tried, *(one.began for one in self.pending.values())))
        return self._fruitless + late

    def want(self) -> None:
        """A driver may keep no more until there is a snapshot: take one, if none is under way. Call under the lock."""
        assert self.lock.is_held, "a snapshot is wanted under the lock"
        self._is_wanted = not self.pending and self._admission.is_empty
        self._admission.try_now()

    # Requests --------------------------------------------------------------------------------------------------

    def ask(self, request: PendingRequest) -> None:
        """Begin this snapshot as soon as it may. Raises the error of a life that is over; ConfigError if it begins."""
        with self.lock:
            if (over := self._life.over) is not None:
                raise over
            if self._life.phase is Phase.BEGINNING and not request.order.first:
                raise ConfigError("the system begins: the first snapshot is taken when `begin` has returned")
            if self._committer.is_look:
                raise ConfigError(LOOK)
            self._admission.add(request, self._timeout_s(request))
            self._begin_wanted()

    def _timeout_s(self, request: PendingRequest) -> float:
        return min(self.config.timeout_s, request.order.within_s)

    def announce(self, snapshot: SnapshotId, name: str, floor: int, token: str) -> None:
        """The actor `name` began a snapshot, for the request of that `token` if there is one."""
        with self.lock:
            if self._life.over is not None:
                return
            request = self._admission.asked.take(token) or PendingRequest(CHANDY_LAMPORT)
            helpers = request.order.helpers if request.order.reached == self._members.hosts.keys() else None
            effects = self._collector.handle(SnapshotAnnounced(snapshot, name, floor, helpers))
            ended = (effect.snapshot for effect in effects if isinstance(effect, AnnounceEnd))
            if snapshot in (*self._collector.open_snapshots, *ended):
                self._note(snapshot, request)
            elif snapshot in self._refused_early:
                self._refused_early.remove(snapshot)
                request.begin(time.monotonic(), self._timeout_s(request))
                self._admission.put_off(
                    request, time.monotonic() + request.next_pause_s(self.concluder.end_for(request))
                )
            else:
                request.refuse(over_before_begun(snapshot))
            self._carry_out(effects)
            if self._life.phase is Phase.BEGINNING or self._committer.is_look:
                why = LOOK if self._committer.is_look else "the system begins: `begin` has not returned"
                self.abort(snapshot, AbortReason.REQUESTED, why)

    @property
    def _room(self) -> int:
        """The number of further snapshots that may be open now."""
        may_begin = self._life.phase in (Phase.BEGINNING, Phase.RUNNING) and not self._committer.is_look
        return self.config.max_concurrent - len(self.pending) if may_begin else 0

    def _begin_wanted(self) -> None:
        while (request := self._admission.next(self._room, aligning=self._collector.is_aligning)) is not None:
            now = time.monotonic()
            request.begin(now, self._timeout_s(request))
            if not self.concluder.admits(request, now, min(self.config.conclude_timeout_s, request.until - now)):
                return
            self._admission.drop(request)
            failpoint("before_begin")
            if initiators := request.order.initiators:
                token = self._admission.asked.add(request, self.config.timeout_s, self._members.hosts)
                self._members.tell(initiators[0], "initiate", token)
            elif request.mode == ALIGNED:
                self._admission.exploring, self._last_began = True, time.monotonic()
                threading.Thread(target=self._begin_aligned, args=(request,), daemon=True).start()
            else:
                self._begin(SnapshotWanted(request.mode), request)

    def _begin_aligned(self, request: PendingRequest) -> None:
        """Begin an aligned snapshot on the existing channels. Asking for these takes a moment, so hold no lock."""
        inputs = forward_inputs(self._members.topology())
        with self.lock:
            self._admission.exploring = False
            if (over := self._life.over) is not None:
                request.refuse(over)
                return
            self._begin(SnapshotWanted(ALIGNED, inputs), request)

    def _begin(self, wanted: SnapshotWanted, request: PendingRequest) -> None:
        """Begin a snapshot for a request. Nobody may be told of it yet: without actors it waits until it is stored."""
        assert self.lock.is_held, "a snapshot begins under the lock"
        before = self._collector.open_snapshots
        effects = self._collector.handle(wanted)
        for snapshot in self._collector.open_snapshots:
            if snapshot not in before:
                self._note(snapshot, request)
        self._carry_out(self.concluder.held_first(effects))

    # Actors ----------------------------------------------------------------------------------------------------

    def join(self, name: str) -> tuple[list[Begin], list[tuple[SnapshotId, int]], tuple[ConclusionId, float] | None]:
        """An actor joins. Returns the begin of each open snapshot, the ends that it must know, and what holds it."""
        with self.lock:
            effects = self._collector.handle(ProcessJoined(name))
            begun = [(e.snapshot, e.floor, e.inputs, e.quiet) for e in effects if isinstance(e, SendBegin)]
            return begun, self._ends.known(), self.concluder.join(name, time.monotonic())

    def process_ended(self, event: ProcessEnded) -> None:
        """An actor ended. It may have been on the only path of the markers of a snapshot that few helpers spread."""
        name = event.record.process
        with self.lock:
            self._admission.asked.drop(name)
            self._ends.leaving.discard(name)
            self.news.forget(name)
            self.concluder.lose(name)
            for snapshot, pending in self.pending.items():
                if pending.request.order.helpers is not None:
                    self._members.tell_all("begin", snapshot, 0, frozenset(), False)  # noqa: FBT003 - a Ray call
            self.handle(event)

    def leaving(self, name: str) -> None:
        """An actor wants to end, but cannot while a snapshot is open there: tell it at once when snapshots end."""
        with self.lock:
            for snapshot, floor in self._ends.say_at_once(name) if name in self._members.hosts else ():
                self._members.tell(name, "ended", snapshot, floor, True)  # noqa: FBT003 - a Ray call

    def await_commits(self, name: str) -> None:
        """See `CommitNews.follow`."""
        with self.lock:
            self.news.follow(name, taken_by_itself=self.config.interval_s is not None)

    def rests(self, name: str, report: Rest) -> None:
        """An actor reports whether it rests. When all do, the snapshot begins for which they are held."""
        with self.lock:
            self.concluder.hear(name, report)
            self._begin_wanted()

    def report(self, head: bytes, body: Body) -> None:
        """An actor brings a report."""
        self._intake.put(head, body)

    def _take(self, reports: list[Arrived]) -> None:
        with self.lock:
            for report in reports:
                self._gathered.setdefault(report.record.snapshot, Gathered()).add(report)
                self.handle(RecordArrived(report.record))
                failpoint("after_ack")
            for over in self._gathered.keys() - {*self._collector.open_snapshots, *self._collector.unannounced}:
                del self._gathered[over]

    def refuse(self, snapshot: SnapshotId, name: str, detail: str, reason: AbortReason) -> None:
        """An actor cannot give its record of a snapshot."""
        with self.lock:
            if reason is AbortReason.SUSPENDED:
                self.concluder.refused(name)
            self.handle(CaptureRefused(snapshot, name, detail, reason))

    # Effects ---------------------------------------------------------------------------------------------------

    def _note(self, snapshot: SnapshotId, request: PendingRequest | None = None) -> None:
        assert self.lock.is_held, "a snapshot begins under the lock"
        if snapshot not in self.pending:
            now = self._last_began = time.monotonic()
            known = request is not None and snapshot.by_coordinator  # otherwise the coordinator does not know its begin
            follows = self.committed.position if self.committed and known else None
            wanted = request or PendingRequest(CHANDY_LAMPORT)
            wanted.begin(now, self._timeout_s(wanted))
            self.pending[snapshot] = PendingSnapshot(now, time.time(), wanted.until, wanted, follows)

    def _carry_out(self, effects: tuple[CollectorEffect, ...]) -> None:
        assert self.lock.is_held, "a snapshot goes on under the lock"
        for effect in effects:
            match effect:
                case SendBegin(process, snapshot, floor, inputs, quiet):
                    self._note(snapshot)
                    host = self._members.hosts.get(process)
                    if host is not None and snapshot.by_coordinator and not quiet:
                        self._intake.fetch(process, host, snapshot, pack_begin(snapshot, floor, inputs))
                        self._ends.said(snapshot.initiator, floor)
                    else:
                        self._members.tell(process, "begin", snapshot, floor, inputs, quiet)
                case StoreSnapshot(cut):
                    pending = self.pending[cut.snapshot]
                    pending.recorded_s = time.monotonic() - pending.began
                    self.concluder.end_for(pending.request)
                    self._commits.put(cut)
                    if cut.snapshot.mode == STOP_THE_WORLD and not pending.request.order.final:
                        self._members.tell_all("everybody_recorded", cut.snapshot)
                case AnnounceEnd():
                    self._announce_end(effect)
                case _:
                    assert_never(effect)

    def _announce_end(self, end: AnnounceEnd) -> None:
        assert self.lock.is_held, "a snapshot ends under the lock"
        if end.reason in _REFUSED and isinstance(over := self._life.over, SystemRecovering):
            end = replace(end, reason=AbortReason.ACTOR_DIED, detail=f"{over.message}; {end.detail}")
        pending = self.pending.pop(end.snapshot, None)
        self._gathered.pop(end.snapshot, None)
        self._ends.add(end.snapshot, end.floor)
        failpoint("before_announce")
        committed = end.reason is None
        final = committed and pending is not None and pending.request.order.final
        if final:  # the actors stand still until they hear of it
            self._life.savepoint_stored(end.snapshot)
        stood_still = end.snapshot.mode == STOP_THE_WORLD
        lazily = committed and end.snapshot.by_coordinator and not (stood_still or self._traced_always)
        told = self._ends.leave_unsaid(end.snapshot, time.monotonic()) if lazily else tuple(self._members.hosts)
        for name in () if final else told:
            self._members.tell(name, "ended", end.snapshot, end.floor, committed)
        for name, drivers in end.past_drivers.items():
            self._members.tell(name, "forget_drivers", drivers)
        if pending is None:  # the snapshot of a lost coordinator, or its announcement is late
            if end.reason is AbortReason.SUSPENDED:
                self._refused_early.add(end.snapshot)
            return
        now, request = time.monotonic(), pending.request
        self._last_ended = now
        held_s = self.concluder.end_for(request)
        again_at = now + request.next_pause_s(held_s) if end.reason is AbortReason.SUSPENDED else inf
        if again_at < request.until and self._life.over is None:
            request.give_up = partial(self._failed, pending, end)
            self._admission.put_off(request, again_at)
        elif end.reason is not None:
            self._failed(pending, end)
        self._begin_wanted()

    def _failed(self, pending: PendingSnapshot, end: AnnounceEnd) -> None:
        """The request has failed with this end of its snapshot, which may have been tried before."""
        assert end.reason is not None
        self._fruitless += 1
        self._metrics.aborted(pending.request.trigger, end.reason)
        self._commits.call(partial(self._committer.note_abort, pending, end, time.monotonic()))
        self._members.tell_vaults("sweep")
        error = abort_error(end)
        log.warning("%s", error)
        pending.request.refuse(error)

    # Durable ---------------------------------------------------------------------------------------------------

    def _commit(self, cut: Cut) -> None:
        with self.lock:
            pending, gathered = self.pending.get(cut.snapshot), self._gathered.get(cut.snapshot, Gathered())
        if pending is None:
            return  # it was aborted while it waited in the queue, because the system was fenced out
        record, figures = self._committer.store(cut, self._members.shares(gathered.bodies), pending.taken(gathered))
        holds = self._life.holds_of(record, cut)
        with self.lock:
            self.committed = record
            self._fruitless = 0 if record.advances else self._fruitless + 1
            if record.advances:
                self.news.committed(record.snapshot, gathered.settling)
            self._early = max(0, self._early - 1)
            self._life.stored(holds)
            if is_final := pending.request.order.final:
                pending.deadline = max(pending.deadline, time.monotonic() + SETTLE_S)
            else:
                self.handle(SnapshotStored(cut.snapshot))
        late = self.news.await_settled if record.advances else partial(sorted, gathered.settling)
        unsettled = tuple(late()) if is_final else ()
        if is_final:  # until now the actors stand still; of one that does not advance they hear nothing more
            self.handle(SnapshotStored(cut.snapshot))
        self._life.committed(holds)
        pending.request.settle(record, cut, figures, unsettled)
        self._metrics.committed(pending.request.trigger, figures)
        self._committer.retain(self.config)
        self._committer.write_aborts()
        self._committer.write_segments()

    def _uncommitted(self, cut: Cut, error: Exception) -> None:
        self.abort(cut.snapshot, *why_unwritten(cut.snapshot, error))
        if isinstance(error, Fenced):
            self._life.fenced(error)

    def abort(self, snapshot: SnapshotId, reason: AbortReason, detail: str) -> None:
        """End a snapshot without a commit, unless it is being stored: see AbortWanted."""
        self.handle(AbortWanted(snapshot, reason, detail))

    def abort_all(self, reason: AbortReason, detail: str) -> None:
        """As `abort`, for all snapshots that are not recorded yet. The storage says how those end that are."""
        with self.lock:
            for snapshot in [k for k, one in self.pending.items() if one.recorded_s is None]:
                self.abort(snapshot, reason, detail)

    # Time ------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Do all that is due at `now`, by time.monotonic. Call under the lock."""
        assert self.lock.is_held, "the clock ticks under the lock"
        for snapshot, pending in [(k, one) for k, one in self.pending.items() if now >= one.deadline]:
            ask = partial(self._members.why_missing, snapshot, self._collector.missing(snapshot))
            pending.give_up(snapshot, self._timeout_s(pending.request), ask, self.abort)
            pending.keep_nobody_waiting(snapshot, now)
        for snapshot, pending in self.pending.items():
            if snapshot.mode == ALIGNED and pending.loses_patience(now, self.config.alignment_timeout_s):
                self._members.tell_all("stop_aligning", snapshot)
        if (late := self.concluder.tick(now, self._admission.waiting)) is not None:
            error, requests = late
            log.warning("%s", error)
            self._fruitless += 1
            for request in self._admission.refuse_waiting(error, requests):
                self._metrics.aborted(request.trigger, AbortReason.SUSPENDED)
            if self.concluder.failures >= FAILURES_MAX:
                self.news.give_up_durable(error)
        self._admission.expire(now)
        self._begin_wanted()  # a request may have expired before its snapshot began, which makes room
        for snapshot, floor in self._ends.overdue(now):
            self._members.tell_all("ended", snapshot, floor, True)  # noqa: FBT003 - a Ray call
        due = self.config.next_due(self._last_began, self._last_ended)
        if self._early > self._fruitless:
            due = self._last_began + EARLY_S
        if due is not None:
            due = max(due, self.concluder.pause_until)
        if self._is_wanted:
            due = self._last_ended + self.config.min_pause_s
        idle = self._life.phase is Phase.RUNNING and self._admission.is_empty and self._admission.fits(self._room)
        if due is not None and now >= due and idle and self._members.hosts:
            self._is_wanted = False
            self._admission.add(PendingRequest(self.config.mode, trigger="interval"), self.config.timeout_s)
            self._begin_wanted()

    def status(self) -> dict[SnapshotId, dict[str, Any]]:
        """The progress of each snapshot under way."""
        with self.lock:
            missing, open_channels = self._collector.missing, self._collector.open_channels
            return {k: one.status(missing(k), open_channels(k)) for k, one in self.pending.items()}
