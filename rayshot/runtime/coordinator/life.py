"""One life of a system, as its coordinator leads it: its members, its snapshots, its storage, and why it is over."""

import logging
from typing import TYPE_CHECKING, Any

from rayshot.errors import Fenced
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import ProcessDied, ProcessEnded, ProcessJoined
from rayshot.protocol.collector import Collector
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.birth import Birth
from rayshot.runtime.coordinator.collector_runner import CollectorRunner
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.coordinator.metrics import Metrics, SystemFigures
from rayshot.runtime.coordinator.requests import Committed, Request
from rayshot.runtime.coordinator.takeover import find_remains
from rayshot.runtime.coordinator.trace_window import TraceWindow
from rayshot.runtime.coordinator.under_way import keys_missing
from rayshot.runtime.wire.host_identity import Ending, Joined, Stop
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.reports import unpack_record
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import RUNNING, STOPPED

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.committer import Committer

log = logging.getLogger("rayshot")


class Life:
    """See the module. `lock` covers all of it. `stopped` says why the life is over; None before.

    `runner` has the snapshots, `members` the processes, `window` the tracing, `birth` how the life starts.
    """

    def __init__(self, settings: SystemSettings, committer: "Committer") -> None:
        # Imported late: processes that only hold a handle to the coordinator import this module, and need no storage.
        from rayshot.runtime.coordinator.heart import Heart  # noqa: PLC0415

        system, storage = self._name = settings.system, settings.storage
        self._settings, self._committer = settings, committer
        self.incarnation, self.term = committer.incarnation, committer.epoch.position
        self.stopped: Stop | None = None
        self.members = Members(system, Issuer(self.incarnation, self.term), storage, self.died)
        self.window = TraceWindow(self.members, always=bool(settings.trace))
        self._heart = Heart(storage, system, committer.epoch, self.fenced)
        self._metrics = Metrics(system, self.incarnation, self._figures, self.members.figures)
        beginning = settings.beginning and not committer.stored_in(self.incarnation)
        loading = settings.loading and not committer.had_begun
        self.birth = Birth(self.give_up, loading=loading, beginning=beginning)
        self.runner = CollectorRunner(
            settings,
            committer,
            self.members,
            self.birth,
            self._metrics,
            on_final=self._stop_finally,
            on_fenced=self.fenced,
        )
        self.lock = self.runner.lock

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
        for part in (self.runner, self._heart, self._metrics):
            part.start()

    # Members ---------------------------------------------------------------------------------------------------

    def join(self, name: str, node: str, handle: Any) -> Joined:
        """See `Coordinator.join`."""
        with self.lock:
            if self.stopped is not None:
                self.members.order(handle, "stop", self.stopped)
            self.members.join(name, node, handle)
            return Joined(self.term, *self.runner.join(name), self.window.full)

    def ended(
        self, packed: tuple[object, ...], unfinished: tuple[SnapshotId, ...], trace: bytes | None, why: Ending
    ) -> None:
        """See `Coordinator.ended`."""
        record = unpack_record(packed)
        with self.lock:
            if not self.members.end(record.process, why):
                return
            if trace is not None:
                self._committer.keep_trace(record.process, trace)
            self.runner.process_ended(ProcessEnded(record, unfinished))

    def died(self, name: str, detail: str) -> None:
        """An actor died, or failed: the life is over."""
        with self.lock:
            if self.give_up(detail, name):
                self.runner.handle(ProcessDied(name, detail))

    # The end ---------------------------------------------------------------------------------------------------

    def give_up(self, detail: str, actor: str | None = None) -> bool:
        """Stop, because of `actor` if one is given. Returns whether the life went on until now."""
        with self.lock:
            if goes_on := self.stopped is None:
                self._stop(stop := Stop(*self._name, actor, detail))
                log.error("%s", stop.error())
            return goes_on

    def fenced(self, error: Fenced) -> None:
        """The storage belongs to another life of this system: this one can never commit again, so stop it."""
        with self.lock:
            self.give_up(error.message)
            self.runner.abort_all(AbortReason.FENCED, error.message)

    def _stop(self, stop: Stop) -> None:
        self.stopped = stop
        self.birth.end()
        self._heart.stop()
        self.members.tell_all("stop", stop)
        for handle in self.members.in_the_making.values():  # they joined the coordinator before this one
            self.members.order(handle, "stop", stop)
        self.runner.end(stop.error())

    def _stop_finally(self, snapshot: SnapshotId) -> None:
        self._stop(Stop(*self._name, None, f"it was stopped with the savepoint {snapshot}"))

    def shut_down(self, detail: str) -> None:
        """End all actors and vaults, and write nothing any more."""
        with self.lock:
            stop = self.stopped = self.stopped or Stop(*self._name, None, detail)
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

    def nodes_in_use(self) -> set[str]:
        """The nodes of the actors of a life that runs."""
        return self.members.nodes() if self.state == RUNNING else set()

    def take_before_drain(self) -> SnapshotId:
        """Take a snapshot because a node goes."""
        return self.ask(Request(self.runner.config.mode, trigger="drain")).record.snapshot

    # Restoring and taking over ---------------------------------------------------------------------------------

    def expect(self, ended: tuple[str, ...], snapshot: SnapshotId, origin: str | None, *, claimed: bool) -> None:
        """See `Coordinator.expect`."""
        self._committer.restored(snapshot, origin, claimed=claimed)  # nothing is committed before `resume`
        with self.lock:
            self.runner.replace_machine(Collector(self.incarnation, ended=ended))
            self.members.know_ended(ended)

    def resume(self) -> None:
        """All actors are loaded: let them run. Raises SystemDown if the life was stopped meanwhile."""
        with self.lock:
            if self.stopped is not None:
                raise self.stopped.error()
            if self.birth.loading:
                self._metrics.restored()
            self.birth.end()
            self.members.tell_all("resume")
            self.runner.begin_life()

    def _take_over(self) -> None:
        """After the death of the old coordinator: go on with the living members."""
        remains = find_remains(self.members, self._committer, self.incarnation, self._name, self._settings.loading)
        self.members.know_ended(remains.ended)
        self.runner.committed = self._committer.newest_of(self.incarnation)
        self.runner.replace_machine(Collector(self.incarnation, remains.counter, remains.ended, remains.stored))
        for name, answer in remains.answers.items():
            if answer.end is None:
                self.runner.handle(ProcessJoined(name, answer.lost))
            else:
                self.ended(*answer.end)
        for handle in self.members.in_the_making.values():
            self.members.order(handle, "rejoin")
        if remains.stop is not None:
            self._stop(remains.stop)
        elif remains.dead:
            name = remains.dead[0]
            failure = remains.answers[name].failure if name in remains.answers else None
            self.died(name, failure or "it died while nobody coordinated")

    # Status ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """See `states`."""
        return STOPPED if self.stopped else self.birth.state

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
                "aborted": self._metrics.aborted_count,
            }
        for k, report in under_way.items():
            report["handlers"] = self.members.why_missing(k, report["missing"])
        return {**status, "snapshots": under_way, "actors": self.members.status()}

    def _figures(self) -> SystemFigures:
        committed = self.runner.committed
        return SystemFigures(
            self.state, len(self.runner.under_way), committed.taken_at if committed is not None else 0.0
        )
