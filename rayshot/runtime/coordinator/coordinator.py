"""The coordinator of a system: a detached, named Ray actor that knows its members and owns the commit log.

It keeps nothing that it could not find again. When it dies, Ray starts it again with the same settings. It then reads
the log, takes the system over with a new EPOCH, and asks the living actors. Snapshots that were under way are lost.
"""

import logging
from typing import Any

import ray

from rayshot.errors import Fenced
from rayshot.model.configuration import SnapshotConfig
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import (
    ProcessDied,
    ProcessEnded,
    ProcessJoined,
    ProcessQuiet,
)
from rayshot.protocol.collector import Collector
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.birth import Birth
from rayshot.runtime.coordinator.clock import start_clock
from rayshot.runtime.coordinator.collector_runner import CollectorRunner
from rayshot.runtime.coordinator.draining import DrainWatch
from rayshot.runtime.coordinator.driver_watch import DriverWatch
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.coordinator.metrics import Metrics, SystemFigures
from rayshot.runtime.coordinator.notices import UNTIL_ANSWERED, notice
from rayshot.runtime.coordinator.questions import Questions
from rayshot.runtime.coordinator.requests import Committed, Order, Request
from rayshot.runtime.coordinator.takeover import find_remains
from rayshot.runtime.coordinator.trace_window import TraceWindow
from rayshot.runtime.coordinator.under_way import (
    keys_missing,
)
from rayshot.runtime.ray.naming import NAMESPACE, coordinator_name
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Joined, Stop
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.reports import Body, unpack_record
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import RUNNING, STOPPED

log = logging.getLogger("rayshot")
GROUPS = {"control": 4, "ask": 4, "wait": 32, "stay": 1}


