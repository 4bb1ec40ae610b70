"""`System`: what a driver holds of a running system."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import ray

from rayshot.errors import (
    ActorNotFound,
    ConfigError,
    SnapshotAborted,
    SystemDown,
    SystemStopped,
)
from rayshot.model.configuration import (
    CHANDY_LAMPORT,
    STOP_THE_WORLD,
    SnapshotConfig,
    check_config,
    check_label,
    check_mode,
)
from rayshot.model.handle import ActorHandle
from rayshot.protocol.abort import AbortReason
from rayshot.runtime.coordinator.requests import Committed, Order
from rayshot.runtime.coordinator.taking_down import take_down
from rayshot.runtime.coordinator.trace_window import check_window
from rayshot.runtime.life import attaching
from rayshot.runtime.life.drain import Drain
from rayshot.runtime.life.line import Line
from rayshot.runtime.life.ordering import take_snapshot
from rayshot.runtime.life.status import SystemStatus, read_status
from rayshot.runtime.life.terminating import leave_on_sigterm
from rayshot.runtime.wire.actor_errors import ActorExited
from rayshot.runtime.wire.answers import SILENT_S
from rayshot.runtime.wire.dead_letters import DeadLetter
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.initiation import Spread, check_spread, some_names
from rayshot.store.locate import open_store
from rayshot.store.repository import open as open_storage
from rayshot.store.snapshot import Snapshot
from rayshot.store.store import Store

if TYPE_CHECKING:
    from rayshot.properties import Property, Verdict

log = logging.getLogger("rayshot")
TOLD_S = 1.0
"""What was told before a snapshot has so long to arrive: a receiver that is behind holds no snapshot up."""
BIRTH_S = 10.0
"""No actor has got ready for so long: those that are left seem to wait for room, and hold no snapshot up."""
BEGIN_S = 300.0
"""What makes a system has so long to arrive: its first snapshot must hold all of it."""
STOP_S = 30.0
"""What was told before a system stops has so long to arrive: it would be lost."""


class System:
    """A running system: make it with `rayshot.init` or `rayshot.restore`.

    As a context manager it is shut down at the end.
    """

    def __init__(self, identity: HostIdentity) -> None:
        self._identity = identity
        self._coordinator = identity.coordinator
        self._port = attaching.begin(identity)
        self._line = Line(identity, self._port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"System({self.name!r}, storage={self.storage!r}, life {self.incarnation})"

    @cached_property
    def _store(self) -> Store:
        return open_store(self.storage)

    @property
    def name(self) -> str:
        """The system's name."""
        return self._identity.system

    @property
    def storage(self) -> str:
        """Where snapshots are stored."""
        return self._identity.storage

    @property
    def incarnation(self) -> int:
        """Which life of the system this is, from 1; each restore begins a new one."""
        return self._identity.incarnation

    # Actors ----------------------------------------------------------------------------------------------------

    def get_actor(self, name: str) -> ActorHandle:
        """The handle of an actor. Raises ActorNotFound, which lists what there is, or why the system has stopped."""
        self._line.check_running()
        self._port.meet(name)
        hosts = self._line.ask("actors")
        if name not in hosts:
            raise self._line.no_actor(name, hosts)
        found = self._handles({name: hosts[name]})
        if not found:  # it has died since: that has stopped the system, or it had ended
            raise ActorNotFound(self._line.fate(name), actor=name)
        return found[name]

    def actors(self) -> dict[str, ActorHandle]:
        """Handles of all living actors by name."""
        return self._handles(self._line.ask("actors"))

    def _handles(self, hosts: Mapping[str, Any]) -> dict[str, ActorHandle]:
        """Handles of those of them that live."""
        return {
            name: self._port.handle_of(name, offer) for name, offer in self._line.ask_actors("hello", hosts).items()
        }

    def dead_letters(self) -> list[DeadLetter]:
        """Messages that could not be processed: a handler raised, or the receiver had ended.

        The last thousand of each actor, of all that have ended together, and of what this process sent. Without those
        of an actor whose process does not answer, which a warning names.
        """
        ended, living = self._line.ask("dead_letters"), self._line.ask_actors("dead_letters").values()
        return [letter for letters in (ended, *living, self._port.dead_letters.all()) for letter in letters or ()]

    # Channels --------------------------------------------------------------------------------------------------

    def topology(self) -> dict[str, tuple[str, ...]]:
        """For each living actor to whom its channels lead: those that it ever used, and those of `connect`.

        None are known of an actor whose process does not answer, which a warning names.
        """
        return {name: receivers or () for name, receivers in self._line.ask_actors("receivers").items()}

    def connect(self, sender: str | ActorHandle, receiver: str | ActorHandle) -> None:
        """Open the channel between two actors, so that markers go over it before any message does.

        Raises ActorNotFound; SystemDown where the system takes no messages any more.
        """
        self._line.check_running()
        names = [self._name_of(end) for end in (sender, receiver)]
        for name in names:
            self._port.meet(name)
        hosts = self._line.ask("actors")
        for name in names:
            if name not in hosts:
                raise self._line.no_actor(name, hosts)
        try:
            self._line.get(hosts[names[0]].open_channel.remote(names[1]), f"actor {names[0]!r}", SILENT_S)
        except ray.exceptions.RayActorError:
            raise ActorExited(self._line.fate(names[0]), actor=names[0]) from None

    # Snapshots -------------------------------------------------------------------------------------------------

    def snapshot(
        self,
        *,
        label: str | None = None,
        mode: str | None = None,
        initiator: str | ActorHandle | Sequence[str | ActorHandle] | None = None,
        spread: Spread = "coordinator",
    ) -> Snapshot:
        """Take a snapshot of the whole system while it runs; returns when it is durable.

        What this driver told before is inside the cut, but for what its receivers have not taken after a second:
        `left_out` of the snapshot counts that. Actors that it made are waited for, until none has got ready for ten
        seconds: those that are left seem to wait for room in the cluster. On a terminal a line shows who is waited for.

        Args:
            label: makes it a savepoint, which is never deleted by itself.
            mode: as in SnapshotConfig, which says the default.
            initiator: the actor that begins it, or several that do so at once; by default the coordinator.
            spread: "coordinator" tells all other actors of it too. With "markers" only markers do, over the channels of
                `topology()`.

        Raises:
            ActorNotFound: no such initiator.
            ConfigError: there is no way for markers from the initiators to some actors, which are named; or a label or
                mode that cannot be.
            SnapshotAborted: nothing was committed, the application is unharmed.
            NoAnswer: the coordinator says nothing, or the storage does not end; `snapshots()` shows later what became
                of it.
            SystemDown: the system takes no messages any more.
        """
        self._line.check_open()
        if label is not None:
            check_label(label)
        if mode is not None:
            check_mode(mode)
        drain = Drain(self._port)
        drain.wait(TOLD_S, BIRTH_S)
        begins = (initiator,) if isinstance(initiator, str | ActorHandle) else tuple(initiator or ())
        initiators, reached = tuple(map(self._name_of, begins)), frozenset[str]()
        if initiators or spread != "coordinator":
            if mode not in (None, CHANDY_LAMPORT):
                raise ConfigError(f"mode {mode!r} is the coordinator's: leave `initiator` and `spread` out")
            mode = CHANDY_LAMPORT
            topology = self.topology()
            check_spread(topology, initiators, spread)
            reached = frozenset(topology)
        helpers = None if spread == "coordinator" else frozenset(initiators)
        return self._take(Order(mode, label, initiators, helpers, reached, driver=self._port.name), drain)

    def begun(self) -> Snapshot:
        """Take the first snapshot of a system that begins: it runs from then on. For `rayshot.resume`.

        Raises SystemStopped where actors do not start within BEGIN_S, or do not take within it what they were told:
        the snapshot would lack it.
        """
        drain = Drain(self._port)
        if missing := drain.wait(BEGIN_S, BEGIN_S):
            raise SystemStopped(
                f"{some_names(missing)} did not start, or has not taken what it was told, within {BEGIN_S:g} s: has "
                f"the cluster the resources? System {self.name!r} has not begun",
                actors=missing,
            )
        return self._take(Order(first=True, driver=self._port.name), drain)

    def savepoint(self, label: str, *, mode: str | None = None) -> Snapshot:
        """Take a snapshot that is never deleted by itself; `label` says what for. As `snapshot` else."""
        check_label(label)
        return self.snapshot(label=label, mode=mode)

    def trace(self, seconds: float = 5.0, *, full: bool = False) -> Snapshot:
        """Trace a system that was begun without `trace` for a while; returns a snapshot that has what happened.

        A snapshot is taken, and `seconds` later another one, which is returned: what each actor handled and sent
        between the two stands in its traces, for `rayshot report` and `rayshot verify`. An actor that is busy with
        one message for more than five seconds at the beginning has none.

        Args:
            seconds: up to 600. An actor whose trace grows above 64 MiB is traced again from the next snapshot on.
            full: keep the bytes of each message too.

        Raises ConfigError for a system that is traced all the time, or by somebody else now; else as `snapshot`.
        """
        check_window(seconds, full)
        return self._take(Order(driver=self._port.name, traced=(float(seconds), full)), Drain(self._port))

    def stop_with_savepoint(self, label: str) -> Snapshot:
        """Take a savepoint and end the system with it, as one step: no handler runs between the cut and the end.

        What this driver sent before is inside the cut. What others send goes into the cut too, or is refused: it is
        never processed after it, calls fail with SystemStopped. So effects outside the system (files, HTTP calls) are
        those of the savepoint's states, and a restore goes on where they ended. Where no savepoint comes about the
        system goes on as if nothing had been asked.

        Args:
            label: what it is for.

        Returns the savepoint; the system is shut down.

        Raises:
            SnapshotAborted: no savepoint was taken and the system goes on; also where a receiver does not take within
                30 s what this driver told it, as that would be lost.
            NoAnswer: as for `snapshot`.
            SystemDown: the system takes no messages any more.
        """
        check_label(label)
        return self._stopped(label)

    def stop_on_sigterm(self, label: str, within_s: float) -> None:
        """When this program is told to end by SIGTERM, stop the system with a savepoint first; then the signal works.

        Where none is there in time the log says why, and `rayshot.resume` goes on from the last snapshot. For the main
        thread. Several systems leave in turn.

        Args:
            label: of the savepoint.
            within_s: so many seconds for it, fewer than what kills then gives: terminationGracePeriodSeconds of a pod,
                RAY_JOB_STOP_WAIT_TIME_S for `ray job stop`, 3 by default.
        """
        check_label(label)
        leave_on_sigterm(lambda: self._leave(label, within_s), within_s)

    def _leave(self, label: str, within_s: float) -> str:
        savepoint = "" if self._line.closed else f" with savepoint {self._stopped(label, within_s).id}"
        return f"system {self.name!r} is stopped{savepoint}"

    def _stopped(self, label: str, within_s: float = inf) -> Snapshot:
        self._line.check_open()
        until, told_s = time.monotonic() + within_s, min(STOP_S, within_s)
        drain = Drain(self._port)
        if missing := drain.wait(told_s, BIRTH_S, until):
            raise SnapshotAborted(
                f"{some_names(missing)} has not taken within {told_s:g} s what this program told it, which would be "
                f"lost: the system goes on. Try again, or take a savepoint and shut it down",
                reason=AbortReason.TIMEOUT.value,
                missing=missing,
            )
        left_s = max(0.0, until - time.monotonic())
        savepoint = self._take(Order(STOP_THE_WORLD, label, final=True, driver=self._port.name), drain, left_s)
        self.shutdown()
        return savepoint

    def _take(self, order: Order, drain: Drain, within_s: float = inf) -> Snapshot:
        done = take_snapshot(self._line, order, within_s)
        return Snapshot(self._store, self.name, done.record, left_out=drain.left_out(done.sent, done.ended))

    def order(self, order: Order, within_s: float = inf) -> Committed:
        """See `take_snapshot`. For commands, which read no storage."""
        return take_snapshot(self._line, order, within_s)

    def snapshots(self) -> list[Snapshot]:
        """The committed snapshots, oldest first."""
        return open_storage(self.storage).system(self.name).snapshots()

    def detect(
        self,
        asked: "Property",
        *,
        interval_s: float = 1.0,
        within_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> "Verdict | None":
        """Take a snapshot now and then until a stable property holds in one, or an invariant does not.

        None of these snapshots overlaps another, so what a verdict says of the next one is never unknown. Each costs
        what a snapshot costs, and what the property reads of it; retention deletes them as all others.

        Args:
            asked: ready-made, or declared with `rayshot.properties.stable` or `invariant`.
            interval_s: from the beginning of a snapshot to that of the next one, at least.
            within_s: no snapshot begins later than so long from now; None for no such end.
            stop: ends it when it is set, behind the snapshot that is under way.

        Returns the verdict that settled it, or else the last one: None where there was not one. A snapshot that is
        aborted is followed by another one.

        Raises NotStable for other predicates, PredicateFailed, SnapshotAborted where the last one was aborted and none
        was taken, and else what `snapshot` and reading one raise.
        """
        from rayshot.runtime.life.detection import watch  # noqa: PLC0415 - whoever asks for no property loads none

        return watch(self.snapshot, asked, interval_s, within_s, stop)

    def configure(self, snapshot: SnapshotConfig) -> None:
        """Change when snapshots are taken, from now on. Raises SystemDown where none is taken any more."""
        check_config(snapshot, SnapshotConfig)
        self._line.check_running()
        self._line.ask("configure", snapshot)

    def config(self) -> SnapshotConfig:
        """When snapshots are taken now, and which are kept."""
        found = self._line.ask("config")
        assert isinstance(found, SnapshotConfig)
        return found

    def status(self) -> SystemStatus:
        """What the system does now, whom a snapshot waits for, and which messages wait for objects."""
        return read_status(self._line.ask("status"), self._port.name, self._port.waiting())

    # The end ---------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End all actors of the system, also of one of which half is dead. Snapshots stay. Twice is fine.

        Only this life of it: what was restored meanwhile lives on. After `ray.shutdown()` nothing can be reached: where
        that ended the cluster the system is gone, and else it lives on, to be attached to.
        """
        if self._line.closed:
            return
        self._line.closed = True
        attaching.shut(self._port)
        self._port.close(SystemStopped(f"system {self.name!r} was shut down", system=self.name))
        if ray.is_initialized():  # else Ray would start another cluster, to look there
            take_down(self.name, self._coordinator, self.incarnation)

    def learn_why_stopped(self) -> None:
        """The system is stopped: whatever is asked of it from now on raises why."""
        try:
            self._line.check_running()
        except SystemDown as error:
            self._port.close(error)

    def _name_of(self, actor: str | ActorHandle) -> str:
        return actor.name_in(self.name) if isinstance(actor, ActorHandle) else actor
