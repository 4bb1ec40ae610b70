"""`rayshot.init` and `rayshot.restore`: how a life of a system begins."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import ray

import rayshot
from rayshot.errors import ClusterRefused, ConfigError, Damaged, NoAnswer, RayshotError, RestoreFailed
from rayshot.format.signing_key import find_trusted_keys
from rayshot.model.configuration import (
    CLAIM,
    NO_CLAIM,
    Claim,
    FailureConfig,
    SnapshotConfig,
    Trace,
    check_claim,
    check_config,
    check_trace,
)
from rayshot.model.dead_mail import undeliverable
from rayshot.model.port import find_port
from rayshot.model.rename_classes import RenamedClasses
from rayshot.model.resolution import Fit, SkipMissing, fit
from rayshot.model.stored_options import ActorOptions, supply
from rayshot.protocol.identity import SnapshotId, check_name
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.coordinator.birth import UNWATCHED_S
from rayshot.runtime.coordinator.coordinator import GROUPS, Coordinator
from rayshot.runtime.coordinator.taking_down import take_down
from rayshot.runtime.life.progress import wait_with_progress
from rayshot.runtime.life.restoring import load_all
from rayshot.runtime.life.system import System
from rayshot.runtime.ray.cluster import connect, connected_to, refuse_client
from rayshot.runtime.ray.naming import NAMESPACE, coordinator_name, find_coordinator
from rayshot.runtime.wire.answers import SILENT_S, get_answer, the_coordinator
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.keyring import Keyring, load_keyring, offer_keys
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import BEGINNING, LOADING, STOPPED
from rayshot.store.beginning import check_no_snapshots, find_history
from rayshot.store.catalog import SystemView
from rayshot.store.leases import reading
from rayshot.store.local import LocalStore
from rayshot.store.locate import open_store
from rayshot.store.repository import open as open_storage
from rayshot.store.snapshot import Snapshot
from rayshot.store.trust import check_allow_unsigned, check_trust

log = logging.getLogger("rayshot")
ATTACH_S = 600.0
"""Another process may take so many seconds to begin or restore a system to which this process wants to attach."""
DEATH_S = UNWATCHED_S + 5.0
"""If a program dies while it starts a system, this is known after so many seconds; Ray tells it two seconds later."""
START_S = 300.0
"""Seconds that a coordinator may take to start: it needs no room in the cluster, but reads the log of its system."""
LOOK_S = 0.2
OTHERS_SHOWN_MAX = 5


def init(
    name: str,
    *,
    storage: str | os.PathLike[str],
    snapshot: SnapshotConfig | None = None,
    failure: FailureConfig | None = None,
    trace: Trace = False,
    fresh: bool = False,
) -> System:
    """Create a system, or attach to it if it already runs. Calls `ray.init()` if nobody has.

    Actors that this driver makes from now on belong to this system, until the driver shuts it down or begins or
    restores another one.

    Args:
        name: letters, digits, `_`, `.`, `-`.
        storage: the folder for its snapshots.
        snapshot: when snapshots are taken automatically; by default only when asked for. Ignored when attaching.
        failure: what the failure of an actor means for the system.
        trace: True records each event of each actor, some bytes per message. Then `rayshot verify` can prove more than
            the counters: vector clocks, and that the cut is a point in a possible course of events. "full" keeps the
            messages too, so that classes declared `deterministic` can be replayed. Ignored when attaching.
        fresh: True begins with nothing, even if the storage holds snapshots of the system. These snapshots stay:
            retention keeps the last one of each earlier life. Ignored when attaching.

    Raises:
        SnapshotsExist: the system does not run here, and the storage holds snapshots of it: use `rayshot.resume` to go
            on from them. Nothing was started.
        ConfigError: a name, address or setting cannot work, or this process is an actor. Nothing was started.
    """
    check_arguments(name, snapshot, failure, trace)
    location, store = locate(storage)
    ensure_ray()
    running = find_coordinator(name)
    if running is not None:
        return attach_to(name, running, location)
    store.check()
    history = find_history(store, name)
    if not fresh:
        check_no_snapshots(history, name, location)
    keyring = load_keyring(local=is_local(location))
    configs = snapshot or SnapshotConfig(), failure or FailureConfig()
    settings = SystemSettings(name, location, keyring.names, *configs, trace, fresh=fresh)
    try:
        return System(start(settings, keyring))
    except ray.exceptions.ActorAlreadyExistsError:  # somebody else was faster
        return attach_to(name, ray.get_actor(coordinator_name(name), namespace=NAMESPACE), location)


def restore(
    storage: str | os.PathLike[str],
    *,
    system: str | None = None,
    snapshot: SnapshotId | str | None = None,
    into: str | os.PathLike[str] | None = None,
    claim: Claim | None = NO_CLAIM,
    allow_unsigned: bool = False,
    rename_classes: RenamedClasses | None = None,
    skip_missing_classes: SkipMissing = False,
    options: ActorOptions | None = None,
    config: SnapshotConfig | None = None,
    trace: Trace = False,
    min_position: int = 0,
) -> System:
    """Bring a system back from a snapshot: every actor with its state, every message in flight once and in order.

    Works on the same Ray cluster or another one, all or nothing. If a system of this name is down in the cluster, what
    is left of it is taken down first.

    Args:
        storage: where its snapshots are.
        system: its name; not needed if the storage holds only one system.
        snapshot: the snapshot to restore; the latest by default.
        into: another storage for the snapshots from now on; the restored snapshot may be a copy there.
        claim: who owns the restored snapshot, as in Flink. "no-claim": its maker. Retention never deletes it, the first
            snapshot after it is full, and no snapshot depends on it. "claim": the new life. Retention deletes the
            snapshot when its turn comes, even if it is a savepoint or a copy, also in the storage that it came from;
            the first snapshot may share bytes with it. Claim a snapshot only once. None: the owner stays the same, and
            retention treats the snapshot as before.
        allow_unsigned: True restores a snapshot that no trusted key has signed. Restoring runs code that the snapshot
            chooses: do this only with bytes whose history you know.
        rename_classes: moved classes by their recorded name, {"old.module.Class": NewClass}, or with the new name as a
            text. This works for actors, and for values in states and in messages in flight. A class that this program's
            `__main__` defines replaces the recorded class of its name automatically.
        skip_missing_classes: True leaves out all actors whose class is gone; a list of names leaves out these actors.
            They count as ended: their states stay in the snapshot, and messages that were in flight to them are in
            `system.dead_letters()`.
        options: options that replace recorded ones, by actor name, by class or by class name, as in
            {"alice": {"num_cpus": 2}}. A snapshot does not hold the values of `runtime_env`'s variables, so they must
            be given here. It also does not hold that an actor was placed by a placement group or on one node; a warning
            says so.
        config: when snapshots are taken automatically from now on.
        trace: as for `rayshot.init`, from now on.
        min_position: as for `rayshot.open`: refuses a storage that was put back to an older state.

    Raises:
        NotFound: the system, the snapshot or an actor to leave out does not exist; the message lists what exists.
            SnapshotDeleted: the snapshot was deleted during the restore, and its lease could not keep it.
        ConfigError: the system is running, this process is an actor, or a setting or an address cannot work.
        Untrusted, Damaged, Incompatible: nothing was started. Incompatible: a class is gone, has another version and
            cannot migrate, or lacks methods that messages, timers and pending replies call; the error has both sides.
        RestoreFailed: an actor could not be loaded, or its `migrate` failed; everything was taken down again.
    """
    chosen = Choice(lambda view: view.snapshot(snapshot))
    classes = rename_classes, skip_missing_classes
    return bring_back(
        storage, system, chosen, into, claim, allow_unsigned, *classes, options, config, trace, min_position
    )


class Choice(NamedTuple):
    """The snapshot from which a system is brought back, and the pin that decided this, if any."""

    of: Callable[[SystemView], Snapshot]
    pin: SnapshotId | None = None


def bring_back(
    storage: str | os.PathLike[str],
    system: str | None,
    choice: Choice,
    into: str | os.PathLike[str] | None = None,
    claim: Claim | None = None,
    allow_unsigned: bool = False,  # noqa: FBT001, FBT002 - as its neighbours
    rename_classes: RenamedClasses | None = None,
    skip_missing_classes: SkipMissing = False,  # noqa: FBT002
    options: ActorOptions | None = None,
    config: SnapshotConfig | None = None,
    trace: Trace = False,  # noqa: FBT002
    min_position: int = 0,
) -> System:
    """See `restore`."""
    check_no_actor()
    check_allow_unsigned(allow_unsigned)
    check_config(config or SnapshotConfig(), SnapshotConfig)
    check_trace(trace)
    check_claim(claim)
    location, source = locate(storage)
    target, target_store = (location, source) if into is None else locate(into)
    elsewhere = source.url != target_store.url
    view = open_storage(location, min_position=min_position).system(system)
    chosen = choice.of(view)
    trusted = find_trusted_keys()
    check_trust(chosen, trusted, allow_unsigned=allow_unsigned)
    keyring = load_keyring(local=is_local(target))

    def fitted() -> Fit:
        found = fit(chosen.manifest, chosen.read, rename_classes, skip_missing_classes=skip_missing_classes)
        return replace(found, specifications=supply(found.specifications, options))

    fitting = fitted()
    ensure_ray()
    make_room(view.name)
    target_store.check()
    if elsewhere:
        find_history(target_store, view.name)  # raises if its log is not whole, before anything is started
    configs = config or SnapshotConfig(), FailureConfig()
    settings = SystemSettings(
        view.name,
        target,
        keyring.names,
        *configs,
        trace,
        loading=True,
        after=chosen.id.incarnation,
        pin=choice.pin,
    )
    try:
        identity = start(settings, keyring)
    except ray.exceptions.ActorAlreadyExistsError as error:
        raise ConfigError(f"system {view.name!r} is started or restored by another process at this moment") from error
    try:
        if not elsewhere:  # nobody else can commit now, so only now the latest snapshot is known
            latest = choice.of(view)
            if latest.id != chosen.id:
                chosen = latest
                check_trust(chosen, trusted, allow_unsigned=allow_unsigned)
                fitting = fitted()
        with reading(source, view.name, chosen.id):
            claimed = not elsewhere and view.owns(chosen) if claim is None else claim == CLAIM
            ownership = chosen.id, location if elsewhere else None, claimed
            expected = identity.coordinator.expect.remote(fitting.manifest.ended, *ownership)
            get_answer(expected, the_coordinator(view.name), START_S)
            load_all(identity, location, chosen.folder, fitting, undeliverable(fitting, chosen.read))
    except BaseException as error:
        take_down(view.name, identity.coordinator, identity.incarnation)
        if isinstance(error, ray.exceptions.RayError):
            cause = getattr(error, "cause", None)
            others = _others_than(view, chosen, location) if isinstance(cause, Damaged) else ""
            raise RestoreFailed(
                f"snapshot {chosen.id} could not be restored, nothing was left running: {cause or error}{others}",
                **{**getattr(cause, "evidence", {}), "snapshot": str(chosen.id)},
            ) from (cause if isinstance(cause, RayshotError) else error)
        raise
    return System(identity)


def _others_than(view: SystemView, damaged: Snapshot, location: str) -> str:
    """A text that names the other snapshots to which the user can go back, and how; "" if none exist."""
    others = [str(snapshot.id) for snapshot in view.snapshots() if snapshot.id != damaged.id]
    if not others:
        return ""
    return (
        f". Older ones are {', '.join(reversed(others[-OTHERS_SHOWN_MAX:]))}. See whether one is sound with `rayshot "
        f"verify {location} --system {view.name} --snapshot ID --read-data`, then go back to it with "
        f"rayshot.restore({location!r}, system={view.name!r}, snapshot=ID)"
    )


# Starting -------------------------------------------------------------------------------------------------------


def check_no_actor() -> None:
    """Raise ConfigError in an actor's process.

    An actor sends through its own channels. No snapshot would hold the messages of a driver inside an actor.
    """
    port = find_port()
    if isinstance(port, ActorProcess):
        raise ConfigError(
            f"actor {port.name!r} of system {port.system!r} cannot start, attach to or restore a system: give it the "
            f"handles of the actors that it needs as arguments"
        )


def check_arguments(name: str, snapshot: SnapshotConfig | None, failure: FailureConfig | None, trace: Trace) -> None:
    """Check what `init` and `resume` take alike. Raises ConfigError, also in an actor's process."""
    check_no_actor()
    check_name(name, "a system")
    check_config(snapshot or SnapshotConfig(), SnapshotConfig)
    check_config(failure or FailureConfig(), FailureConfig)
    check_trace(trace)


