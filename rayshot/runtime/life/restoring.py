"""A restore makes and loads every actor of a snapshot, once it knows that everything it needs is there."""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import ray

from rayshot.errors import RestoreFailed
from rayshot.model.resolution import Fit
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.loading import LoadPlan
from rayshot.runtime.actor.plans import make_plans
from rayshot.runtime.actor.spawning import spawn_host
from rayshot.runtime.coordinator.watching import in_short
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
STARTS_MAX = 3
"""An actor's process is made so often at most: Ray may place it on a dead node that Ray still takes for alive."""


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

    def run(self) -> None:
        """Return when all actors are loaded. If a process dies before it joined the system, make the actor again.

        Raises RestoreFailed if processes do not start or hang; the error of a failed load; NoAnswer of the coordinator.
        """
        for name in self._plans:
            self._make(name)
        due = time.monotonic() + START_S

        def all_are_loaded(timeout_s: float) -> bool:
            nonlocal due
            loaded, _ = ray.wait([*self._waiting], num_returns=1, timeout=min(timeout_s, START_S))
            for answer in loaded:
                self._settle(answer)
            if loaded:
                due = time.monotonic() + START_S
            elif time.monotonic() >= due:
                self._check_alive()
                due = time.monotonic() + START_S
            return not self._waiting

        if self._waiting:
            wait_with_progress(all_are_loaded, self._describe)

    def kill_all(self) -> None:
        """End all actors that were made, also those that are still starting and that the coordinator does not know."""
        for host in self._hosts.values():
            ray.kill(host)

    def _make(self, name: str) -> None:
        self._starts[name] += 1
        host = self._hosts[name] = spawn_host(Host, self._identity, self._specifications[name], name, loading=True)
        self._waiting[host.load.remote(self._plans[name])] = name

    def _settle(self, answer: Any) -> None:
        """An actor has answered. If its load failed, raise the error, unless another try may help."""
        name = self._waiting.pop(answer)
        try:
            ray.get(answer)
        except ray.exceptions.ActorDiedError as error:
            if self._starts[name] == STARTS_MAX or error.actor_init_failed or name in self._joined():
                raise
            log.warning("a process for %s died before it had started, another one is made: %s", name, in_short(error))
            self._make(name)

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
        ready, _ = ray.wait(list(answers.values()), num_returns=len(answers), timeout=HANG_S)
        if hung := [name for name, answer in answers.items() if answer not in ready]:
            raise RestoreFailed(
                f"nothing was restored: {some_names(hung)} has not loaded within {START_S:g} s, and its process does "
                f"not answer: is it stopped?",
                actors=hung,
            )

    def _describe(self) -> str:
        done = len(self._plans) - len(self._waiting)
        return f"restoring: {done}/{len(self._plans)} loaded, waiting for {some_names(self._waiting.values())}"


def _report(fit: Fit) -> None:
    """Log which actors are not restored: nothing is lost silently."""
    for name, recorded in fit.left_out.items():
        lost = {c.sender: c.sent - c.received for c in fit.undeliverable if c.receiver == name and c.sent > c.received}
        flying = ", ".join(f"{count:,} from {sender}" for sender, count in sorted(lost.items()))
        log.warning(
            "%s of class %s is left out of the restore of %s; its state stays in the snapshot. Dead letters: %s",
            name, recorded, fit.manifest.snapshot, flying or "none",
        )  # fmt: skip
