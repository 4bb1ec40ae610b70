"""A program that restores a system orders it, and waits until the coordinator has loaded every actor."""

import logging
import time

from rayshot.errors import RestoreFailed, SystemRecovering
from rayshot.model.resolution import Fit
from rayshot.runtime.coordinator.restoration import Restoration, RestoreProgress
from rayshot.runtime.life.progress import wait_with_progress
from rayshot.runtime.wire.answers import get_answer, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.initiation import some_names

log = logging.getLogger("rayshot")
START_S = 300.0
"""If no actor gets ready for so many seconds, the restore fails because of processes that have not started or hang."""
ORDER_S = 300.0
"""The coordinator has so many seconds to write down from where the system goes on: the storage may be slow."""
ASK_S = 1.0


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