def ensure_ray() -> None:
    """Call `ray.init()` if nobody has. Raises ClusterUnreachable or ClusterRefused if RAY_ADDRESS leads nowhere."""
    refuse_client()
    if ray.is_initialized():
        return
    if os.environ.get("RAY_ADDRESS", "local") not in ("", "auto", "local"):
        connect()
    else:
        ray.init(include_dashboard=False, logging_level=logging.WARNING)


def locate(storage: str | os.PathLike[str]) -> tuple[str, Any]:
    """The storage address in a form that every process of the cluster can use, and the store there."""
    store, address = open_store(storage), os.fspath(storage)
    if address.startswith("memory://"):
        raise ConfigError("memory:// lives inside one process, a system in many: give a folder")
    if isinstance(store, LocalStore) and "://" not in address:
        address = str(store.folder)
    return address, store


def is_local(location: str) -> bool:
    """Whether a storage address names a folder."""
    return "://" not in location or location.startswith("file://")


def identify(name: str, coordinator: Any, within_s: float = SILENT_S) -> HostIdentity:
    """The identity of a running life. Raises ClusterRefused if another version of rayshot runs it; NoAnswer."""
    version = getattr(coordinator, "version", None)  # an older one has no such method
    theirs = None if version is None else get_answer(version.remote(), the_coordinator(name), within_s)
    if theirs != rayshot.__version__:
        raise ClusterRefused(
            f"system {name!r} in the Ray cluster at {connected_to()} runs with rayshot {theirs or '(an older one)'}, "
            f"and this is rayshot {rayshot.__version__}: install the version of the cluster",
            theirs=theirs,
            ours=rayshot.__version__,
        )
    identity = get_answer(coordinator.identity.remote(), the_coordinator(name), within_s)
    assert isinstance(identity, HostIdentity)
    return identity


