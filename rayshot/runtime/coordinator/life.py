"""One life of a system, as its coordinator leads it: its members, its snapshots, its storage, and why it is over."""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from rayshot.errors import Fenced, SystemDown
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import ProcessDied, ProcessEnded, ProcessJoined
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import Owed, SnapshotId
from rayshot.protocol.record import Record
from rayshot.protocol.recovery import Phase
from rayshot.protocol.recovery_events import (
    Began,
    CommitWritten,
    DriverLost,
    Evicted,
    LifeFenced,
    RecoveryEvent,
    SavepointStored,
    StarterDied,
    TookOver,
)
from rayshot.runtime.coordinator.collector_runner import CollectorRunner
from rayshot.runtime.coordinator.evictions import FRUITLESS_MAX, Evictions
from rayshot.runtime.coordinator.members import Living, Members
from rayshot.runtime.coordinator.metrics import Metrics, SystemFigures
from rayshot.runtime.coordinator.notifications import DurableNumbers, Notifications, holds_of_cut, holds_of_manifest
from rayshot.runtime.coordinator.pending_snapshots import keys_missing
from rayshot.runtime.coordinator.poison_detection import PoisonDetection
from rayshot.runtime.coordinator.requests import Committed, PendingRequest
from rayshot.runtime.coordinator.starter import Starter
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.coordinator.takeover import find_remains, taking_over
from rayshot.runtime.coordinator.trace_window import TraceWindow
from rayshot.runtime.door.roster import clear_rosters
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Joined, Stop
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.reports import unpack_record
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import BEGINNING, LOADING, RECOVERING, RUNNING, STOPPED

if TYPE_CHECKING:
    from rayshot.log.records import CommitRecord, RollbackRecord
    from rayshot.runtime.coordinator.committer import Committer
    from rayshot.runtime.coordinator.restoration import Restoration
    from rayshot.runtime.coordinator.rollback import NewLife


class LeadsLives(Protocol):
    """What a life asks and tells of the way from one to the next; see `healer.Healer`. Any thread may call."""

    lock: SystemLock

    def phase_of(self, life: int) -> Phase:
        """Where this life is."""

    def hear(self, event: RecoveryEvent) -> None:
        """Give the machine an event."""

    def lost(self, life: int, name: str, detail: str) -> None:
        """A host of a life died, or its actor failed."""

    def take_over(self, event: TookOver) -> None:
        """A coordinator that was started again has read the log."""

    def found_running(self, record: "RollbackRecord") -> None:
        """It found the life running that this record began."""


