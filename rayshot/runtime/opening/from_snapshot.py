"""How a life goes on from a snapshot: the choice of the snapshot, the checks, and the new coordinator and actors."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rayshot.errors import ConfigError, Damaged, RayshotError, RestoreFailed, SinkAhead, SystemRecovering
from rayshot.format.entries import OutsideMode
from rayshot.format.manifest import HASH_SEED
from rayshot.keys.finder import find_trusted_keys
from rayshot.log.system import find_history
from rayshot.model.configuration import (
    CLAIM,
    KEPT,
    Claim,
    FailureConfig,
    Loops,
    SnapshotConfig,
    Trace,
    check_claim,
    check_config,
    check_loops,
    check_outside,
    check_trace,
    draw_hash_seed,
)
from rayshot.model.fit import ActorOptions, Fit, RenamedClasses, SkipMissing, fit, supply, undeliverable
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.plans import make_plans
from rayshot.runtime.coordinator.restoration import Restoration, RestoreProgress
from rayshot.runtime.coordinator.teardown import take_down
from rayshot.runtime.door import door
from rayshot.runtime.door.cluster import join_or_start
from rayshot.runtime.driver.progress import wait_with_progress
from rayshot.runtime.opening.start import check_no_actor, identify, is_local, locate, locate_files, make_room, start
from rayshot.runtime.wire.answers import get_answer, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.keyring import load_keyring
from rayshot.runtime.wire.restored_fit import RestoredFit
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.fallback import find_offer
from rayshot.snapshots.leases import reading
from rayshot.snapshots.snapshot import Snapshot, check_allow_unsigned, check_trust

log = logging.getLogger("rayshot")
START_S = 300.0
"""If no actor gets ready for so many seconds, the restore fails because of processes that have not started or hang."""
ORDER_S = 300.0
"""The coordinator has so many seconds to write down from where the system goes on: the storage may be slow."""
ASK_S = 1.0


class Choice(NamedTuple):
    """The snapshot from which a system is brought back, and the pin that decided this, if any."""

    of: Callable[[SystemView], Snapshot]
    pin: SnapshotId | None = None


@dataclass(frozen=True)
class Fitting:
    """What a person says about a snapshot from which a system goes on; see the arguments of `rayshot.restore`."""

    allow_unsigned: bool = False
    rename_classes: RenamedClasses | None = None
    skip_missing_classes: SkipMissing = False
    options: ActorOptions | None = None

    def __post_init__(self) -> None:
        check_allow_unsigned(self.allow_unsigned)

    def of(self, snapshot: Snapshot) -> Fit:
        """How this snapshot fits. Raises Untrusted, Damaged, Incompatible, NotFound and ConfigError."""
        check_trust(snapshot, find_trusted_keys(), allow_unsigned=self.allow_unsigned)
        found = fit(
            snapshot.manifest, snapshot.read, self.rename_classes, skip_missing_classes=self.skip_missing_classes
        )
        return replace(found, specifications=supply(found.specifications, self.options))


def bring_back(
    storage: str | os.PathLike[str],
    system: str | None,
    choice: Choice,
    fitting: Fitting,
    *,
    into: str | os.PathLike[str] | None = None,
    claim: Claim | None = None,
    snapshots: SnapshotConfig | None = None,
    failure: FailureConfig | None = None,
    trace: Trace = False,
    loops: Loops = KEPT,
    min_position: int = 0,
    files: str | os.PathLike[str] | None = None,
    outside: OutsideMode = "refuse",
    takeover: bool = False,
) -> HostIdentity:
    """Begin a life from a snapshot; see `rayshot.restore`."""
    check_no_actor()
    check_config(snapshots or SnapshotConfig(), SnapshotConfig)
    check_config(failure := failure or FailureConfig(), FailureConfig)
    check_trace(trace)
    check_loops(loops)
    check_claim(claim)
    check_outside(outside)
    location, source = locate(storage)
    target, target_store = (location, source) if into is None else locate(into)
    elsewhere = source.url != target_store.url
    view = open_storage(location, min_position=min_position).system(system)
    chosen = choice.of(view)
    try:
        fit = fitting.of(chosen)
    except Damaged as error:
        raise _with_way(error, view, chosen, location, fitting) from error
    keyring = load_keyring(local=is_local(target))
    join_or_start()
    make_room(view.name)
    target_store.check()
    if elsewhere:
        find_history(target_store, view.name)  # raises if its log is not whole, before anything is started
    configs = failure.snapshots(snapshots), failure
    settings = SystemSettings(
        view.name,
        target,
        keyring.names,
        *configs,
        trace,
        loading=True,
        after=chosen.id.incarnation,
        pin=choice.pin,
        hash_seed=draw_hash_seed(chosen.manifest.stats.get(HASH_SEED)),
        loops=loops,
        files=locate_files(files),
    )
    try:
        identity = start(settings, keyring)
    except door.NameUsed as error:
        raise ConfigError(f"system {view.name!r} is started or restored by another process at this moment") from error
    try:
        if not elsewhere:  # nobody else can commit now, so only now the latest snapshot is known
            latest = choice.of(view)
            if latest.id != chosen.id:
                chosen = latest
                fit = fitting.of(chosen)
        with reading(view.log, chosen.id):  # the coordinator does so too, from its answer on
            claimed = not elsewhere and view.owns(chosen) if claim is None else claim == CLAIM
            fitted = RestoredFit.of(fit, undeliverable(fit, chosen.read))
            order = Restoration(
                chosen.id,
                location if elsewhere else None,
                claimed,
                fit.manifest.ended,
                make_plans(location, chosen.folder, fit.manifest, fitted),
                fitted if failure.heals and not fitted.is_recorded(chosen.manifest) else None,
                START_S,
                outside,
                takeover,
            )
            order_restore(identity, order, fit)
            await_restore(identity, len(order.plans))
    except BaseException as error:
        take_down(view.name, identity.coordinator, identity.incarnation)
        if isinstance(error, door.CallFailed | RestoreFailed):
            cause = error.__cause__ if isinstance(error, RestoreFailed) else getattr(error, "cause", None)
            others = _what_else(cause, view, chosen, location, fitting)
            raise RestoreFailed(
                f"snapshot {chosen.id} could not be restored, nothing was left running: {cause or error}{others}",
                **{**getattr(cause, "evidence", {}), "snapshot": str(chosen.id)},
            ) from (cause if isinstance(cause, RayshotError) else error)
        if isinstance(error, Damaged):
            raise _with_way(error, view, chosen, location, fitting) from error
        raise
    return identify(view.name, identity.coordinator)  # with what was said of what is outside


def order_restore(identity: HostIdentity, order: Restoration, fit: Fit) -> None:
    """Let the coordinator restore the system. From then on it needs this program no more. Raises the call's errors."""
    _report(fit)
    get_answer(identity.coordinator.restore.remote(order), the_coordinator(identity.system), ORDER_S)