def attach_to(name: str, coordinator: Any, location: str | None = None) -> System:
    """Attach to a system that has a coordinator; wait while it begins or is restored.

    Raises ConfigError if its storage is not `location`, or it still starts after ATTACH_S seconds; ClusterRefused;
    NoAnswer.
    """
    identity = identify(name, coordinator)
    if location is not None and identity.storage != location:
        raise ConfigError(f"system {name!r} runs already, with storage {identity.storage}, not {location}")
    state = await_start(name, coordinator, ATTACH_S)
    offer_keys(coordinator, name)
    system = System(identity)
    if state == STOPPED:
        system.learn_why_stopped()
    return system


def await_start(name: str, coordinator: Any, patience_s: float) -> str:
    """Wait while another program begins or restores a system; return its state then.

    Raises ConfigError if this takes longer than `patience_s` seconds; NoAnswer.
    """
    deadline = time.monotonic() + patience_s
    state = ""

    def is_over(timeout_s: float) -> bool:
        nonlocal state
        state = get_answer(coordinator.state.remote(), the_coordinator(name))
        if state not in (LOADING, BEGINNING):
            return True
        if time.monotonic() > deadline:
            raise ConfigError(
                f"system {name!r} is {state} in this cluster, by another program, also after {patience_s:g} s: wait "
                f"for it, or end that program, and try again {DEATH_S:g} s later"
            )
        time.sleep(min(timeout_s, LOOK_S))
        return False

    wait_with_progress(is_over, lambda: f"waiting for another program that starts system {name!r}")
    return state