class Life:
    """See the module. The system's lock covers all of it: hold it where a method says so, else none.

    `own` is the coordinator's Ray handle. `healer` knows in which phase the system is. `came_from`: the life was begun
    by a rollback, and this is what it goes on from.

    `committer` writes to the storage, `runner` has the snapshots, `members` the processes, `window` the tracing,
    `starter` the program that starts the life, `notifications` what drivers must hear, `poison` what watched actors do,
    `evictions` what drivers no longer keep.
    `end` says why the life is over, None while it is not: the system has stopped, or goes back to a snapshot.
    """

    def __init__(
        self,
        settings: SystemSettings,
        committer: "Committer",
        own: Any,
        healer: LeadsLives,
        came_from: DurableNumbers | None = None,
    ) -> None:
        # Imported late: processes that only hold a handle to the coordinator import this module, and need no storage.
        from rayshot.runtime.coordinator.heartbeat import HeartbeatThread  # noqa: PLC0415

        system, storage = self._name = settings.system, settings.storage
        self._settings, self.committer, self._own, self._healer = settings, committer, own, healer
        self.lock = healer.lock
        self.epoch = committer.epoch
        self.incarnation, self.term = committer.incarnation, committer.epoch.position
        self.issuer = Issuer(self.incarnation, self.term)
        self.end: Stop | None = None
        self._joining = threading.Lock()
        self._came_from = came_from
        self.poison = PoisonDetection()
        self.members = Members(system, self.issuer, storage, self.died, self.lock)
        self.window = TraceWindow(self.members, always=bool(settings.trace))
        self.notifications = Notifications(self.incarnation, self.identity)
        self.evictions = Evictions(system, self.incarnation, self.lock)
        self._heartbeat = HeartbeatThread(storage, system, committer.epoch, self.fenced)
        self.metrics = Metrics(system, self.incarnation, self._figures, self.members.figures)
        self.starter = Starter(self._starter_died)
        self.runner = CollectorRunner(settings, committer, self.members, self.metrics, self, self.lock)

    def identity(self) -> HostIdentity:
        """The identity for hosts of this life."""
        identity = self._settings.identity(self.incarnation, self._own, self.runner.config)
        return replace(identity, outside=self.committer.outside(), cautions=self.poison.cautions)

    def start(self) -> None:
        """Begin, or go on if a coordinator that died had begun it."""
        committer, settings = self.committer, self._settings
        self.runner.start()
        if committer.had_begun:
            self.members.find_vaults()
        self.take_keys(self.members.find_keys(settings.keys))
        if committer.had_begun:
            self._take_over()
        elif not settings.loading:
            self._healer.hear(Began(self.incarnation, waits_for_commit=settings.beginning))
        if committer.fenced is not None:
            self.fenced(committer.fenced)
        self.members.make_guard()
        self._heartbeat.start()
        self.metrics.start()
        if self.phase is Phase.RUNNING:
            self.members.roster.mark()

    # Whether it runs -------------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """Where it is. A life that another one follows stays WAITING for ever."""
        return self._healer.phase_of(self.incarnation)

    @property
    def state(self) -> str:
        """See `states`."""
        match self.phase:
            case Phase.LOADING | Phase.MARKING | Phase.NEW:
                return LOADING if self._came_from is None else RECOVERING
            case Phase.WAITING:
                return RECOVERING
            case Phase.BEGINNING:
                return BEGINNING
            case Phase.RUNNING:
                return RUNNING
            case Phase.STOPPED:
                return STOPPED
            case phase:
                assert_never(phase)

    @property
    def stopped(self) -> Stop | None:
        """Why the system is over; None if it is not, or only this life is."""
        return None if self.rolls_back else self.end

    @property
    def rolls_back(self) -> bool:
        """Whether the life is over because the system goes back to a snapshot, or went back."""
        return self.end is not None and self.end.rolls_back

    @property
    def over(self) -> SystemDown | None:
        """A new error for who asks this life for anything, if it is over."""
        return None if self.end is None else self.end.error()

    # Members ---------------------------------------------------------------------------------------------------

    def join(self, name: str, node: str, living: Living) -> Joined | None:
        """See `Coordinator.join`. A host that has gone back in its place, and is loaded, joins too.

        One after the other, so that the roster is right. Returns None if the host is of no use any more: the life was
        left meanwhile, or the host was lost, or has ended.
        """
        assert not self.lock.is_held, "a host is written down without the lock"
        with self._joining:
            with self.lock:
                if self.rolls_back:
                    return None
                self.members.admit(name, living)
            vault = self.members.find_vault(node)
            self.members.enlist(name, living)
            with self.lock:
                if self.members.is_admitted(name, living) and not self.rolls_back:
                    is_loaded = self.phase not in (Phase.LOADING, Phase.MARKING)
                    self.members.join(name, node, living, vault, watched=is_loaded)
                    if self.end is not None:
                        self.members.order(living.host, "stop", self.end)
                    return Joined(self.term, *self.runner.join(name), self.window.full)
            self.members.roster.remove(name)  # who is on the roster and gone has died
            return None

    def lose(self, name: str) -> Any | None:
        """See `Members.lose`."""
        with self.lock:
            assert self.phase not in (Phase.BEGINNING, Phase.RUNNING), f"{name} was lost in a life that runs"
            return self.members.lose(name)

    def ended(self, record: Record, unfinished: tuple[SnapshotId, ...], trace: bytes | None, why: Ending) -> None:
        """See `Coordinator.ended`."""
        with self.lock:
            if self.rolls_back or not self.members.end(record.process, why):
                return
            if trace is not None:
                self.committer.keep_trace(record.process, trace)
            self.runner.process_ended(ProcessEnded(record, unfinished))

    def fate(self, name: str) -> Stop | Ending:
        """Why an actor does not answer."""
        with self.lock:
            return self.stopped or self.members.fate(name)

    def explains_nothing(self, name: str) -> bool:
        """Whether an actor is a member, and the life goes on."""
        return self.end is None and name in self.members.hosts

    def died(self, name: str, detail: str) -> None:
        """An actor died, or failed: the life is over."""
        self._healer.lost(self.incarnation, name, detail)

    def _starter_died(self) -> None:
        detail = f"the program that was starting it died while it was {self.state}"
        self._healer.hear(StarterDied(self.incarnation, detail))

    # Going back to a snapshot ----------------------------------------------------------------------------------

    def leave(self, lost: str | None, detail: str) -> dict[str, Living]:
        """The system goes back to a snapshot, as `lost` was lost: no host works any more, and no snapshot begins.

        Returns the hosts, which the next life may use. A snapshot that is being stored is not given up: if its COMMIT
        is faster than the record of the rollback, it is the snapshot to which the system goes back. Under the lock.
        """
        assert self.lock.is_held, "a life is left under the lock"
        why = f"{lost} was lost: {detail}" if lost else detail
        stop = self.end = Stop(*self._name, None, why, rolls_back=True)
        self.runner.end(stop.error())
        self._heartbeat.keep_beating()  # a program in another cluster must not take the storage meanwhile
        self.metrics.stop()
        self.members.tell_all("stop", stop)
        left = self.members.leave()
        if lost is not None:
            self.runner.handle(ProcessDied(lost, detail))
        self.runner.abort_all(AbortReason.ACTOR_DIED, why)
        threading.Thread(target=self.runner.leave, name="rayshot-left", daemon=True).start()
        return left

    def next(self, began: "NewLife") -> "Life":
        """The life that goes on from a snapshot behind this one. It runs when all hosts are loaded and `resume`d."""
        assert self.lock.is_held, "a life follows under the lock"
        manifest = began.origin.manifest
        holds = holds_of_manifest(began.committer.epoch.position, manifest)
        settings = replace(self._settings, snapshot=self.runner.config)
        life = Life(settings, began.committer, self._own, self._healer, holds)
        life.members.inherit(self.members, manifest.ended)
        life.members.tell_vaults("give_up_lives", self.incarnation)
        life.runner.replace_machine(Collector(life.incarnation, ended=manifest.ended))
        life.members.know_ended(manifest.ended)
        life.runner.news.owe(manifest.snapshot, {one.name for one in manifest.actors if one.outside is not None})
        for part in (life.runner, life._heartbeat, life.metrics):
            part.start()
        self.notifications.pass_on(life.notifications)
        self._heartbeat.stop()
        return life

    def complete(self) -> None:
        """All hosts are loaded: mark the life."""
        assert not self.lock.is_held, "the mark is written without the lock"
        self.members.roster.mark()

    def resume(self) -> None:
        """All actors are loaded, and the life runs. Under the lock."""
        assert self.lock.is_held, "a life is resumed under the lock"
        if self._came_from is None:
            self.metrics.restored()
        self.poison.resumed()
        self.members.tell_all("resume")
        self.runner.begin_life()
        if self._came_from is not None:
            self.notifications.runs(self._came_from)

    def forget_earlier(self) -> None:
        """The life runs: nobody needs what is written down of those before it."""
        assert not self.lock.is_held, "rosters are cleared without the lock"
        clear_rosters(self._name[0], self.incarnation - 1)

    # Snapshots that are stored ---------------------------------------------------------------------------------

    def holds_of(self, record: "CommitRecord", cut: Cut) -> DurableNumbers | None:
        """What a snapshot that was just committed holds of drivers; None if that is of no use to any."""
        return holds_of_cut(record.position, cut) if self.heals and record.advances else None

    def stored(self, holds: DurableNumbers | None) -> None:
        """A snapshot was committed. Under the lock, and before anybody is told."""
        assert self.lock.is_held, "a life hears of its snapshots under the lock"
        held = frozenset[str]() if holds is None else self.evictions.committed(holds)
        self._healer.hear(CommitWritten(self.incarnation, held))

    def committed(self, holds: DurableNumbers | None) -> None:
        """Tell all others of a snapshot of which the life has heard."""
        assert not self.lock.is_held, "notes are struck without the lock"
        self.poison.committed()
        if holds is not None:
            self.evictions.strike()
            self.members.forget_fit()
            self.notifications.covered(holds)

    def savepoint_stored(self, snapshot: SnapshotId) -> None:
        """The snapshot was committed with which a person stops the system."""
        assert self.lock.is_held, "a savepoint is known under the lock"
        self._healer.hear(SavepointStored(self.incarnation, snapshot))

    # Drivers ---------------------------------------------------------------------------------------------------

    def driver_died(self, name: str) -> None:
        """A driver is dead: its channels are closed."""
        with self.lock:
            self.members.tell_all("driver_died", name)
            self.evictions.forget_dead(name)
            self._healer.hear(DriverLost(name))
        self.evictions.strike()

    def evict(self, driver: str, sent: Mapping[str, int], received: Mapping[str, int], owed: Owed) -> bool:
        """See `Coordinator.evict`. A loss that is noticed afterwards is heard afterwards."""
        with self.lock:
            if not self.heals or self.phase is not Phase.RUNNING:
                return False
            if self.runner.fruitless(time.monotonic()) < FRUITLESS_MAX:
                self.runner.want()
                return False
        return self.evictions.take(
            Evicted(self.incarnation, driver, sent, received, time.time(), owed), self._hear_evicted
        )

    def _hear_evicted(self, event: Evicted) -> bool:
        """Under the lock. False if the system goes back: its snapshot may be chosen already."""
        assert self.lock.is_held, "who may evict is told under the lock"
        if self.phase is not Phase.RUNNING:
            return False
        self._healer.hear(event)
        return True

    # The end ---------------------------------------------------------------------------------------------------

    def fenced(self, error: Fenced) -> None:
        """The storage belongs to another life of this system: this one can never commit again, so stop it."""
        with self.lock:
            self._healer.hear(LifeFenced(self.incarnation, error.message))
            self.runner.abort_all(AbortReason.FENCED, error.message)

    def stop(self, stop: Stop, *, told: bool) -> None:
        """The system is over. If hosts are not `told`, their processes are ended next. Under the lock."""
        assert self.lock.is_held, "a life is stopped under the lock"
        self.end = stop
        self._heartbeat.stop()
        self.notifications.stop(stop)
        if told:
            self.members.stop_all(stop)
        self.runner.end(stop.error())
        if stop.actor is not None:
            self.runner.handle(ProcessDied(stop.actor, stop.detail))

    def shut_down(self, detail: str) -> None:
        """End all actors and vaults of a system that has stopped, and write nothing any more."""
        assert not self.lock.is_held, "a system is ended without the lock"
        with self.lock:
            self.runner.abort_all(AbortReason.REQUESTED, detail)
            end_processes = self.members.disband()
        end_processes()
        self.runner.close()
        self._heartbeat.close()

    # Snapshots -------------------------------------------------------------------------------------------------

    def ask(self, request: PendingRequest) -> Committed:
        """Take a snapshot; returns when it is durable. See `Coordinator.snapshot`."""
        missing = self.end is None and self.committer.missing_keys
        if missing and self.take_keys(self.members.find_keys(self._settings.keys)):
            raise keys_missing()
        self.runner.ask(request)
        return request.wait()

    def take_keys(self, keyring: Keyring | None) -> tuple[str, ...]:
        """See `Coordinator.take_keys`."""
        if keyring is not None and keyring.names == self._settings.keys:
            self.committer.take_keys(keyring)
            self.members.hand_out(keyring)
        return self.committer.missing_keys

    @property
    def heals(self) -> bool:
        """Whether the system goes back to its snapshots by itself."""
        return self._settings.failure.heals

    def tick(self, now: float) -> None:
        """Do all that is due; see `CollectorRunner.tick`."""
        with self.lock:
            if not self.rolls_back:  # see `CollectorRunner.leave` for others
                self.runner.tick(now)
            if self.phase in (Phase.NEW, Phase.BEGINNING):
                self.starter.check(now)

    def nodes_in_use(self) -> set[str]:
        """The nodes of the actors of a life that runs."""
        return self.members.nodes() if self.phase is Phase.RUNNING else set()

    def take_before_drain(self) -> SnapshotId:
        """Take a snapshot because a node goes."""
        return self.ask(PendingRequest(self.runner.config.mode, trigger="drain")).record.snapshot

    # Restoring and taking over ---------------------------------------------------------------------------------

    def restore(self, order: "Restoration") -> None:
        """A person restores the system so: write that down. See `Healer.restore`."""
        assert not self.lock.is_held, "the log is written without the lock"
        if order.fitted is not None:
            self.members.keep_fit(order.fitted)
        self.committer.restored(order)  # nothing is committed before
        with self.lock:
            self.runner.replace_machine(Collector(self.incarnation, ended=order.ended))
            self.members.know_ended(order.ended)
            self.runner.news.owe(
                order.snapshot, {name for name, plan in order.plans.items() if plan.outside is not None}
            )

    def _take_over(self) -> None:
        """After the death of the old coordinator: go on with the living members, or end the life.

        Who dies meanwhile is seen afterwards, as the lock is held; nobody else wants it yet.
        """
        with self.lock:
            event = self._find_remains()
            self._healer.take_over(event)
            if self.phase is Phase.RUNNING and (record := self.committer.rollback) is not None:
                self._healer.found_running(record)
                if (origin := self.committer.find_origin()) is not None:
                    self.notifications.runs(holds_of_manifest(self.epoch.position, origin))

    def _find_remains(self) -> TookOver:
        assert self.lock.is_held, "a take-over holds the lock"
        committer = self.committer
        remains = find_remains(self.members, committer, self.incarnation, self._name)
        self.members.find_fit()
        if (fitted := self.members.fitted) is not None:
            remains.ended.update(fitted.left_out)
        self.members.know_ended(remains.ended)
        self.runner.committed = committer.take_up(self.incarnation)
        self.runner.news.advanced = committer.newest_that_advances(self.incarnation)
        there = committer.outside_of_newest(self.incarnation) if remains.savepoint is not None else ()
        self.runner.news.take_over(remains.answers, remains.savepoint, there)
        self.runner.replace_machine(Collector(self.incarnation, remains.counter, remains.ended, remains.stored))
        for name, answer in remains.answers.items():
            if answer.end is None:
                self.runner.handle(ProcessJoined(name, answer.lost))
            else:
                packed, open_ones, trace, why = answer.end
                self.ended(unpack_record(packed), open_ones, trace, why)
        for handle in self.members.in_the_making.values():
            self.members.order(handle, "rejoin")
        evicted = self.evictions.find() if self.heals else ()
        return taking_over(remains, committer, self._settings, self.members.roster.is_marked, evicted)

    # Status ----------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """See `System.status`."""
        with self.lock:
            pending = self.runner.status()
            status = {
                "system": self._settings.system,
                "incarnation": self.incarnation,
                "state": self.state,
                "stop": self.stopped,
                "committed": self.runner.committed,
                "proved": self.committer.proved,
                "aborted": self.metrics.aborted_count,
                "let_go": (self.evictions.since, self.evictions.text),
                "outside": self.runner.news.figures(),
            }
        for k, report in pending.items():
            report["handlers"] = self.members.why_missing(k, report["missing"])
        return {**status, "snapshots": pending, "actors": self.members.status()}

    def _figures(self) -> SystemFigures:
        committed, news = self.runner.committed, self.runner.news
        taken_at = committed.taken_at if committed is not None else 0.0
        return SystemFigures(self.state, len(self.runner.pending), taken_at, news.behind_s, news.failures)
