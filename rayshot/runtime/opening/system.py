"""`System`: the object with which a driver uses a running system."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, overload

from rayshot.errors import ActorNotFound, ConfigError, SnapshotAborted, SystemDown, SystemRecovering, SystemStopped
from rayshot.model.configuration import SnapshotConfig, check_config, check_label, check_mode
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.fit import ActorOptions, RenamedClasses, SkipMissing
from rayshot.model.handle import ActorHandle as Handle
from rayshot.model.handle import check_class_of
from rayshot.places.kinds import open_store
from rayshot.places.store import Store
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import CHANDY_LAMPORT, STOP_THE_WORLD, Mode
from rayshot.runtime.coordinator.requests import Committed, SnapshotRequest
from rayshot.runtime.coordinator.teardown import take_down
from rayshot.runtime.coordinator.trace_window import check_window
from rayshot.runtime.door import door
from rayshot.runtime.driver.callback import Callback
from rayshot.runtime.driver.coordinator_client import CoordinatorClient
from rayshot.runtime.driver.drain import STOP_S, Drain
from rayshot.runtime.driver.enrolment import enroll
from rayshot.runtime.driver.recovery_news import RecoverySubscription
from rayshot.runtime.driver.snapshot_request import take_snapshot
from rayshot.runtime.opening import ports
from rayshot.runtime.opening.status import SystemStatus, read_status, warn_of_unsettled
from rayshot.runtime.opening.termination import leave_on_sigterm
from rayshot.runtime.wire.actor_errors import ActorExited
from rayshot.runtime.wire.answers import SILENT_S, ask_until_settled
from rayshot.runtime.wire.changed_answer import ChangedAnswer
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.initiation import Spread, check_spread, some_names
from rayshot.runtime.wire.recovery_report import RecoveryReport
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from rayshot.properties import Property, Verdict
    from rayshot.typed import ActorHandle, T

TOLD_S = 1.0
"""Seconds that messages sent before a snapshot have to arrive: a slow receiver does not delay the snapshot more."""
BEGIN_S = 300.0
"""Seconds that the first actors and messages of a system have to arrive: its first snapshot must hold all of them."""


class System:
    """A running system: make it with `rayshot.init` or `rayshot.restore`.

    As a context manager it shuts the system down at the end, and `Class.remote()` inside makes its actors here.
    """

    def __init__(self, identity: HostIdentity, label: str = "") -> None:
        self._begun_as = identity
        self._view_lock = threading.Lock()
        self._port = ports.begin(identity, label)
        self._client = CoordinatorClient(identity, self._port.session, self._port.maker)
        self._next: System | None = None
        self._outer: list[str | None] = []
        try:
            self._told = enroll(self._client) if label else {}
        except BaseException as error:
            ports.give_up(self._port, f"this program could not attach to system {self.name!r}: {error}")
            raise

    def __enter__(self) -> Self:
        self._outer.append(ports.enter(self.name))
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._outer, "a block ends that did not begin"
        ports.leave(self._outer.pop())
        self.latest.shutdown()

    @property
    def _identity(self) -> HostIdentity:
        return replace(self._begun_as, incarnation=self._port.life.incarnation)

    @property
    def latest(self) -> "System":
        """The life that followed from this one by `restart`, again and again; this one if it was not restarted."""
        return self if self._next is None else self._next.latest

    def __repr__(self) -> str:
        return f"System({self.name!r}, storage={self.storage!r}, life {self.incarnation})"

    @cached_property
    def _store(self) -> Store:
        return open_store(self.storage)

    @cached_property
    def _view(self) -> SystemView:
        """It keeps what it read of the log, so a long log is read once."""
        return open_storage(self.storage).system(self.name)

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
        """Which life of the system this is, from 1: each restore begins a new one, and so does each rollback."""
        return self._identity.incarnation

    @property
    def told(self) -> Mapping[str, int]:
        """By actor, how many tells and calls of earlier processes of this program count for ever: see `attach`."""
        return MappingProxyType(self._told)

    # Recovery --------------------------------------------------------------------------------------------------

    def wait_until_running(self, within_s: float = inf) -> None:
        """Wait while the system goes back to its last snapshot by itself; return at once if it runs.

        A death is noticed after a fraction of a second: until then the system runs. Raises NotReady after `within_s`
        seconds, and up to 30 s later if the coordinator does not answer as Ray starts it again; NoAnswer if it does not
        answer otherwise; SystemDown if the system takes no messages any more.
        """
        self._client.await_running(within_s)

    def on_recovery(self, callback: Callable[[RecoveryReport], object]) -> RecoverySubscription:
        """Call `callback(report)` in this process each time that the system went back by itself and runs again.

        It is called on a thread of its own, once for each life and in their order, and may send into the new life. An
        error that it raises is logged. The reports are those of `status().recoveries`. If the coordinator dies before
        it could tell, its successor tells of the life that runs, but maybe not of lives that were over by then.

        Returns an object whose `cancel()` ends this. It ends with the system: ask the one that `restart` returns again.
        Raises ConfigError if the system does not go back by itself, or `callback` cannot be called so.
        """
        return self._port.on_recovery(callback)

    def on_changed_answer(self, callback: Callable[[ChangedAnswer], object]) -> Callback[ChangedAnswer]:
        """Call `callback(changed)` where a new life gives other answers than this program had got and had acted on.

        "Acted on": this process sent something after the answer had arrived. It is called on a thread of its own, once
        for each actor and method, after 5 s at the latest. See `rayshot help healing`. Else as `on_recovery`.
        """
        return self._port.on_changed_answer(callback)

    # Actors ----------------------------------------------------------------------------------------------------

    @overload
    def get_actor(self, name: str) -> "ActorHandle[Any]": ...
    @overload
    def get_actor(self, name: str, actor_class: type["T"]) -> "ActorHandle[T]": ...
    def get_actor(self, name: str, actor_class: type | None = None) -> Any:
        """The handle of an actor. Waits at most 300 s while the system goes back, or its coordinator is started again.

        With the actor's class, or a base of it, type checkers know the handle: `rayshot help type-checkers`.
        Raises ActorNotFound, which lists the actors; ConfigError if the actor lacks methods of the class; SystemDown if
        the system stopped, SystemRecovering after the wait.
        """
        ask_until_settled(self._client.check_running)
        found = self._handles(self._client.hosts_named(name))
        if not found:  # its process has died since: this has stopped the system, or the actor had ended
            raise ActorNotFound(self._client.fate(name), actor=name)
        if actor_class is not None:
            check_class_of(found[name], actor_class)
        return found[name]

    def actors(self) -> "dict[str, ActorHandle[Any]]":
        """Handles of all living actors by name. Waits as `get_actor`."""
        return self._handles(self._client.hosts())

    def _handles(self, hosts: Mapping[str, Any]) -> dict[str, Any]:
        """Handles of those hosts that still live."""
        found, handle_of = self._client.ask_actors("hello", hosts), self._port.session.handle_of
        return {name: handle_of(name, offer) for name, offer in found.items()}

    def dead_letters(self) -> list[DeadLetter]:
        """Messages that could not be processed: a handler raised, the receiver had ended, or it passes over a poison.

        Returns the last thousand of each actor (a snapshot holds 100), of all ended actors together, and of this
        process's messages. If an actor's process does not answer, its own are missing, and a warning names it.
        """
        ended, living = self._client.ask("dead_letters"), self._client.ask_actors("dead_letters").values()
        return [
            letter for letters in (ended, *living, self._port.session.dead_letters.all()) for letter in letters or ()
        ]

    # Channels --------------------------------------------------------------------------------------------------

    def topology(self) -> dict[str, tuple[str, ...]]:
        """For each living actor the receivers of its channels: all that it ever used, and those opened by `connect`.

        If an actor's process does not answer, it has no receivers here, and a warning names it.
        """
        return {name: receivers or () for name, receivers in self._client.ask_actors("receivers").items()}

    def connect(self, sender: "str | ActorHandle[Any]", receiver: "str | ActorHandle[Any]") -> None:
        """Open the channel between two actors, so that markers can use it before any message does.

        Raises ActorNotFound; SystemDown if the system takes no messages any more.
        """
        self._client.check_running()
        name, other = self._name_of(sender), self._name_of(receiver)
        host = self._client.hosts_named(name, other)[name]
        try:
            self._client.get(host.open_channel.remote(other), f"actor {name!r}", SILENT_S)
        except door.NotReached:
            raise ActorExited(self._client.fate(name), actor=name) from None

    # Snapshots -------------------------------------------------------------------------------------------------

    def snapshot(
        self,
        *,
        label: str | None = None,
        mode: Mode | None = None,
        initiator: "str | ActorHandle[Any] | Sequence[str | ActorHandle[Any]] | None" = None,
        spread: Spread = "coordinator",
    ) -> Snapshot:
        """Take a snapshot of the whole system while it runs; returns when it is durable.

        The cut holds the messages that this driver sent before, except those that receivers have not taken after one
        second: `left_out` of the snapshot counts these. The snapshot waits for actors that this driver made, until none
        gets ready for ten seconds: the others seem to wait for room in the cluster. On a terminal, a line shows which
        actors it waits for.

        Args:
            label: makes it a savepoint, which is never deleted automatically.
            mode: as in SnapshotConfig, which says the default.
            initiator: the actor that begins the snapshot, or several that begin it at once; by default the coordinator.
            spread: "coordinator": the coordinator tells all other actors of the snapshot too. "markers": only markers
                tell them, over the channels of `topology()`.

        Raises:
            ActorNotFound: the initiator does not exist.
            ConfigError: no markers can get from the initiators to some actors, which are named; or the label or the
                mode is not valid.
            SnapshotAborted: nothing was committed, the application is unharmed.
            NoAnswer: the coordinator does not answer, or the storage does not finish; `snapshots()` shows later whether
                the snapshot was committed.
            NotReady: the system goes back to its last snapshot, and does not run after 300 s.
            SystemDown: the system takes no messages any more.
        """
        self._client.check_open()
        if label is not None:
            check_label(label)
        if mode is not None:
            check_mode(mode)
        drain = Drain(self._port.session)
        drain.wait(TOLD_S)
        begins = (initiator,) if isinstance(initiator, str | Handle) else tuple(initiator or ())  # type: ignore[arg-type]
        initiators, reached = tuple(map(self._name_of, begins)), frozenset[str]()
        if initiators or spread != "coordinator":
            if mode not in (None, CHANDY_LAMPORT):
                raise ConfigError(f"mode {mode!r} is the coordinator's: leave `initiator` and `spread` out")
            mode = CHANDY_LAMPORT
            topology = self.topology()
            check_spread(topology, initiators, spread)
            reached = frozenset(topology)
        helpers = None if spread == "coordinator" else frozenset(initiators)
        return self._take(SnapshotRequest(mode, label, initiators, helpers, reached, driver=self._port.name), drain)

    def begun(self) -> Snapshot:
        """Internal: take the first snapshot of a system that begins; then the system runs. `rayshot.resume` uses this.

        Raises SystemStopped if actors do not start within BEGIN_S seconds, or do not take their messages within it: the
        snapshot would lack them.
        """
        drain = Drain(self._port.session)
        if missing := drain.wait(BEGIN_S, birth_s=BEGIN_S):
            raise SystemStopped(
                f"{some_names(missing)} did not start, or has not taken what it was told, within {BEGIN_S:g} s: has "
                f"the cluster the resources? System {self.name!r} has not begun",
                actors=missing,
            )
        return self._take(SnapshotRequest(first=True, driver=self._port.name), drain)

    def savepoint(self, label: str, *, mode: Mode | None = None) -> Snapshot:
        """Take a snapshot that is never deleted automatically; `label` says what it is for. Otherwise as `snapshot`."""
        check_label(label)
        return self.snapshot(label=label, mode=mode)

    def trace(self, seconds: float = 5.0, *, full: bool = False) -> Snapshot:
        """Trace a system that began without `trace` for some seconds; returns a snapshot that has the traces.

        This takes one snapshot, and `seconds` later the one that it returns, whose traces say what each actor handled
        and sent between the two. An actor that is busy with one message for its first five seconds has no trace.

        Args:
            seconds: up to 600. An actor whose trace grows above 64 MiB is traced again from the next snapshot on.
            full: keep the bytes of each message too.

        Raises ConfigError if the system is always traced, or is traced for another program now; else as `snapshot`.
        """
        check_window(seconds, full)
        wanted = SnapshotRequest(driver=self._port.name, traced=(float(seconds), full))
        return self._take(wanted, Drain(self._port.session))

    def stop_with_savepoint(self, label: str) -> Snapshot:
        """Take a savepoint and end the system with it, as one step: no handler runs between the cut and the end.

        The cut holds the messages that this driver sent before. Messages of others are inside the cut too, or are
        refused: none is processed after the cut, and calls fail with SystemStopped. So effects outside the system match
        the states in the savepoint. If no savepoint can be taken, the system goes on as if nothing had been asked.

        Args:
            label: what the savepoint is for.

        Returns the savepoint; the system is shut down, when all is done outside that follows from it, such as rows of
        sinks. Behind a minute it waits no longer: a warning names who has not done it, and a restore does it then.

        Raises:
            SnapshotAborted: no savepoint was taken and the system goes on; also if a receiver does not take the
                messages of this driver within 30 s, as they would be lost.
            NoAnswer, NotReady: as for `snapshot`.
            SystemDown: the system takes no messages any more.
        """
        check_label(label)
        return self._stopped(label)

    def restart(
        self,
        *,
        label: str | None = None,
        allow_unsigned: bool = False,
        rename_classes: RenamedClasses | None = None,
        skip_missing_classes: SkipMissing = False,
        options: ActorOptions | None = None,
    ) -> "System":
        """Stop the system with a savepoint and go on from it at once, in new processes: for new code or other options.

        First it takes a snapshot while the system runs, and checks that this program's classes and the arguments fit
        it: if not, it raises, and the system goes on as if nothing had been asked. What changes between this snapshot
        and the stop is checked only behind the stop. The snapshot also makes the stop short, because the savepoint
        shares its bytes. The stop itself is `stop_with_savepoint`.

        Args:
            label: of the savepoint, which is then kept for ever; without one, retention deletes it when its turn comes.
            allow_unsigned: as for `rayshot.restore`.
            rename_classes: as for `rayshot.restore`.
            skip_missing_classes: as for `rayshot.restore`.
            options: as for `rayshot.restore`.

        Returns the new life. This object is of the life that ended. Handles of actors go on in the new one; so do
        `stop_on_sigterm` and a `with` block of this object, which ends the new life.

        Raises:
            Incompatible, Untrusted, NotFound, ConfigError: the classes, keys or arguments of this program do not fit;
                the system goes on.
            RestoreFailed: the system is stopped and could not go on. The message names the savepoint, which is there.
            SnapshotAborted, NoAnswer, NotReady, SystemDown: as for `stop_with_savepoint`.
        """
        from rayshot.runtime.opening.from_snapshot import Fitting  # noqa: PLC0415 - late: few programs restart a system
        from rayshot.runtime.opening.restart import check_restart, go_on_from  # noqa: PLC0415

        if label is not None:
            check_label(label)
        fitting = Fitting(allow_unsigned, rename_classes, skip_missing_classes, options)
        check_restart(self.snapshot(), self._identity, fitting)
        configs, kept = (self.config(), self._client.ask("failure")), label is not None
        savepoint = self.stop_with_savepoint(label or "restart")
        self._next = System(go_on_from(savepoint.id, self._identity, fitting, configs, kept=kept))
        return self._next

    def stop_on_sigterm(self, label: str, within_s: float) -> None:
        """After SIGTERM, stop the system with a savepoint first; then the signal has its usual effect.

        If the savepoint is not ready in time, the log says why, and `rayshot.resume` goes on from the last snapshot.
        Call this on the main thread. Several systems stop one after the other.

        Args:
            label: of the savepoint.
            within_s: seconds for the savepoint. Give less than the time before the program is killed:
                terminationGracePeriodSeconds of a pod, RAY_JOB_STOP_WAIT_TIME_S for `ray job stop`, 3 by default.
        """
        check_label(label)
        leave_on_sigterm(lambda: self.latest.leave(label, within_s), within_s)

    def leave(self, label: str, within_s: float) -> str:
        """Internal: stop with a savepoint within so many seconds; returns a text for the log."""
        savepoint = "" if self._client.closed else f" with savepoint {self._stopped(label, within_s).id}"
        return f"system {self.name!r} is stopped{savepoint}"

    def _stopped(self, label: str, within_s: float = inf) -> Snapshot:
        self._client.check_open()
        until, told_s = time.monotonic() + within_s, min(STOP_S, within_s)
        drain = Drain(self._port.session)
        if missing := drain.wait(told_s, until):
            raise SnapshotAborted(
                f"{some_names(missing)} has not taken the messages of this program within {told_s:g} s, and a stop "
                f"would lose them: the system goes on. Try again, or take a savepoint and shut it down",
                reason=AbortReason.TIMEOUT.value,
                missing=missing,
            )
        left_s = max(0.0, until - time.monotonic())
        wanted = SnapshotRequest(STOP_THE_WORLD, label, final=True, driver=self._port.name, within_s=left_s)
        savepoint = self._take(wanted, drain)
        self.shutdown()
        return savepoint

    def _take(self, order: SnapshotRequest, drain: Drain) -> Snapshot:
        warn_of_unsettled(done := self.order(order, order.within_s, drain), self.name)
        return Snapshot(self._store, self.name, done.record, left_out=drain.left_out(done.sent, done.ended))

    def order(self, order: SnapshotRequest, within_s: float = inf, drain: Drain | None = None) -> Committed:
        """Internal: see `take_snapshot`. Commands use this."""
        return take_snapshot(self._client, order, within_s, drain)

    def snapshots(self) -> list[Snapshot]:
        """The committed snapshots, oldest first."""
        with self._view_lock:
            return self._view.snapshots()

    def detect(
        self,
        asked: "Property",
        *,
        interval_s: float = 1.0,
        within_s: float | None = None,
        stop: threading.Event | None = None,
    ) -> "Verdict | Any":
        """Take snapshots again and again until a stable property holds in one, or an invariant does not hold.

        These snapshots do not overlap, so a verdict about one always says something about the next. Each costs as much
        as any snapshot, plus the reads of the property. Retention deletes them like all others.

        Args:
            asked: a ready-made property, or one declared with `rayshot.properties.stable` or `invariant`.
            interval_s: seconds from the beginning of a snapshot to the beginning of the next one, at least.
            within_s: no snapshot begins later than so many seconds from now; None for no limit.
            stop: set this event to stop, after the snapshot that is being taken.

        Returns the verdict that is the final answer, or else the last verdict; None if no verdict was made. After an
        aborted snapshot it takes another one.

        Raises NotStable for other predicates; PredicateFailed; SnapshotAborted if the last snapshot was aborted and
        none was taken; and the errors of `snapshot` and of reading a snapshot.
        """
        from rayshot.runtime.opening.detect import watch  # noqa: PLC0415 - programs that ask for no property load none

        return watch(self.snapshot, asked, interval_s, within_s, stop)

    def configure(self, snapshots: SnapshotConfig) -> None:
        """Change when snapshots are taken, from now on. Raises SystemDown if the system takes no snapshots any more."""
        check_config(snapshots, SnapshotConfig)
        self._client.check_running()
        self._client.ask("configure", snapshots)

    def config(self) -> SnapshotConfig:
        """When snapshots are taken now, and which are kept."""
        found = self._client.ask("config")
        assert isinstance(found, SnapshotConfig)
        return found

    def status(self) -> SystemStatus:
        """What the system does now, which actors a snapshot waits for, and which messages wait for objects.

        Raises NoAnswer; SystemRecovering if the coordinator died and Ray has not started it again after 30 s.
        """
        return read_status(self._client.ask("status"), self._port.name, self._port.waiting())

    # The end ---------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End all actors of the system, even if some are already dead. Snapshots stay. You may call this twice.

        This ends only this life: a system that was restored meanwhile lives on. After `ray.shutdown()` it reaches none:
        if the cluster lives on, so does the system, and a program can attach to it.
        """
        if self._client.closed:
            return
        self._client.closed = True
        ports.shut(self._port)
        self._port.close(SystemStopped(f"system {self.name!r} was shut down", system=self.name))
        if door.is_joined() and self._port.session.left is None:  # else Ray would look in another cluster
            with ExitStack() as failed:  # Ray's control service may not answer now
                failed.callback(self._client.open_again)
                take_down(self.name, self._client.coordinator, self.incarnation)
                failed.pop_all()

    def learn_why_stopped(self) -> None:
        """Internal: the system is stopped: from now on each request to it raises an error that says why."""
        try:
            self._client.check_running()
        except SystemRecovering:
            raise
        except SystemDown as error:
            self._port.close(error)

    def _name_of(self, actor: Any) -> str:
        return actor.name_in(self.name) if isinstance(actor, Handle) else actor
