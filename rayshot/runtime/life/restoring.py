"""A restore makes and loads every actor of a snapshot, once it knows that everything it needs is there."""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rayshot.errors import Damaged, HookFailed, Incompatible, OutsideRefused, RestoreFailed
from rayshot.model.resolution import Fit
from rayshot.protocol.recovery import pause_behind
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.loading import LoadPlan
from rayshot.runtime.actor.plans import make_plans
from rayshot.runtime.actor.spawning import spawn_host
from rayshot.runtime.coordinator.watching import in_short
from rayshot.runtime.door import door
from rayshot.runtime.life.progress import wait_with_progress
from rayshot.runtime.wire.answers import get_answer, the_coordinator
from rayshot.runtime.wire.fitted import Fitted
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.initiation import some_names

log = logging.getLogger("rayshot")
START_S = 300.0
"""If no actor gets ready for so many seconds, the restore fails because of processes that have not started or hang."""
HANG_S = 60.0
"""A process answers while it loads; it may need some seconds while it unpickles one large value."""
LOOK_S = 0.1
"""While an actor waits to be made again, it is seen so often whether its pause is over."""


def load_all(identity: HostIdentity, storage: str, folder: str, fit: Fit, fitted: Fitted) -> None:
    """Make every actor, load it, and let all of them run when the last one is ready.

    The chunks are in `folder` of `storage`, which may differ from the system's storage.
    """
    _report(fit)
    loading = _Loading(identity, fit, make_plans(storage, folder, fit.manifest, fitted))
    try:
        loading.run()
        get_answer(identity.coordinator.resume.remote(), the_coordinator(identity.system))
    except BaseException:
        loading.kill_all()
        raise


class _Loading:
    """The actors that are being made and loaded, each by its plan."""

    def __init__(self, identity: HostIdentity, fit: Fit, plans: Mapping[str, LoadPlan]) -> None:
        self._identity = identity
        self._specifications = fit.specifications
        self._plans = plans
        self._hosts: dict[str, Any] = {}
        self._starts = Counter[str]()
        self._waiting: dict[Any, str] = {}
        """The answers that have not come yet, with their actors."""
        self._pauses: dict[str, float] = {}
        """Actors that are made again, and when, by time.monotonic."""
        self._trouble = ""

    def run(self) -> None:
        """Return when all actors are loaded. One that is not is made again, as often as `pause_behind` says.

        Raises RestoreFailed if processes do not start or hang; the error of a failed load; NoAnswer of the coordinator.
        """
        for name in self._plans:
            self._make(name)
        due = time.monotonic() + START_S

        def all_are_loaded(timeout_s: float) -> bool:
            nonlocal due
            for name in [name for name, at in self._pauses.items() if time.monotonic() >= at]:
                del self._pauses[name]
                self._make(name)
            if not self._waiting:
                time.sleep(LOOK_S)
                return False
            patience_s = min(timeout_s, LOOK_S if self._pauses else START_S)
            loaded, _ = door.wait([*self._waiting], num_returns=1, timeout=patience_s)
            for answer in loaded:
                self._settle(answer)
            if loaded:
                due = time.monotonic() + START_S
            elif time.monotonic() >= due:
                self._check_alive()
                due = time.monotonic() + START_S
            return not self._waiting and not self._pauses

        if self._waiting:
            wait_with_progress(all_are_loaded, self._describe)

    def kill_all(self) -> None:
        """End all actors that were made, also those that are still starting and that the coordinator does not know."""
        for host in self._hosts.values():
            door.kill(host)

    def _make(self, name: str) -> None:
        self._starts[name] += 1
        host = self._hosts[name] = spawn_host(Host, self._identity, self._specifications[name], name, loading=True)
        self._waiting[host.load.remote(self._plans[name])] = name

    def _settle(self, answer: Any) -> None:
        """An actor has answered. If its load failed, raise the error, unless another try may help."""
        name = self._waiting.pop(answer)
        try:
            door.get(answer)
        except door.Died as error:
            if name in self._joined() or not self._retry(name, in_short(error), hopeless=error.actor_init_failed):
                raise  # the coordinator gives up if one that has joined dies
        except door.Raised as error:
            cause = error.cause
            if not isinstance(cause, Damaged | Incompatible):
                raise
            if not self._retry(name, cause.message, hopeless=not isinstance(cause, HookFailed | OutsideRefused)):
                raise

    def _retry(self, name: str, why: str, *, hopeless: bool) -> bool:
        """Make the actor again, in another process: this one may be the actor in part. Returns whether it is made."""
        pause_s = pause_behind(self._starts[name], hopeless=hopeless)
        if pause_s is None:
            return False
        self._trouble = f"{name} could not be loaded, try {self._starts[name]}: {why}"
        log.warning("%s. It is loaded again%s", self._trouble, f" in {pause_s:g} s" if pause_s else "")
        get_answer(self._identity.coordinator.lose.remote(name), the_coordinator(self._identity.system))
        door.kill(self._hosts[name])
        self._pauses[name] = time.monotonic() + pause_s
        return True

    def _joined(self) -> Mapping[str, Any]:
        actors: Mapping[str, Any] = get_answer(
            self._identity.coordinator.actors.remote(), the_coordinator(self._identity.system)
        )
        return actors

    def _check_alive(self) -> None:
        """Raise RestoreFailed if processes of actors have not started, or do not answer while they load."""
        joined, names = self._joined(), list(self._waiting.values())
        if absent := [name for name in names if name not in joined]:
            raise RestoreFailed(
                f"nothing was restored: {some_names(absent)} did not start within {START_S:g} s: has the cluster the "
                f"resources?",
                actors=absent,
            )
        answers = {name: self._hosts[name].status.remote() for name in names}
        ready, _ = door.wait(list(answers.values()), num_returns=len(answers), timeout=HANG_S)
        if hung := [name for name, answer in answers.items() if answer not in ready]:
            raise RestoreFailed(
                f"nothing was restored: {some_names(hung)} has not loaded within {START_S:g} s, and its process does "
                f"not answer: is it stopped?",
                actors=hung,
            )

    def _describe(self) -> str:
        missing = [*self._waiting.values(), *self._pauses]
        done = f"restoring: {len(self._plans) - len(missing)}/{len(self._plans)} loaded"
        return f"{done}, waiting for {some_names(missing)}{f'; {self._trouble}' if self._trouble else ''}"


def _report(fit: Fit) -> None:
    """Log which actors are not restored: nothing is lost silently."""
    for name, recorded in fit.left_out.items():
        lost = {c.sender: c.sent - c.received for c in fit.undeliverable if c.receiver == name and c.sent > c.received}
        flying = ", ".join(f"{count:,} from {sender}" for sender, count in sorted(lost.items()))
        log.warning(
            "%s of class %s is left out of the restore of %s; its state stays in the snapshot. Dead letters: %s",
            name, recorded, fit.manifest.snapshot, flying or "none",
        )  # fmt: skip
