"""One life of a system, as its coordinator leads it: its members, its snapshots, its storage, and why it is over."""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from rayshot.errors import Fenced
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import ProcessDied, ProcessEnded, ProcessJoined
from rayshot.protocol.collector import Collector
from rayshot.protocol.cut import Cut, Record
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.recovering import CommitWritten, DriverDied, LetGo, StopWanted, TookOver
from rayshot.runtime.coordinator.birth import Birth
from rayshot.runtime.coordinator.caring import Caring
from rayshot.runtime.coordinator.collector_runner import CollectorRunner
from rayshot.runtime.coordinator.let_go import FRUITLESS_MAX, LettingGo
from rayshot.runtime.coordinator.members import Living, Members
from rayshot.runtime.coordinator.metrics import Metrics, SystemFigures
from rayshot.runtime.coordinator.requests import Committed, Request
from rayshot.runtime.coordinator.takeover import Remains, find_remains
from rayshot.runtime.coordinator.tidings import Holds, Tidings, holds_of_cut, holds_of_manifest
from rayshot.runtime.coordinator.trace_window import TraceWindow
from rayshot.runtime.coordinator.under_way import keys_missing
from rayshot.runtime.door.roster import clear_rosters
from rayshot.runtime.wire.fitted import Fitted
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Joined, Stop
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.recovery_report import RecoveryReport
from rayshot.runtime.wire.reports import unpack_record
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import RECOVERING, RUNNING, STOPPED

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.committer import Committer
    from rayshot.runtime.coordinator.way_back import NewLife
    from rayshot.store.records import CommitRecord, RollbackRecord

log = logging.getLogger("rayshot")


class Heals(Protocol):
    """What brings a system back to its last snapshot by itself; see `healing`. Any thread may call."""

    def lost(self, life: int, name: str, detail: str) -> None:
        """A host of a life that runs died, or its actor failed."""

    def hear(self, event: CommitWritten | DriverDied | LetGo | StopWanted) -> None:
        """Note a fact."""

    def take_over(self, event: TookOver, left: Mapping[str, Living]) -> None:
        """A coordinator that was started again read the log, and found these hosts."""

    def found_running(self, record: "RollbackRecord") -> None:
        """A coordinator that was started again found the life running that this record began."""


