"""The coordinator of a system: a detached, named Ray actor that drives the Collector and owns the commit log.

It keeps nothing that it could not find again. When it dies, Ray starts it again with the same settings. It then reads
the log, takes the system over with a new EPOCH, and asks the living actors. Snapshots that were under way are lost.
"""

import logging
import threading
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import ray

from rayshot.errors import ConfigError, Fenced
from rayshot.model.configuration import SnapshotConfig
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import (
    AbortWanted,
    AnnounceEnd,
    CaptureRefused,
    CollectorEffect,
    ProcessDied,
    ProcessEnded,
    ProcessJoined,
    ProcessQuiet,
    RecordArrived,
    SendBegin,
    SnapshotAnnounced,
    SnapshotStored,
    SnapshotWanted,
    StoreSnapshot,
)
from rayshot.protocol.collector import Collector
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import ALIGNED, CHANDY_LAMPORT, STOP_THE_WORLD, SnapshotId
from rayshot.protocol.topology import forward_inputs
from rayshot.runtime.coordinator.birth import Birth
from rayshot.runtime.coordinator.clock import start_clock
from rayshot.runtime.coordinator.commit_queue import CommitQueue
from rayshot.runtime.coordinator.draining import DrainWatch
from rayshot.runtime.coordinator.driver_watch import DriverWatch
from rayshot.runtime.coordinator.intake import Arrived, Gathered, Intake
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.coordinator.metrics import Metrics, SystemFigures
from rayshot.runtime.coordinator.notices import UNTIL_ANSWERED, notice
from rayshot.runtime.coordinator.questions import Questions
from rayshot.runtime.coordinator.requests import Admission, Committed, Order, Request
from rayshot.runtime.coordinator.takeover import find_remains
from rayshot.runtime.coordinator.trace_window import TraceWindow
from rayshot.runtime.coordinator.under_way import (
    Ends,
    UnderWay,
    abort_error,
    keys_missing,
    over_before_begun,
    why_unwritten,
)
from rayshot.runtime.ray.failpoints import failpoint
from rayshot.runtime.ray.naming import NAMESPACE, coordinator_name
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Joined, Stop
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.packets import pack_begin
from rayshot.runtime.wire.reports import Body, unpack_record
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import RUNNING, STOPPED

if TYPE_CHECKING:
    from rayshot.store.records import CommitRecord

log = logging.getLogger("rayshot")
GROUPS = {"control": 4, "ask": 4, "wait": 32, "stay": 1}


