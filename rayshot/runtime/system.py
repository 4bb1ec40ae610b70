"""`System`: what a driver holds of a running system."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import ray

from rayshot.errors import ActorNotFound, ConfigError, RayshotError, SystemDown, SystemStopped
from rayshot.format.bounds import LABEL_LENGTH_MAX
from rayshot.model.configuration import CHANDY_LAMPORT, STOP_THE_WORLD, SnapshotConfig, check_config, check_mode
from rayshot.model.handle import ActorHandle
from rayshot.model.port import provide_port
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.dead_letters import DeadLetter
from rayshot.runtime.driver import DriverPort
from rayshot.runtime.identity import HostIdentity, Stop
from rayshot.runtime.initiation import check_spread, some_names
from rayshot.runtime.naming import NAMESPACE, prefix
from rayshot.runtime.progress import describe, wait_with_progress
from rayshot.store.repository import open as open_storage
from rayshot.store.snapshot import Snapshot

SHUTDOWN_S = 60.0
"""Longer than a coordinator that lives takes at most for its last commit and to remove what is left."""


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A snapshot under way. `recorded`: all records are held, only the writing is left.

    `missing` are actors that have not recorded, `open_channels` channels of which one end has, `handlers`
    the handlers that keep an actor from recording: (method or "a reply", for at least how many seconds).
    """

    id: SnapshotId
    seconds: float
    recorded: bool
    missing: tuple[str, ...]
    open_channels: tuple[tuple[str, str], ...]
    handlers: Mapping[str, tuple[str, float]]


@dataclass(frozen=True, slots=True)
class ActorStatus:
    """One actor. `mailbox` and `outbox` count messages; None throughout where the actor does not answer."""

    pid: int | None
    mailbox: int | None
    outbox: int | None
    dead_letters: int | None


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """A running system. `state` is "running", "loading" (being restored) or "stopped", then `detail` says why.

    `last_snapshot` and `last_taken_at` are of the newest snapshot committed in this life; `aborted` counts.
    """

    name: str
    incarnation: int
    state: str
    detail: str
    last_snapshot: SnapshotId | None
    last_taken_at: datetime | None
    aborted: int
    snapshots: tuple[SnapshotStatus, ...]
    actors: Mapping[str, ActorStatus]


