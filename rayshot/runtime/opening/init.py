"""`rayshot.init` and `rayshot.restore`: how a life of a system begins."""

import os
from typing import Any

from rayshot.errors import ConfigError
from rayshot.format.entries import OutsideMode
from rayshot.log.system import check_no_snapshots, find_history
from rayshot.model.configuration import (
    KEPT,
    NO_CLAIM,
    Claim,
    FailureConfig,
    HashSeed,
    Loops,
    SnapshotConfig,
    Trace,
    draw_hash_seed,
)
from rayshot.model.fit import ActorOptions, RenamedClasses, SkipMissing
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.door.cluster import join_or_start
from rayshot.runtime.door.naming import coordinator_name, find_coordinator
from rayshot.runtime.opening.from_snapshot import Choice, Fitting, bring_back
from rayshot.runtime.opening.old_code import warn_of_old_code
from rayshot.runtime.opening.shape import in_one_shape
from rayshot.runtime.opening.start import await_start, check_arguments, identify, is_local, locate, locate_files, start
from rayshot.runtime.opening.system import System
from rayshot.runtime.wire.keyring import load_keyring, offer_keys
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import STOPPED

ATTACH_S = 600.0
"""Another process may take so many seconds to begin or restore a system to which this process wants to attach."""


@in_one_shape
def init(
    name: str,
    *,
    storage: str | os.PathLike[str],
    snapshots: SnapshotConfig | None = None,
    failure: FailureConfig | None = None,
    trace: Trace = False,
    fresh: bool = False,
    hash_seed: HashSeed = None,
    loops: Loops = KEPT,
    files: str | os.PathLike[str] | None = None,
) -> System:
    """Create a system, or attach to it if it already runs. Calls `ray.init()` if nobody has.

    `Class.remote()` makes an actor of this system, as long as the driver begins no other one beside it. Then it raises
    a ConfigError, also behind the shutdown of one of them, unless `Class.options(system=...)` or a `with` block of a
    system says which one is meant.

    Args:
        name: letters, digits, `_`, `.`, `-`.
        storage: the folder for its snapshots.
        snapshots: when snapshots are taken automatically, and which are kept. By default one is taken when the first
            actor is made and then every ten seconds, and those kept are the newest ten, and the newest of each of the
            last 24 hours and 7 days. If the system does not go back to them by itself: only when asked for, and all are
            kept. Ignored when attaching.
        failure: what the failure of an actor means for the system: by default it goes back to its last snapshot by
            itself. Ignored when attaching.
        trace: True records each event of each actor, some bytes per message. Then `rayshot verify` can prove more than
            the counters: vector clocks, and that the cut is a point in a possible course of events. "full" keeps the
            messages too, so that classes declared `deterministic` can be replayed. Ignored when attaching.
        fresh: True begins with nothing, even if the storage holds snapshots of the system. These snapshots stay:
            retention keeps the last one of each earlier life. Ignored when attaching.
        hash_seed: the seed of `hash()` of texts and bytes in all processes of the system's actors, now and behind each
            rollback and restore, for states that depend on it: 0 to 4294967295, or "random", which draws one. By
            default each process has its own, as in plain Ray. Such processes start in about a second, as Ray holds
            none ready. Ignored when attaching.
        loops: "anew", for tests: at each top of a pass of a `rayshot.loop` the frame of its method is thrown away, and
            the method begun anew from its top, as behind a restore. A method whose local objects collect over passes,
            or whose code above the loop must run only once, gives other results then. What stands above the loop runs
            in each pass, so passes may be slow. Ignored when attaching.
        files: the folder or bucket for the files that actors write into `cut.folder`, if they cannot write into the
            storage: a shared disk beside a bucket. By default the storage. Ignored when attaching.

    Raises:
        SnapshotsExist: the system does not run here, and the storage holds snapshots of it: use `rayshot.resume` to go
            on from them. Nothing was started.
        ConfigError: a name, address or setting cannot work, or this process is an actor. Nothing was started.
        NoAnswer: the coordinator of the running system does not answer. SystemRecovering: nor does it, as Ray starts it
            again.
    """
    check_arguments(name, snapshots, failure, trace, loops)
    seed = draw_hash_seed(hash_seed)
    location, store = locate(storage)
    join_or_start()
    running = find_coordinator(name)
    if running is not None:
        return attach_to(name, running, location)
    store.check()
    history = find_history(store, name)
    if not fresh:
        check_no_snapshots(history, name, location)
    keyring = load_keyring(local=is_local(location))
    failure = failure or FailureConfig()
    configs = failure.snapshots(snapshots), failure
    of = name, location, keyring.names, *configs, trace
    settings = SystemSettings(*of, fresh=fresh, hash_seed=seed, loops=loops, files=locate_files(files))
    try:
        return System(start(settings, keyring))
    except door.NameUsed:  # somebody else was faster
        return attach_to(name, door.find(coordinator_name(name)), location)