class Life:
    """See the module. `lock` covers all of it. `stopped` says why the life is over; None before.

    `own` is the coordinator's Ray handle. `heals` brings the system back to a snapshot if a host dies; None: it stops
    then. `came_from`: the life was begun by that, and this is what it goes on from.

    `runner` has the snapshots, `members` the processes, `window` the tracing, `birth` how the life starts, `tidings`
    what drivers must hear, `caring` what careful actors do, `letting_go` what drivers no longer keep. `left`: the
    system goes back to a snapshot, so another life follows.
    """

    def __init__(
        self,
        settings: SystemSettings,
        committer: "Committer",
        own: Any,
        heals: Heals | None = None,
        came_from: Holds | None = None,
    ) -> None:
        # Imported late: processes that only hold a handle to the coordinator import this module, and need no storage.
        from rayshot.runtime.coordinator.heart import Heart  # noqa: PLC0415

        system, storage = self._name = settings.system, settings.storage
        self._settings, self._committer, self._own, self._heals = settings, committer, own, heals
        self.epoch = committer.epoch
        self.incarnation, self.term = committer.incarnation, committer.epoch.position
        self.issuer = Issuer(self.incarnation, self.term)
        self.stopped: Stop | None = None
        self.left = False
        self._came_from = came_from
        self.caring = Caring()
        self.members = Members(system, self.issuer, storage, self.died, assembled=came_from is not None)
        self.window = TraceWindow(self.members, always=bool(settings.trace))
        self.tidings = Tidings(self.incarnation, self.identity)
        self.letting_go = LettingGo(system, self.incarnation)
        self._heart = Heart(storage, system, committer.epoch, self.fenced)
        self._metrics = Metrics(system, self.incarnation, self._figures, self.members.figures)
        beginning = settings.beginning and not (committer.went_back or committer.stored_in(self.incarnation))
        loading = settings.loading and not committer.had_begun
        self.birth = Birth(self.give_up, loading=loading, beginning=beginning, going_back=came_from is not None)
        self.runner = CollectorRunner(
            settings,
            committer,
            self.members,
            self.birth,
            self._metrics,
            on_committed=self._committed,
            on_final=self._stop_finally,
            on_fenced=self.fenced,
        )
        self.lock = self.runner.lock

    def identity(self) -> HostIdentity:
        """The identity for hosts of this life."""
        identity = self._settings.identity(self.incarnation, self._own, self.runner.config)
        return replace(identity, cautions=self.caring.cautions) if self.caring.cautions else identity

    def start(self) -> None:
        """Begin, or go on if a coordinator that died had begun it."""
        committer, beginning = self._committer, self.birth.beginning
        if committer.had_begun:
            self.members.find_vaults()
        self.take_keys(self.members.find_keys(self._settings.keys))
        if committer.had_begun:
            self._take_over()
            if beginning:
                self.give_up("its coordinator died while its first actors were made")
        if committer.fenced is not None:
            self.fenced(committer.fenced)
        self.members.make_guard()
        self._start_parts()
        if self.birth.state == RUNNING:
            self.members.roster.mark()

    def _start_parts(self) -> None:
        for part in (self.runner, self._heart, self._metrics):
            part.start()

    # Members ---------------------------------------------------------------------------------------------------

    def join(self, name: str, node: str, living: Living) -> Joined:
        """See `Coordinator.join`. A host that has gone back in its place, and is loaded, joins too."""
        with self.lock:
            if self.stopped is not None:
                self.members.order(living.host, "stop", self.stopped)
            self.members.join(name, node, living)
            return Joined(self.term, *self.runner.join(name), self.window.full)

    def lose(self, name: str) -> Any | None:
        """See `Members.lose`."""
        with self.lock:
            assert self.birth.loading or self.stopped is not None, f"{name} was lost in a life that runs"
            return self.members.lose(name)

    def ended(self, record: Record, unfinished: tuple[SnapshotId, ...], trace: bytes | None, why: Ending) -> None:
        """See `Coordinator.ended`."""
        with self.lock:
            if self.left or not self.members.end(record.process, why):
                return
            if trace is not None:
                self._committer.keep_trace(record.process, trace)
            self.runner.process_ended(ProcessEnded(record, unfinished))

    def fate(self, name: str) -> Stop | Ending:
        """Why an actor does not answer."""
        with self.lock:
            return self.stopped or self.members.fate(name)

    def explains_nothing(self, name: str) -> bool:
        """Whether an actor is a member, and the life goes on."""
        return self.stopped is None and not self.left and name in self.members.hosts

    def died(self, name: str, detail: str) -> None:
        """An actor died, or failed: the life is over."""
        with self.lock:
            if self._heals is not None and self.stopped is None and self.state in (RUNNING, RECOVERING):
                self._end_by_going_back(detail)  # first: otherwise a snapshot would begin without the dead actor
                self.runner.handle(ProcessDied(name, detail))
                self._heals.lost(self.incarnation, name, detail)
            elif self.give_up(detail, name):
                self.runner.handle(ProcessDied(name, detail))

    # Going back to a snapshot ----------------------------------------------------------------------------------

    def _end_by_going_back(self, detail: str) -> Stop:
        """No snapshot of this life begins any more. Returns what hosts and programs are told. Call under the lock."""
        self.left = True
        stop = Stop(*self._name, None, detail, goes_back=True)
        self.runner.end(stop.error())
        return stop

    def leave(self, detail: str) -> dict[str, Living]:
        """The system goes back to a snapshot: no host works any more. Returns the hosts, which the next life may use.

        A snapshot that is being stored is not given up: if its COMMIT is faster than the record of the rollback, it is
        the snapshot to which the system goes back.
        """
        with self.lock:
            stop = self._end_by_going_back(detail)
            self.birth.end()
            self._heart.keep_beating()  # a program in another cluster must not take the storage meanwhile
            self._metrics.stop()
            self.members.tell_all("stop", stop)
            left = self.members.leave()
            self.runner.abort_all(AbortReason.ACTOR_DIED, detail)
        threading.Thread(target=self.runner.leave, name="rayshot-left", daemon=True).start()
        return left

    def next(self, began: "NewLife") -> "Life":
        """The life that goes on from a snapshot behind this one. It runs when all hosts are loaded and `resume`d."""
        manifest = began.origin.manifest
        holds = holds_of_manifest(began.committer.epoch.position, manifest)
        settings = replace(self._settings, snapshot=self.runner.config)
        life = Life(settings, began.committer, self._own, self._heals, holds)
        life.members.inherit(self.members, manifest.ended)
        life.members.tell_vaults("give_up_lives", self.incarnation)
        life.runner.replace_machine(Collector(life.incarnation, ended=manifest.ended))
        life.members.know_ended(manifest.ended)
        life._start_parts()
        self.tidings.pass_on(life.tidings)
        self._heart.stop()
        return life

    def count(self, report: RecoveryReport) -> None:
        """The life runs: count how it came."""
        self._metrics.went_back(report.phases)

    def complete(self) -> None:
        """All hosts are loaded: mark the life, and watch them."""
        with self.lock:
            self.members.complete()

    def _committed(self, record: "CommitRecord", cut: Cut) -> None:
        if self._heals is None:
            return
        self.caring.committed()
        holds = holds_of_cut(record.position, cut) if record.advances else None
        with self.lock:
            held = frozenset[str]() if holds is None else self.letting_go.committed(holds)
            self._heals.hear(CommitWritten(self.incarnation, held))
        if holds is not None:
            self.members.forget_fit()
            self.tidings.covered(holds)

    # Drivers ---------------------------------------------------------------------------------------------------

    def driver_died(self, name: str) -> None:
        """A driver is dead: its channels are closed."""
        with self.lock:
            self.members.tell_all("driver_died", name)
            self.letting_go.forget(name)
            if self._heals is not None:
                self._heals.hear(DriverDied(name))

    def let_go(self, driver: str, sent: Mapping[str, int], received: Mapping[str, int]) -> bool:
        """See `Coordinator.let_go`. A loss that is noticed afterwards is heard afterwards."""
        with self.lock:
            if self._heals is None or self.state != RUNNING:
                return False
            if self.runner.fruitless(time.monotonic()) < FRUITLESS_MAX:
                self.runner.want()
                return False
            self._heals.hear(self.letting_go.take(driver, time.time(), sent, received))
            return True

    # The end ---------------------------------------------------------------------------------------------------

    def give_up(self, detail: str, actor: str | None = None, way: str = "") -> bool:
        """Stop, because of `actor` if one is given; `way` is as in Stop. Returns whether it went on until now."""
        with self.lock:
            if self._heals is not None:
                self._heals.hear(StopWanted(detail))
            if goes_on := self.stopped is None:
                self._stop(stop := Stop(*self._name, actor, detail, way=way))
                log.error("%s", stop.error())
            return goes_on

    def fenced(self, error: Fenced) -> None:
        """The storage belongs to another life of this system: this one can never commit again, so stop it."""
        with self.lock:
            if not self.left:
                self.give_up(error.message)
            self.runner.abort_all(AbortReason.FENCED, error.message)

    def _stop(self, stop: Stop) -> None:
        self.stopped = stop
        self.birth.end()
        self._heart.stop()
        self.tidings.stop(stop)
        self.members.stop_all(stop)
        self.runner.end(stop.error())

    def _stop_finally(self, snapshot: SnapshotId) -> None:
        self._stop(Stop.with_savepoint(*self._name, snapshot, advances=snapshot == self.runner.advanced))

    def shut_down(self, detail: str) -> None:
        """End all actors and vaults, and write nothing any more."""
        with self.lock:
            stop = self.stopped = self.stopped or Stop(*self._name, None, detail)
            self.tidings.stop(stop)
            self.runner.end(stop.error())
            self.runner.abort_all(AbortReason.REQUESTED, detail)
            self.birth.end()
            clean_up = self.members.kill_all()
        clean_up()
        self.runner.close()
        self._heart.close()

    # Snapshots -------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Committed:
        """Take a snapshot; returns when it is durable. See `Coordinator.snapshot`."""
        missing = self.stopped is None and self._committer.missing_keys
        if missing and self.take_keys(self.members.find_keys(self._settings.keys)):
            raise keys_missing()
        self.runner.ask(request)
        return request.wait()

    def take_keys(self, keyring: Keyring | None) -> tuple[str, ...]:
        """See `Coordinator.take_keys`."""
        if keyring is not None and keyring.names == self._settings.keys:
            self._committer.take_keys(keyring)
            self.members.hand_out(keyring)
        return self._committer.missing_keys

    @property
    def modules(self) -> frozenset[str] | None:
        """See `Committer.modules`."""
        return self._committer.modules

    @property
    def heals(self) -> bool:
        """Whether the system goes back to its snapshots by itself."""
        return self._heals is not None

    @property
    def went_back(self) -> bool:
        """Whether this life went on from a snapshot by itself."""
        return self._committer.went_back

    @property
    def keyring(self) -> Keyring | None:
        """The keys with which the life signs and encrypts; None while they are missing."""
        return self._committer.keyring

    def tick(self, now: float) -> None:
        """Do all that is due; see `CollectorRunner.tick`."""
        with self.lock:
            if not self.left or self.stopped is not None:  # see `CollectorRunner.leave` for others
                self.runner.tick(now)

    def nodes_in_use(self) -> set[str]:
        """The nodes of the actors of a life that runs."""
        return self.members.nodes() if self.state == RUNNING else set()

    def take_before_drain(self) -> SnapshotId:
        """Take a snapshot because a node goes."""
        return self.ask(Request(self.runner.config.mode, trigger="drain")).record.snapshot

    # Restoring and taking over ---------------------------------------------------------------------------------

    def expect(
        self, ended: tuple[str, ...], snapshot: SnapshotId, origin: str | None, *, claimed: bool, fitted: Fitted | None
    ) -> None:
        """See `Coordinator.expect`."""
        if fitted is not None:
            self.members.keep_fit(fitted)
        self._committer.restored(snapshot, origin, claimed=claimed)  # nothing is committed before `resume`
        with self.lock:
            self.runner.replace_machine(Collector(self.incarnation, ended=ended))
            self.members.know_ended(ended)

    def resume(self) -> None:
        """All actors are loaded: let them run. Raises SystemDown if the life was stopped meanwhile."""
        with self.lock:
            if self.stopped is not None:
                raise self.stopped.error()
            if self.birth.loading and self._came_from is None:
                self._metrics.restored()
            if self._came_from is None:
                self.members.roster.mark()
            self.birth.end()
            self.caring.resumed()
            self.members.tell_all("resume")
            self.runner.begin_life()
            if self._came_from is not None:
                clear_rosters(self._name[0], self.incarnation - 1)
                self.tidings.runs(self._came_from)

    def _take_over(self) -> None:
        """After the death of the old coordinator: go on with the living members."""
        marked, went_back = self.members.roster.is_marked, self._committer.went_back
        remains = find_remains(self.members, self._committer, self.incarnation, self._name, self._settings.loading)
        self.members.find_fit()
        if (fitted := self.members.fitted) is not None:
            remains.ended.update(fitted.left_out)
        self.members.know_ended(remains.ended)
        self.runner.committed = self._committer.take_up(self.incarnation)
        self.runner.advanced = self._committer.newest_that_advances(self.incarnation)
        self.runner.replace_machine(Collector(self.incarnation, remains.counter, remains.ended, remains.stored))
        for name, answer in remains.answers.items():
            if answer.end is None:
                self.runner.handle(ProcessJoined(name, answer.lost))
            else:
                packed, unfinished, trace, why = answer.end
                self.ended(unpack_record(packed), unfinished, trace, why)
        for handle in self.members.in_the_making.values():
            self.members.order(handle, "rejoin")
        if self._heals is not None:
            for let_go in self.letting_go.find():
                self._heals.hear(let_go)
        if self._heals is not None and (marked or went_back) and not remains.has_savepoint:
            self._take_over_healing(self._heals, remains, marked=marked)
        elif remains.stop is not None:
            self._stop(remains.stop)
        elif remains.dead:
            name = remains.dead[0]
            failure = remains.answers[name].failure if name in remains.answers else None
            self.died(name, failure or "it died while nobody coordinated")

    def _take_over_healing(self, heals: Heals, remains: Remains, *, marked: bool) -> None:
        """Go on if all hosts run in this life, else go back: nobody else knows how far another coordinator came."""
        idle = any(answer.loading for answer in remains.answers.values())
        if marked and not remains.dead and not idle:
            if (record := self._committer.rollback) is not None:
                heals.found_running(record)
            origin = self._committer.find_origin() if self._committer.went_back else None
            if origin is not None:
                self.tidings.runs(holds_of_manifest(self.epoch.position, origin))
            return
        self.left = True
        event = TookOver(
            self.incarnation, marked, remains.dead, time.time(), self._committer.past, idle=idle or not marked
        )
        self.members.find_options()
        heals.take_over(event, self.members.find_living())

    # Status ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """See `states`."""
        return STOPPED if self.stopped else RECOVERING if self.left else self.birth.state

    def status(self) -> dict[str, Any]:
        """See `System.status`."""
        with self.lock:
            under_way = self.runner.status()
            status = {
                "system": self._settings.system,
                "incarnation": self.incarnation,
                "state": self.state,
                "stop": self.stopped,
                "committed": self.runner.committed,
                "proved": self._committer.proved,
                "aborted": self._metrics.aborted_count,
                "let_go": (self.letting_go.since, self.letting_go.text),
            }
        for k, report in under_way.items():
            report["handlers"] = self.members.why_missing(k, report["missing"])
        return {**status, "snapshots": under_way, "actors": self.members.status()}

    def _figures(self) -> SystemFigures:
        committed = self.runner.committed
        return SystemFigures(
            self.state, len(self.runner.under_way), committed.taken_at if committed is not None else 0.0
        )
