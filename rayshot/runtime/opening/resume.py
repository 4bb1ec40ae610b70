"""`rayshot.resume`: one line begins a program, at its first start and at every later start."""

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from rayshot.errors import ConfigError, SnapshotNotFound
from rayshot.format.entries import OutsideMode
from rayshot.log.heartbeat import check_nobody_lives
from rayshot.log.system import find_history
from rayshot.model.configuration import (
    KEPT,
    FailureConfig,
    HashSeed,
    Loops,
    SnapshotConfig,
    Trace,
    check_outside,
    draw_hash_seed,
)
from rayshot.model.fit import ActorOptions, RenamedClasses, SkipMissing
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.door.cluster import join_or_start
from rayshot.runtime.door.naming import find_coordinator
from rayshot.runtime.opening.from_snapshot import Choice, Fitting, bring_back
from rayshot.runtime.opening.init import ATTACH_S, attach_to
from rayshot.runtime.opening.shape import in_one_shape
from rayshot.runtime.opening.start import (
    await_start,
    check_arguments,
    is_local,
    locate,
    locate_files,
    make_room,
    start,
)
from rayshot.runtime.opening.system import System
from rayshot.runtime.wire.keyring import load_keyring
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import STOPPED
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.pins import follow_pin

log = logging.getLogger("rayshot")
PIN = "RAYSHOT_RESTORE_SNAPSHOT"


@in_one_shape
def resume(
    name: str,
    *,
    storage: str | os.PathLike[str],
    begin: Callable[[System], object],
    snapshots: SnapshotConfig | None = None,
    failure: FailureConfig | None = None,
    trace: Trace = False,
    takeover: bool = False,
    allow_unsigned: bool = False,
    rename_classes: RenamedClasses | None = None,
    skip_missing_classes: SkipMissing = False,
    options: ActorOptions | None = None,
    hash_seed: HashSeed = None,
    loops: Loops = KEPT,
    files: str | os.PathLike[str] | None = None,
    outside: OutsideMode = "refuse",
) -> System:
    """Attach to a system that runs; else restore its latest snapshot; else begin it.

    A program that is started again, on this cluster or another one, goes on from its last snapshot.

    The environment variable RAYSHOT_RESTORE_SNAPSHOT pins a snapshot: a system that does not run goes back to the
    pinned snapshot. The variable may stay set: a program that starts again under the same pin goes on from the newest
    snapshot that the lives under this pin have committed since. After a life without this pin, the pinned snapshot is
    restored again. If RAYSHOT_SYSTEM is set, the pin is for that system only.

    Args:
        name: as for `rayshot.init`.
        storage: as for `rayshot.init`.
        begin: a function that is called with the system if it has no snapshot. It makes the first actors, and may send
            them messages. No snapshot is committed before it has returned; then the first snapshot is taken, and the
            system runs. If `begin` raises, or its program dies, nothing is left, and the next `resume` calls it again.
            Programs that attach meanwhile wait. If no actor lives after `begin`, because all constructors failed, a
            warning says so.
        snapshots: as for `rayshot.init`, also where the system is restored.
        failure: as for `rayshot.init`, also where the system is restored.
        trace: as for `rayshot.init`, also where the system is restored.
        takeover: True goes on even if a life of the system may still run in another cluster; that life is fenced out.
            It also takes what is outside away from a system of another storage.
        allow_unsigned: as for `rayshot.restore`.
        rename_classes: as for `rayshot.restore`.
        skip_missing_classes: as for `rayshot.restore`.
        options: as for `rayshot.restore`.
        hash_seed: as for `rayshot.init`, where the system begins. Where it is restored, its snapshot says it.
        loops: as for `rayshot.init`, also where the system is restored.
        files: as for `rayshot.init`, also where the system is restored.
        outside: as for `rayshot.restore`, where the system is restored.

    Raises:
        LivesElsewhere: within the last 60 s, a life of the system in another cluster has said that it runs. Two
            programs that resume one system in two clusters would fence each other out for ever.
        SnapshotAborted: the system began, but its first snapshot could not be taken; nothing is left.
        SnapshotNotFound: the pinned snapshot does not exist; nothing was begun.
        ConfigError, NoAnswer, NotFound, Untrusted, Damaged, Incompatible, RestoreFailed, SystemRecovering: as for
            `rayshot.init` and `rayshot.restore`. All errors that `begin` raises.
    """
    check_arguments(name, snapshots, failure, trace, loops)
    check_outside(outside)
    seed = draw_hash_seed(hash_seed)
    if not callable(begin):
        raise ConfigError(f"begin={begin!r}: give a function that takes the system and makes its first actors")
    location, store = locate(storage)
    join_or_start()
    running = _find_running(name)
    if running is not None:
        return attach_to(name, running, location)
    store.check()
    if not takeover:
        check_nobody_lives(store, name)
    try:
        pin, known = _find_pin(name), find_history(store, name).retained
        if pin is not None and not known:
            raise SnapshotNotFound(
                f"{PIN}={pin}: {location} holds no snapshot of system {name!r}, so there is nothing to go back to. "
                f"Nothing was begun",
                snapshot=str(pin),
                exists=[],
            )
        if known:
            identity = bring_back(
                storage,
                name,
                _choice(store, pin),
                Fitting(allow_unsigned, rename_classes, skip_missing_classes, options),
                claim=None,  # otherwise retention would keep one snapshot for each start of the program
                snapshots=snapshots,
                failure=failure,
                trace=trace,
                loops=loops,
                files=files,
                outside=outside,
                takeover=takeover,
            )
            return System(identity)
        make_room(name)
        keyring = load_keyring(local=is_local(location))
        failure = failure or FailureConfig()
        configs = failure.snapshots(snapshots), failure
        of = name, location, keyring.names, *configs, trace
        settings = SystemSettings(
            *of, beginning=True, hash_seed=seed, loops=loops, files=locate_files(files), takeover=takeover
        )
        return _begin(System(start(settings, keyring)), begin)
    except (ConfigError, door.NameUsed) as error:
        running = _find_running(name)
        if running is None and isinstance(error, ConfigError):
            raise
        if running is None:
            raise ConfigError(f"another program has just tried to start system {name!r}, in vain: try again") from error
        return attach_to(name, running, location)  # another process was faster