class Coordinator(DriverWatch, Questions):
    """See the module. `_runner` has the machine and the snapshots; here are the life of the system and its members."""

    def __init__(self, settings: SystemSettings) -> None:
        super().__init__()
        self._settings, self._keys = settings, settings.keys
        system, storage = self._name = settings.system, settings.storage
        # Imported late: processes that only hold a handle to the coordinator import this module, and need no storage.
        from rayshot.runtime.coordinator.committer import Committer  # noqa: PLC0415
        from rayshot.runtime.coordinator.heart import Heart  # noqa: PLC0415

        self._committer = Committer(settings, ray.get_runtime_context().get_actor_id())
        self._incarnation = incarnation = self._committer.incarnation
        restarted = self._committer.had_begun
        self._own = ray.get_actor(coordinator_name(system), namespace=NAMESPACE)
        self._term = self._committer.epoch.position
        self._members = Members(system, Issuer(incarnation, self._term), storage, self._died)
        self._window = TraceWindow(self._members, always=bool(settings.trace))
        self._heart = Heart(storage, system, self._committer.epoch, self._yield)
        self._metrics = Metrics(system, incarnation, self._figures, self._members.figures)
        self._stop: Stop | None = None
        beginning = settings.beginning and not self._committer.stored_in(incarnation)
        self._birth = Birth(self._give_up, loading=settings.loading and not restarted, beginning=beginning)
        self._runner = CollectorRunner(
            settings,
            self._committer,
            self._members,
            self._birth,
            self._metrics,
            on_final=self._stop_finally,
            on_fenced=self._yield,
        )
        self._lock = self._runner.lock
        if restarted:
            self._members.find_vaults()
        self.take_keys(self._members.find_keys(self._keys))
        if restarted:
            self._take_over()
            if beginning:
                self._give_up("its coordinator died while its first actors were made")
        if self._committer.fenced is not None:
            self._yield(self._committer.fenced)
        for part in (self._runner, self._heart, self._metrics):
            part.start()
        DrainWatch(self._nodes_in_use, self._take_before_drain).start()
        start_clock(system, self._lock, self._runner.tick)

    # Members ---------------------------------------------------------------------------------------------------

    @notice
    def join(self, name: str, node: str, handle: Any) -> Joined:
        """An actor's process has started: it is a member from now on. Raises ActorExited for a used name."""
        with self._lock:
            if self._stop is not None:
                self._members.order(handle, "stop", self._stop)
            self._members.join(name, node, handle)
            return Joined(self._term, *self._runner.join(name), self._window.full)

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
            self._runner.process_ended(ProcessEnded(record, unfinished))

    @notice
    def leaving(self, name: str) -> None:
        """An actor wants to end, but cannot while a snapshot is open there: tell it at once when snapshots end."""
        self._runner.leaving(name)

    @notice
    def failed(self, name: str, detail: str) -> None:
        """An actor reports a failure that stops the whole system."""
        self._died(name, detail)

    def _died(self, name: str, detail: str) -> None:
        with self._lock:
            if self._give_up(detail, name):
                self._runner.handle(ProcessDied(name, detail))

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
        self._runner.end(stop.error())

    def _stop_finally(self, snapshot: SnapshotId) -> None:
        self._stop_all(Stop(*self._name, None, f"it was stopped with the savepoint {snapshot}"))

    # Snapshots -------------------------------------------------------------------------------------------------

    @ray.method(concurrency_group="wait")
    def snapshot(self, order: Order) -> Committed:
        """Take a snapshot; returns when it is durable. A system that begins takes only its first snapshot.

        Raises SnapshotAborted; ConfigError while it begins; NoAnswer; SystemDown if it takes no messages any more.
        """
        mode, trigger = order.mode or self._runner.config.mode, "request" if order.label is None else "savepoint"
        return self._window.take(order.traced, lambda: self._ask(Request(mode, order, trigger)))

    def _nodes_in_use(self) -> set[str]:
        return self._members.nodes() if self.state() == RUNNING else set()

    def _take_before_drain(self) -> SnapshotId:
        return self._ask(Request(self._runner.config.mode, trigger="drain")).record.snapshot

    def _ask(self, request: Request) -> Committed:
        if self._stop is None and self._committer.missing_keys and self.take_keys(self._members.find_keys(self._keys)):
            raise keys_missing()
        self._runner.ask(request)
        return request.wait()

    @notice
    def announce(self, snapshot: SnapshotId, name: str, floor: int, token: str = "") -> None:
        """An actor began a snapshot, for the request of that `token` if any; its snapshots below `floor` are over."""
        self._runner.announce(snapshot, name, floor, token)

    @notice
    def quiet(self, snapshot: SnapshotId, name: str) -> None:
        """In a stop-the-world snapshot: everything that the actor `name` had sent before has arrived."""
        self._runner.handle(ProcessQuiet(snapshot, name))

    @notice
    def refuse(self, snapshot: SnapshotId, name: str, detail: str, reason: AbortReason) -> None:
        """An actor refuses to record a snapshot."""
        self._runner.refuse(snapshot, name, detail, reason)

    @notice
    def report(self, head: bytes, body: Body) -> None:
        """An actor brings a report: for a snapshot that a process began, or that began before the actor joined."""
        self._runner.report(head, body)

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def configure(self, config: SnapshotConfig) -> None:
        """Change when snapshots are taken, from now on."""
        with self._lock:
            self._runner.config = config

    def _yield(self, error: Fenced) -> None:
        """The storage belongs to another life of this system: this life can never commit again, so stop it."""
        with self._lock:
            self._give_up(error.message)
            self._runner.abort_all(AbortReason.FENCED, error.message)

    # Restoring, taking over, ending ----------------------------------------------------------------------------

    @ray.method(concurrency_group="control", max_task_retries=UNTIL_ANSWERED)
    def identity(self) -> HostIdentity:
        """The identity that a driver gives to the hosts that it makes."""
        return self._settings.identity(self._incarnation, self._own, self._runner.config)

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
            self._runner.replace_machine(Collector(self._incarnation, ended=ended))
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
            self._members.tell_all("resume")
            self._runner.begin_life()

    @ray.method(concurrency_group="ask")
    def shutdown(self, detail: str) -> None:
        """End all actors and vaults of the system. Only the coordinator is left, and it writes nothing any more."""
        with self._lock:
            stop = self._stop = self._stop or Stop(*self._name, None, detail)
            self._runner.end(stop.error())
            self._runner.abort_all(AbortReason.REQUESTED, detail)
            self._birth.end()
            clean_up = self._members.kill_all()
        clean_up()
        self._runner.close()
        self._heart.close()

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def state(self) -> str:
        """See `states`."""
        return STOPPED if self._stop else self._birth.state

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def status(self) -> dict[str, Any]:
        """See `System.status`."""
        with self._lock:
            under_way = self._runner.status()
            status = {
                "system": self._settings.system,
                "incarnation": self._incarnation,
                "state": self.state(),
                "stop": self._stop,
                "committed": self._runner.committed,
                "aborted": self._metrics.aborted_count,
            }
        for k, report in under_way.items():
            report["handlers"] = self._members.why_missing(k, report["missing"])
        return {**status, "snapshots": under_way, "actors": self._members.status()}

    def _figures(self) -> SystemFigures:
        committed = self._runner.committed
        return SystemFigures(
            self.state(), len(self._runner.under_way), committed.taken_at if committed is not None else 0.0
        )

    def _take_over(self) -> None:
        """After the death of the old coordinator: go on with the living members of the system."""
        remains = find_remains(self._members, self._committer, self._incarnation, self._name, self._settings.loading)
        self._members.know_ended(remains.ended)
        self._runner.committed = self._committer.newest_of(self._incarnation)
        self._runner.replace_machine(Collector(self._incarnation, remains.counter, remains.ended, remains.stored))
        for name, answer in remains.answers.items():
            if answer.end is None:
                self._runner.handle(ProcessJoined(name, answer.lost))
            else:
                self.ended(*answer.end)
        for handle in self._members.in_the_making.values():
            self._members.order(handle, "rejoin")
        if remains.stop is not None:
            self._stop_all(remains.stop)
        elif remains.dead:
            self._died(remains.dead[0], "it died while nobody coordinated")