class Coordinator(DriverWatch, Questions):
    """See the module. `_lock` covers the collector and everything about snapshots under way."""

    def __init__(self, settings: SystemSettings) -> None:
        super().__init__()
        self._settings, self._config, self._keys = settings, settings.snapshot, settings.keys
        system, storage = self._name = settings.system, settings.storage
        # Imported late: processes that only hold a handle to the coordinator import this module, and need no storage.
        from rayshot.runtime.coordinator.committer import Committer  # noqa: PLC0415
        from rayshot.runtime.coordinator.heart import Heart  # noqa: PLC0415

        self._life = uuid.uuid4().hex
        self._committer = Committer(settings, ray.get_runtime_context().get_actor_id())
        self._incarnation = incarnation = self._committer.incarnation
        restarted = self._committer.had_begun
        self._collector = Collector(incarnation)
        self._lock = threading.RLock()
        self._own = ray.get_actor(coordinator_name(system), namespace=NAMESPACE)
        self._members = Members(system, incarnation, storage, self._died)
        self._open: dict[SnapshotId, UnderWay] = {}
        self._intake = Intake(self._take, self.refuse)
        self._gathered: dict[SnapshotId, Gathered] = {}
        self._window = TraceWindow(self._members, always=bool(settings.trace))
        self._admission, self._ends = Admission(), Ends()
        self._commits = CommitQueue(self._commit, self._uncommitted)
        self._heart = Heart(storage, system, self._committer.epoch, self._yield)
        self._metrics = Metrics(system, incarnation, self._figures, self._members.figures)
        self._stop: Stop | None = None
        beginning = settings.beginning and not self._committer.stored_in(incarnation)
        self._birth = Birth(self._give_up, loading=settings.loading and not restarted, beginning=beginning)
        self._last_began = self._last_ended = time.monotonic()
        self._committed: CommitRecord | None = None
        if restarted:
            self._members.find_vaults()
        self.take_keys(self._members.find_keys(self._keys))
        if restarted:
            self._take_over()
            if beginning:
                self._give_up("its coordinator died while its first actors were made")
        if self._committer.fenced is not None:
            self._yield(self._committer.fenced)
        for part in (self._commits, self._heart, self._metrics):
            part.start()
        DrainWatch(self._nodes_in_use, self._take_before_drain).start()
        start_clock(system, self._lock, self._tick)

    # Members ---------------------------------------------------------------------------------------------------

    @notice
    def join(self, name: str, node: str, handle: Any) -> Joined:
        """An actor's process has started: it is a member from now on. Raises ActorExited for a used name."""
        with self._lock:
            if self._stop is not None:
                handle.stop.remote(self._stop)
            self._members.join(name, node, handle)
            effects = self._collector.handle(ProcessJoined(name))
            begun = [(e.snapshot, e.floor, e.inputs, e.quiet) for e in effects if isinstance(e, SendBegin)]
            return Joined(self._life, begun, self._ends.known(), self._window.full)

    @notice
    def ended(
        self, packed: tuple[object, ...], unfinished: tuple[SnapshotId, ...], trace: bytes | None, why: Ending
    ) -> None:
        """An actor ended. `packed` is its last record; it does not count for the `unfinished` snapshots."""
        record = unpack_record(packed)
        with self._lock:
            if not self._members.end(record.process, why):
                return
            if trace is not None:
                self._committer.keep_trace(record.process, trace)
            self._admission.asked.drop(record.process)
            self._ends.leaving.discard(record.process)
            for snapshot, under_way in self._open.items():
                if under_way.request.order.helpers is not None:
                    self._members.tell_all("begin", snapshot, 0, frozenset(), False)  # noqa: FBT003 - a Ray call
            self._carry_out(self._collector.handle(ProcessEnded(record, unfinished)))

    @notice
    def leaving(self, name: str) -> None:
        """An actor wants to end, but cannot while a snapshot is open there: tell it at once when snapshots end."""
        with self._lock:
            for snapshot, floor in self._ends.say_at_once(name) if name in self._members.hosts else ():
                self._members.tell(name, "ended", snapshot, floor, True)  # noqa: FBT003 - a Ray call

    @notice
    def failed(self, name: str, detail: str) -> None:
        """An actor reports a failure that stops the whole system."""
        self._died(name, detail)

    def _died(self, name: str, detail: str) -> None:
        with self._lock:
            if self._give_up(detail, name):
                self._carry_out(self._collector.handle(ProcessDied(name, detail)))

    def _give_up(self, detail: str, actor: str | None = None) -> bool:
        """Stop the system, because of `actor` if one is given. Returns whether the system went on until now."""
        with self._lock:
            if goes_on := self._stop is None:
                self._stop_all(stop := Stop(*self._name, actor, detail))
                log.error("%s", stop.error())
            return goes_on

    def _stop_all(self, stop: Stop) -> None:
        self._stop = stop
        self._birth.end()
        self._heart.stop()
        self._members.tell_all("stop", stop)
        self._admission.refuse(stop.error())

    # Snapshots -------------------------------------------------------------------------------------------------

    @ray.method(concurrency_group="wait")
    def snapshot(self, order: Order) -> Committed:
        """Take a snapshot; returns when it is durable. A system that begins takes only its first snapshot.

        Raises SnapshotAborted; ConfigError while it begins; NoAnswer; SystemDown if it takes no messages any more.
        """
        mode, trigger = order.mode or self._config.mode, "request" if order.label is None else "savepoint"
        return self._window.take(order.traced, lambda: self._ask(Request(mode, order, trigger)))

    def _nodes_in_use(self) -> set[str]:
        return self._members.nodes() if self.state() == RUNNING else set()

    def _take_before_drain(self) -> SnapshotId:
        return self._ask(Request(self._config.mode, trigger="drain")).record.snapshot

    def _ask(self, request: Request) -> Committed:
        if self._stop is None and self._committer.missing_keys and self.take_keys(self._members.find_keys(self._keys)):
            raise keys_missing()
        with self._lock:
            if self._stop is not None:
                raise self._stop.error()
            if self._birth.beginning and not request.order.first:
                raise ConfigError("the system begins: the first snapshot is taken when `begin` has returned")
            self._admission.add(request, self._config.timeout_s)
            self._begin_wanted()
        return request.wait()

    @notice
    def announce(self, snapshot: SnapshotId, name: str, floor: int, token: str = "") -> None:
        """An actor began a snapshot, for the request of that `token` if any; its snapshots below `floor` are over."""
        with self._lock:
            if self._stop is None:
                request = self._admission.asked.take(token) or Request(CHANDY_LAMPORT)
                helpers = request.order.helpers if request.order.reached == self._members.hosts.keys() else None
                effects = self._collector.handle(SnapshotAnnounced(snapshot, name, floor, helpers))
                ended = (effect.snapshot for effect in effects if isinstance(effect, AnnounceEnd))
                if snapshot in (*self._collector.open_snapshots, *ended):
                    self._note(snapshot, request)
                else:
                    request.refuse(over_before_begun(snapshot))
                self._carry_out(effects)
                if self._birth.beginning:
                    self._abort(snapshot, AbortReason.REQUESTED, "the system begins: `begin` has not returned")

    @notice
    def quiet(self, snapshot: SnapshotId, name: str) -> None:
        """In a stop-the-world snapshot: everything that the actor `name` had sent before has arrived."""
        with self._lock:
            self._carry_out(self._collector.handle(ProcessQuiet(snapshot, name)))

    @notice
    def refuse(self, snapshot: SnapshotId, name: str, detail: str, reason: AbortReason) -> None:
        """An actor refuses to record a snapshot."""
        with self._lock:
            self._carry_out(self._collector.handle(CaptureRefused(snapshot, name, detail, reason)))

    @notice
    def report(self, head: bytes, body: Body) -> None:
        """An actor brings a report: for a snapshot that a process began, or that began before the actor joined."""
        self._intake.put(head, body)

    def _take(self, reports: list[Arrived]) -> None:
        with self._lock:
            for report in reports:
                self._gathered.setdefault(report.record.snapshot, Gathered()).add(report)
                self._carry_out(self._collector.handle(RecordArrived(report.record)))
                failpoint("after_ack")
            for over in self._gathered.keys() - {*self._collector.open_snapshots, *self._collector.unannounced}:
                del self._gathered[over]

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def configure(self, config: SnapshotConfig) -> None:
        """Change when snapshots are taken, from now on."""
        with self._lock:
            self._config = config

    @property
    def _room(self) -> int:
        """The number of further snapshots that may be open now."""
        return 0 if self._birth.loading else self._config.max_concurrent - len(self._open)

    def _begin_wanted(self) -> None:
        while (request := self._admission.next(self._room, aligning=self._collector.is_aligning)) is not None:
            failpoint("before_begin")
            if initiators := request.order.initiators:
                token = self._admission.asked.add(request, self._config.timeout_s, self._members.hosts)
                self._members.tell(initiators[0], "initiate", token)
            elif request.mode == ALIGNED:
                self._admission.exploring, self._last_began = True, time.monotonic()
                threading.Thread(target=self._begin_aligned, args=(request,), daemon=True).start()
            else:
                self._carry_out(self._collector.handle(SnapshotWanted(request.mode)), request)

    def _begin_aligned(self, request: Request) -> None:
        """Begin an aligned snapshot on the existing channels. Asking for these takes a moment, so hold no lock."""
        inputs = forward_inputs(self._members.topology())
        with self._lock:
            self._admission.exploring = False
            if self._stop is not None:
                request.refuse(self._stop.error())
                return
            self._carry_out(self._collector.handle(SnapshotWanted(ALIGNED, inputs)), request)

    def _note(self, snapshot: SnapshotId, request: Request | None) -> None:
        if snapshot not in self._open:
            now = self._last_began = time.monotonic()
            known = request is not None and snapshot.by_coordinator  # otherwise the coordinator does not know its begin
            follows = self._committed.position if self._committed and known else None
            wanted = request or Request(CHANDY_LAMPORT)
            self._open[snapshot] = UnderWay(now, time.time(), now + self._config.timeout_s, wanted, follows)

    def _carry_out(self, effects: tuple[CollectorEffect, ...], request: Request | None = None) -> None:
        for effect in effects:
            match effect:
                case SendBegin(process, snapshot, floor, inputs, quiet):
                    self._note(snapshot, request)
                    host = self._members.hosts.get(process)
                    if host is not None and snapshot.by_coordinator and not quiet:
                        self._intake.fetch(process, host, snapshot, pack_begin(snapshot, floor, inputs))
                        self._ends.said(snapshot.initiator, floor)
                    else:
                        self._members.tell(process, "begin", snapshot, floor, inputs, quiet)
                case StoreSnapshot(cut):
                    self._note(cut.snapshot, request)  # a system without actors has no SendBegin before this
                    under_way = self._open[cut.snapshot]
                    under_way.recorded_s = time.monotonic() - under_way.began
                    self._commits.put(cut)
                    if cut.snapshot.mode == STOP_THE_WORLD and not under_way.request.order.final:
                        self._members.tell_all("everybody_recorded", cut.snapshot)
                case AnnounceEnd():
                    self._announce_end(effect)
                case _:
                    assert_never(effect)

    def _announce_end(self, end: AnnounceEnd) -> None:
        under_way = self._open.pop(end.snapshot, None)
        self._gathered.pop(end.snapshot, None)
        self._ends.add(end.snapshot, end.floor)
        failpoint("before_announce")
        committed = end.reason is None
        final = committed and under_way is not None and under_way.request.order.final
        if final:  # the actors stand still until they hear of it
            self._stop_all(Stop(*self._name, None, f"it was stopped with the savepoint {end.snapshot}"))
        stood_still = end.snapshot.mode == STOP_THE_WORLD
        lazily = committed and end.snapshot.by_coordinator and not (stood_still or self._settings.trace)
        told = self._ends.leave_unsaid(end.snapshot, time.monotonic()) if lazily else tuple(self._members.hosts)
        for name in () if final else told:
            self._members.tell(name, "ended", end.snapshot, end.floor, committed)
        for name, drivers in end.past_drivers.items():
            self._members.tell(name, "forget_drivers", drivers)
        if under_way is None:
            return  # the snapshot of a lost coordinator, or its announcement is late
        self._last_ended = time.monotonic()
        if end.reason is not None:
            self._metrics.aborted(under_way.request.trigger, end.reason)
            self._commits.call(partial(self._committer.note_abort, under_way, end, time.monotonic()))
            self._members.tell_vaults("sweep")
            error = abort_error(end)
            log.warning("%s", error)
            under_way.request.refuse(error)
        self._begin_wanted()

    # Durable ---------------------------------------------------------------------------------------------------

    def _commit(self, cut: Cut) -> None:
        with self._lock:
            under_way, gathered = self._open.get(cut.snapshot), self._gathered.get(cut.snapshot, Gathered())
        if under_way is None:
            return  # it was aborted while it waited in the queue, because the system was fenced out
        record, figures = self._committer.store(cut, self._members.shares(gathered.bodies), under_way.taken(gathered))
        with self._lock:
            self._committed = record
            self._birth.end()
            self._carry_out(self._collector.handle(SnapshotStored(cut.snapshot)))
        under_way.request.settle(record, cut, figures)
        self._metrics.committed(under_way.request.trigger, figures)
        self._committer.retain(self._config)
        self._committer.write_aborts()

    def _uncommitted(self, cut: Cut, error: Exception) -> None:
        self._abort(cut.snapshot, *why_unwritten(cut.snapshot, error))
        if isinstance(error, Fenced):
            self._yield(error)

    def _yield(self, error: Fenced) -> None:
        """The storage belongs to another life of this system: this life can never commit again, so stop it."""
        with self._lock:
            self._give_up(error.message)
            for snapshot in tuple(self._open):
                self._abort(snapshot, AbortReason.FENCED, error.message)

    def _abort(self, snapshot: SnapshotId, reason: AbortReason, detail: str) -> None:
        with self._lock:
            self._carry_out(self._collector.handle(AbortWanted(snapshot, reason, detail)))

    # Time ------------------------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        for snapshot, under_way in [(k, one) for k, one in self._open.items() if now >= one.deadline]:
            self._abort(snapshot, AbortReason.TIMEOUT, f"not durable after {self._config.timeout_s:g} s")
            under_way.keep_nobody_waiting(snapshot, now)
        for snapshot, under_way in self._open.items():
            if snapshot.mode == ALIGNED and under_way.loses_patience(now, self._config.alignment_timeout_s):
                self._members.tell_all("stop_aligning", snapshot)
        self._birth.check(now)
        self._admission.expire(now)
        self._begin_wanted()  # a request may have expired before its snapshot began, which makes room
        for snapshot, floor in self._ends.overdue(now):
            self._members.tell_all("ended", snapshot, floor, True)  # noqa: FBT003 - a Ray call
        due = self._config.next_due(self._last_began, self._last_ended)
        idle = self._admission.is_empty and self._admission.fits(self._room)
        if due is not None and now >= due and idle and self.state() == RUNNING and self._members.hosts:
            self._admission.add(Request(self._config.mode, trigger="interval"), self._config.timeout_s)
            self._begin_wanted()

    # Restoring, taking over, ending ----------------------------------------------------------------------------

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def identity(self) -> HostIdentity:
        """The identity that a driver gives to the hosts that it makes."""
        return self._settings.identity(self._incarnation, self._own, self._config)

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def take_keys(self, keyring: Keyring | None) -> tuple[str, ...]:
        """Sign and encrypt with these keys, see `keyring`, if they are the system's. Returns names of missing keys."""
        if keyring is not None and keyring.names == self._keys:
            self._committer.take_keys(keyring)
            self._members.hand_out(keyring)
        return self._committer.missing_keys

    @ray.method(concurrency_group="control")
    def expect(self, ended: tuple[str, ...], snapshot: SnapshotId, origin: str | None, claimed: bool) -> None:  # noqa: FBT001
        """The system will load `snapshot`; these actors had ended before it. See `Repository.note_restore` too."""
        self._committer.restored(snapshot, origin, claimed=claimed)  # nothing is committed before `resume`
        with self._lock:
            self._collector = Collector(self._incarnation, ended=ended)
            self._members.know_ended(ended)

    @ray.method(concurrency_group="control")
    def resume(self) -> None:
        """All actors are loaded: let the system run. Raises SystemDown if it was stopped meanwhile."""
        with self._lock:
            if self._stop is not None:
                raise self._stop.error()
            if self._birth.loading:
                self._metrics.restored()
            self._birth.end()
            self._last_began = self._last_ended = time.monotonic()
            self._members.tell_all("resume")
            self._begin_wanted()

    @ray.method(concurrency_group="ask")
    def shutdown(self, detail: str) -> None:
        """End all actors and vaults of the system. Only the coordinator is left, and it writes nothing any more."""
        with self._lock:
            stop = self._stop = self._stop or Stop(*self._name, None, detail)
            for snapshot in tuple(self._open):
                self._carry_out(self._collector.handle(AbortWanted(snapshot, AbortReason.REQUESTED, detail)))
            self._admission.refuse(stop.error())
            self._birth.end()
            clean_up = self._members.kill_all()
        clean_up()
        self._commits.close()
        self._heart.close()

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def state(self) -> str:
        """See `states`."""
        return STOPPED if self._stop else self._birth.state

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def status(self) -> dict[str, Any]:
        """See `System.status`."""
        with self._lock:
            missing, open_channels = self._collector.missing, self._collector.open_channels
            under_way = {k: one.status(missing(k), open_channels(k)) for k, one in self._open.items()}
            status = {
                "system": self._settings.system,
                "incarnation": self._incarnation,
                "state": self.state(),
                "stop": self._stop,
                "committed": self._committed,
                "aborted": self._metrics.aborted_count,
            }
        for k, report in under_way.items():
            report["handlers"] = self._members.why_missing(k, report["missing"])
        return {**status, "snapshots": under_way, "actors": self._members.status()}

    def _figures(self) -> SystemFigures:
        committed = self._committed
        return SystemFigures(self.state(), len(self._open), committed.taken_at if committed is not None else 0.0)

    def _take_over(self) -> None:
        """After the death of the old coordinator: go on with the living members of the system."""
        remains = find_remains(self._members, self._committer, self._incarnation, self._name, self._settings.loading)
        self._members.know_ended(remains.ended)
        self._committed = self._committer.newest_of(self._incarnation)
        self._collector = Collector(self._incarnation, remains.counter, remains.ended, remains.stored)
        for name, answer in remains.answers.items():
            if answer.end is None:
                self._carry_out(self._collector.handle(ProcessJoined(name, answer.lost)))
            else:
                self.ended(*answer.end)
        for handle in self._members.in_the_making.values():
            handle.rejoin.remote(self._life)
        if remains.stop is not None:
            self._stop_all(remains.stop)
        elif remains.dead:
            self._died(remains.dead[0], "it died while nobody coordinated")