class System:
    """A running system: make it with `rayshot.init` or `rayshot.restore`.

    As a context manager it is shut down at the end.
    """

    def __init__(self, identity: HostIdentity) -> None:
        self._identity = identity
        self._coordinator = identity.coordinator
        self._port = DriverPort(identity)
        self._closed = False
        provide_port(lambda: self._port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        return f"System({self.name!r}, storage={self.storage!r}, life {self.incarnation})"

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
        """The handle of an actor. Raises ActorNotFound, which lists what there is."""
        self._port.meet(name)
        actors = self.actors()
        if name not in actors:
            raise self._no_actor(name, actors)
        return actors[name]

    def actors(self) -> dict[str, ActorHandle]:
        """Handles of all living actors by name."""
        return {
            name: self._port.handle_of(name, None if offered is None else frozenset(offered))
            for name, offered in self._ask_actors("hello").items()
        }

    def dead_letters(self) -> list[DeadLetter]:
        """Messages that could not be processed: a handler raised, or the receiver had ended."""
        return [letter for letters in self._ask_actors("dead_letters").values() for letter in letters]

    # Channels --------------------------------------------------------------------------------------------------

    def topology(self) -> dict[str, tuple[str, ...]]:
        """For each living actor to whom its channels lead: those that it ever used, and those of `connect`."""
        return self._ask_actors("receivers")

    def connect(self, sender: str | ActorHandle, receiver: str | ActorHandle) -> None:
        """Open the channel between two actors, so that markers go over it before any message does.

        Raises ActorNotFound; SystemDown where the system takes no messages any more.
        """
        self._check_running()
        names = [self._name_of(end) for end in (sender, receiver)]
        for name in names:
            self._port.meet(name)
        hosts = self._ask("actors")
        for name in names:
            if name not in hosts:
                raise self._no_actor(name, hosts)
        self._get(hosts[names[0]].open_channel.remote(names[1]))

    # Snapshots -------------------------------------------------------------------------------------------------

    def snapshot(
        self,
        *,
        label: str | None = None,
        mode: str | None = None,
        initiator: str | ActorHandle | Sequence[str | ActorHandle] | None = None,
        helped: bool = True,
    ) -> Snapshot:
        """Take a snapshot of the whole system while it runs; returns when it is durable.

        What this driver sent before is inside the cut. On a terminal a line shows who has not answered yet.

        Args:
            label: makes it a savepoint, which is never deleted by itself.
            mode: as in SnapshotConfig, which says the default.
            initiator: the actor that begins it, or several that do so at once; by default the coordinator.
            helped: whether the coordinator tells all others too. Without it, only markers do, over the channels of
                `topology()`.

        Raises:
            ActorNotFound: no such initiator.
            ConfigError: there is no way for markers from the initiators to some actors, which are named.
            SnapshotAborted: nothing was committed, the application is unharmed.
            SystemDown: the system takes no messages any more.
        """
        self._check_open()
        if mode is not None:
            check_mode(mode)
        self._port.drain()
        begins = (initiator,) if isinstance(initiator, str | ActorHandle) else tuple(initiator or ())
        initiators = tuple(map(self._name_of, begins))
        if initiators or not helped:
            if mode not in (None, CHANDY_LAMPORT):
                raise ConfigError(f"mode {mode!r} is the coordinator's: leave `initiator` and `helped` out")
            mode = CHANDY_LAMPORT
            check_spread(self.topology(), initiators, helped=helped)
        return self._take(label, mode, initiators, None if helped else frozenset())

    def savepoint(self, label: str, *, mode: str | None = None) -> Snapshot:
        """Take a snapshot that is never deleted by itself; `label` says what for. As `snapshot` else."""
        _check_label(label)
        return self.snapshot(label=label, mode=mode)

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
            SnapshotAborted: no savepoint was taken and the system goes on.
            SystemDown: the system takes no messages any more.
        """
        _check_label(label)
        self._check_open()
        self._port.drain()
        savepoint = self._take(label, STOP_THE_WORLD, (), None, final=True)
        self.shutdown()
        return savepoint

    def _take(
        self,
        label: str | None,
        mode: str | None,
        initiators: tuple[str, ...],
        helpers: frozenset[str] | None,
        *,
        final: bool = False,
    ) -> Snapshot:
        """Have the coordinator take a snapshot, show how far it is, and open it."""
        ref = self._coordinator.snapshot.remote(label, mode, initiators, helpers, final)

        def is_there(timeout_s: float) -> bool:
            ready, _ = ray.wait([ref], timeout=timeout_s)
            return bool(ready)

        wait_with_progress(is_there, lambda: describe(self._ask("status")))
        record = self._get(ref)
        return open_storage(self.storage).systems[self.name].snapshot(record.snapshot)

    def snapshots(self) -> list[Snapshot]:
        """The committed snapshots, oldest first."""
        return open_storage(self.storage).systems[self.name].snapshots()

    def configure(self, snapshot: SnapshotConfig) -> None:
        """Change when snapshots are taken, from now on. Raises SystemDown where none is taken any more."""
        check_config(snapshot, SnapshotConfig)
        self._check_running()
        self._ask("configure", snapshot)

    def status(self) -> SystemStatus:
        """What the system does now, and whom a snapshot under way waits for."""
        status = self._ask("status")
        stop, committed = status["stop"], status["committed"]
        return SystemStatus(
            status["system"],
            status["incarnation"],
            status["state"],
            str(stop.error()) if stop else "",
            committed.snapshot if committed else None,
            datetime.fromtimestamp(committed.taken_at, UTC) if committed else None,
            status["aborted"],
            tuple(_snapshot_status(snapshot, report) for snapshot, report in status["snapshots"].items()),
            {name: _actor_status(report) for name, report in status["actors"].items()},
        )

    # The end ---------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End all actors of the system, also of one of which half is dead. Snapshots stay. Twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._port.close(SystemStopped(f"system {self.name!r} was shut down", system=self.name))
        take_down(self.name, self._coordinator)

    def _name_of(self, actor: str | ActorHandle) -> str:
        return actor.name_in(self.name) if isinstance(actor, ActorHandle) else actor

    def _no_actor(self, name: str, actors: Iterable[str]) -> ActorNotFound:
        return ActorNotFound(f"system {self.name!r} has no actor {name!r}; it has {some_names(actors)}", actor=name)

    def _check_open(self) -> None:
        if self._closed:
            raise SystemStopped(f"system {self.name!r} was shut down", system=self.name)

    def _check_running(self) -> None:
        fate = self._ask("fate", self._port.name)  # a driver is no member, so the answer comes at once
        if isinstance(fate, Stop):
            raise fate.error()

    def _ask(self, method: str, *args: Any) -> Any:
        self._check_open()
        return self._get(getattr(self._coordinator, method).remote(*args))

    def _ask_actors(self, method: str) -> dict[str, Any]:
        """The answers of those that live, by name."""
        answers = {}
        for name, ref in {name: getattr(host, method).remote() for name, host in self._ask("actors").items()}.items():
            with contextlib.suppress(ray.exceptions.RayActorError):
                answers[name] = ray.get(ref)
        return answers

    def _get(self, ref: Any) -> Any:
        """The result of a control call, errors as rayshot's own."""
        try:
            return ray.get(ref)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, RayshotError):
                if isinstance(error.cause, SystemDown):
                    self._port.close(error.cause)
                raise error.cause from None
            raise
        except ray.exceptions.RayActorError as error:
            raise SystemStopped(
                f"the coordinator of system {self.name!r} is gone; attach again with rayshot.init, or restore",
                system=self.name,
            ) from error


def _check_label(label: object) -> None:
    if not isinstance(label, str) or not label or len(label) > LABEL_LENGTH_MAX:
        raise ConfigError(f"the label {label!r} of a savepoint: give a text of 1 to {LABEL_LENGTH_MAX} characters")


def take_down(system: str, coordinator: Any) -> None:
    """End a system, whatever of it is left: also actors that its coordinator does not know, or has no time for."""
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(coordinator.shutdown.remote("it was shut down"), timeout=SHUTDOWN_S)
    with contextlib.suppress(ray.exceptions.RayError, ValueError):
        ray.kill(coordinator)
    for entry in ray.util.list_named_actors(all_namespaces=True):
        if entry["namespace"] == NAMESPACE and entry["name"].startswith(prefix(system)):
            with contextlib.suppress(ray.exceptions.RayError, ValueError):
                ray.kill(ray.get_actor(entry["name"], namespace=NAMESPACE))


def _snapshot_status(snapshot: SnapshotId, report: dict[str, Any]) -> SnapshotStatus:
    handlers = {
        name: (progress[1], progress[2])
        for name, progress in report["handlers"].items()
        if progress is not None and progress[1]
    }
    return SnapshotStatus(
        snapshot,
        report["seconds"],
        report["recorded"],
        report["missing"],
        tuple(tuple(channel) for channel in report["open_channels"]),
        handlers,
    )


def _actor_status(report: dict[str, Any] | None) -> ActorStatus:
    if report is None:
        return ActorStatus(None, None, None, None)
    return ActorStatus(report["pid"], report["mailbox"], report["outbox"], report["dead_letters"])