@in_one_shape
def restore(
    name: str | None = None,
    *,
    storage: str | os.PathLike[str],
    snapshot: SnapshotId | str | None = None,
    snapshots: SnapshotConfig | None = None,
    into: str | os.PathLike[str] | None = None,
    claim: Claim | None = NO_CLAIM,
    allow_unsigned: bool = False,
    rename_classes: RenamedClasses | None = None,
    skip_missing_classes: SkipMissing = False,
    options: ActorOptions | None = None,
    failure: FailureConfig | None = None,
    trace: Trace = False,
    loops: Loops = KEPT,
    min_position: int = 0,
    files: str | os.PathLike[str] | None = None,
    outside: OutsideMode = "refuse",
    takeover: bool = False,
) -> System:
    """Bring a system back from a snapshot: every actor with its state, every message in flight once and in order.

    Works on the same Ray cluster or another one, all or nothing. If a system of this name is down in the cluster, what
    is left of it is taken down first.

    Args:
        name: the system's name; not needed if the storage holds only one system.
        storage: where its snapshots are.
        snapshot: the snapshot to restore; by default the latest that advances, see `SystemView.rollback_target`.
        snapshots: when snapshots are taken automatically from now on, as for `rayshot.init`.
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
        failure: as for `rayshot.init`, from now on.
        trace: as for `rayshot.init`, from now on.
        loops: as for `rayshot.init`, from now on.
        min_position: as for `rayshot.open`: refuses a storage that was put back to an older state.
        files: as for `rayshot.init`, from now on. Files of the restored snapshot are found where they are.
        outside: what is done if more is visible outside than the snapshot knows, such as rows of a sink. "refuse"
            fails, and says what is there. "again" goes on: what comes behind the snapshot is published a second time.
            "leave" touches nothing outside, for a look at an old state: no hook of a class with `on_snapshot` or
            `on_commit` is called until the system is restored anew, and no snapshot is taken. What is said holds for
            the restored actors until the life has a snapshot of its own, also if it goes back before, and for actors
            that are made anew until the system is restored again. See `rayshot help outside`.
        takeover: True takes what is outside away from a system of another storage, of which this one may be a copy.

    Raises:
        NotFound: the system, the snapshot or an actor to leave out does not exist; the message lists what exists.
            SnapshotDeleted: the snapshot was deleted during the restore, and its lease could not keep it.
        ConfigError: the system is running, this process is an actor, or a setting or an address cannot work.
        Untrusted, Damaged, Incompatible: nothing was started. Incompatible: a class is gone, has another version and
            cannot migrate, or lacks methods that messages, timers and pending replies call; the error has both sides.
        RestoreFailed: what is outside does not fit, such as SinkAhead, which is the cause then; an actor could not be
            loaded in two tries, or in 20 within a minute and a half if its process
            dies, its `on_restore` raises, or what its class needs from outside does not answer; or no actor got ready
            for 300 s. Everything was taken down again.
    """
    chosen = Choice(lambda view: view.rollback_target() if snapshot is None else view.snapshot(snapshot))
    fitting = Fitting(allow_unsigned, rename_classes, skip_missing_classes, options)
    identity = bring_back(
        storage,
        name,
        chosen,
        fitting,
        into=into,
        claim=claim,
        snapshots=snapshots,
        failure=failure,
        trace=trace,
        loops=loops,
        min_position=min_position,
        files=files,
        outside=outside,
        takeover=takeover,
    )
    return System(identity)


def attach_to(name: str, coordinator: Any, location: str | None = None, label: str = "") -> System:
    """Attach to a system that has a coordinator; wait while it begins or is restored. `label` is `as_` of `attach`.

    Raises ConfigError if its storage is not `location`, or it still starts after ATTACH_S seconds; ClusterRefused;
    NoAnswer, SystemRecovering.
    """
    identity = identify(name, coordinator)
    if location is not None and identity.storage != location:
        raise ConfigError(f"system {name!r} runs already, with storage {identity.storage}, not {location}")
    state = await_start(name, coordinator, ATTACH_S)
    offer_keys(coordinator, name)
    system = System(identity, label if state != STOPPED else "")
    if state == STOPPED:
        system.learn_why_stopped()
    else:
        warn_of_old_code(identity)
    return system