def start(settings: SystemSettings, keyring: Keyring) -> HostIdentity:
    """Make the coordinator of a new life. Raises NoAnswer, and Ray's ActorAlreadyExistsError if one exists."""
    coordinator_class = ray.remote(concurrency_groups=GROUPS, num_cpus=0, enable_task_events=False)(Coordinator)
    coordinator = coordinator_class.options(
        name=coordinator_name(settings.system),
        namespace=NAMESPACE,
        lifetime="detached",
        max_restarts=-1,
    ).remote(settings)
    if settings.loading or settings.beginning:
        coordinator.watch_starter.remote([coordinator.stay.remote()])
    try:
        identity = get_answer(coordinator.identity.remote(), the_coordinator(settings.system), START_S)
        offer_keys(coordinator, settings.system, keyring)
    except (ray.exceptions.RayError, NoAnswer) as error:
        take_down(settings.system, coordinator)
        cause = getattr(error, "cause", None)
        if isinstance(cause, RayshotError):
            raise cause from error
        raise
    assert isinstance(identity, HostIdentity)
    return identity


def make_room(system: str) -> None:
    """Take down what is left of an earlier life. Raises ConfigError if that life still runs.

    If the program that starts a life dies, this life is over a moment later. So a life that is starting gets this time.
    """
    running = find_coordinator(system)
    if running is None:
        return
    try:
        state = await_start(system, running, DEATH_S)
    except ray.exceptions.RayActorError:  # its process is gone, and Ray does not start it again
        state = STOPPED
    if state != STOPPED:
        raise ConfigError(
            f"system {system!r} is {state} in this cluster: shut it down before it is restored, with "
            f"rayshot.init({system!r}, storage=...).shutdown()"
        )
    take_down(system, running)