def await_restore(identity: HostIdentity, actors: int) -> None:
    """Wait until all are loaded, and the system runs.

    Raises RestoreFailed, whose cause is the error of the actor that could not be loaded; NoAnswer of the coordinator.
    """
    system, coordinator = identity.system, identity.coordinator
    progress = RestoreProgress(is_over=False, waiting=(), trouble="", stop=None, cause=None)

    def is_over(timeout_s: float) -> bool:
        nonlocal progress
        before, within_s = progress.trouble, min(timeout_s, ASK_S)
        try:
            with noticing_restart(system, coordinator):
                progress = get_answer(coordinator.restored.remote(before, within_s), the_coordinator(system))
        except SystemRecovering:  # its coordinator died, and the next one says that the restore is over
            time.sleep(within_s)
        if progress.trouble and progress.trouble != before:
            log.warning("restoring system %r: %s. It is loaded again", system, progress.trouble)
        return progress.is_over

    def describe() -> str:
        done = f"restoring: {actors - len(progress.waiting)}/{actors} loaded"
        waiting = f", waiting for {some_names(progress.waiting)}" if progress.waiting else ""
        return f"{done}{waiting}{f'; {progress.trouble}' if progress.trouble else ''}"

    wait_with_progress(is_over, describe)
    if progress.stop is not None:
        stop = progress.stop
        died = stop.actor is not None and stop.actor not in stop.detail
        raise RestoreFailed(f"{stop.actor} died: {stop.detail}" if died else stop.detail) from progress.cause


def _report(fit: Fit) -> None:
    """Log which actors are not restored: nothing is lost silently."""
    for name, recorded in fit.left_out.items():
        lost = {c.sender: c.sent - c.received for c in fit.undeliverable if c.receiver == name and c.sent > c.received}
        flying = ", ".join(f"{count:,} from {sender}" for sender, count in sorted(lost.items()))
        log.warning(
            "%s of class %s is left out of the restore of %s; its state stays in the snapshot. Dead letters: %s",
            name, recorded, fit.manifest.snapshot, flying or "none",
        )  # fmt: skip


def _what_else(cause: object, view: SystemView, chosen: Snapshot, location: str, fitting: Fitting) -> str:
    """Which other snapshots could be restored, as this one cannot for that cause; empty if that is not known."""
    if isinstance(cause, Damaged):
        return f". {_way_round(view, chosen, location, fitting)}"
    if isinstance(cause, SinkAhead):
        actor, there = cause.evidence.get("actor"), cause.evidence.get("there", {})
        with suppress(RayshotError):  # they are an offer, and no more
            found = [str(one.id) for one in reversed(view.snapshots()) if _knows(one, actor, there)]
            return f". These snapshots know the batch: {some_names(found)}" if found else ""
    return ""


def _knows(snapshot: Snapshot, actor: object, there: Mapping[str, Any]) -> bool:
    entry = snapshot.outside.get(str(actor))
    payload = entry.payload if entry is not None and isinstance(entry.payload, dict) else {}
    return payload.get("line") == there.get("line") and payload.get("sequence", -1) >= there.get("sequence", 0)


def _with_way(error: Damaged, view: SystemView, damaged: Snapshot, location: str, fitting: Fitting) -> Damaged:
    """The same error, with what a person can do."""
    return type(error)(f"{error.message}. {_way_round(view, damaged, location, fitting)}", **error.evidence)


def _way_round(view: SystemView, damaged: Snapshot, location: str, fitting: Fitting) -> str:
    """See `find_offer`."""
    keys = find_trusted_keys()
    return find_offer(view.history(), view.open, damaged.id, location, keys, allow_unsigned=fitting.allow_unsigned)