def _find_pin(system: str) -> SnapshotId | None:
    """The snapshot to which this system must go back, by the environment; None for no pin. Raises ConfigError."""
    text = os.environ.get(PIN, "").strip()
    if not text or os.environ.get("RAYSHOT_SYSTEM", system) != system:
        return None
    try:
        return SnapshotId.parse(text)
    except ConfigError as error:
        raise ConfigError(f"{PIN}: {error.message}") from error


def _choice(store: Store, pin: SnapshotId | None) -> Choice:
    if pin is None:
        return Choice(SystemView.rollback_target)

    def choose(view: SystemView) -> Snapshot:
        try:
            chosen = follow_pin(store, view, pin)
        except SnapshotNotFound as error:
            raise type(error)(f"{PIN}={pin}: {error.message}", **error.evidence) from error
        if chosen.id != pin:
            log.info("system %r goes on from %s, which came after the pinned %s", view.name, chosen.id, pin)
        return chosen

    return Choice(choose, pin)


def _find_running(name: str) -> Any | None:
    """The coordinator of the system; None if the system is stopped or dead. Waits while another program starts it."""
    coordinator = find_coordinator(name)
    if coordinator is None:
        return None
    try:
        return None if await_start(name, coordinator, ATTACH_S) == STOPPED else coordinator
    except door.NotReached:
        return None


def _begin(system: System, begin: Callable[[System], object]) -> System:
    with ExitStack() as failed:
        failed.callback(system.shutdown)
        failed.callback(log.warning, "system %r could not begin: what it has made is taken down", system.name)
        begin(system)
        system.begun()
        failed.pop_all()
    if not system.actors():
        log.warning(
            "system %r begins with no actors, and from now on is restored with none: `begin` has made none, or the "
            "constructors of all have failed, as their logs tell. To begin anew, shut it down and call "
            "rayshot.init(%r, storage=..., fresh=True)",
            system.name,
            system.name,
        )
    return system
