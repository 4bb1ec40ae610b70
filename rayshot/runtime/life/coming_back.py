"""What a program may ask of a system that goes back to its last snapshot by itself."""

import inspect
import time
from collections.abc import Callable
from math import inf
from typing import Any

from rayshot.errors import ConfigError, NotReady, SystemRecovering
from rayshot.runtime.life.line import Line
from rayshot.runtime.life.recovery_news import RecoverySubscription
from rayshot.runtime.wire.recovery_report import RecoveryReport
from rayshot.runtime.wire.states import RECOVERING

LOOK_S = 0.05


class ComesBack:
    """A base of `System`."""

    _line: Line

    def wait_until_running(self, within_s: float = inf) -> None:
        """Wait while the system goes back to its last snapshot by itself; return at once if it runs.

        A death is noticed after a fraction of a second. Until then the system runs, so this does not wait for what it
        does not know.

        Raises NotReady after `within_s` seconds, and up to 30 s later if the coordinator does not answer as Ray starts
        it again; NoAnswer if it does not answer otherwise; SystemDown if the system takes no messages any more.
        """
        self._await_running(within_s)

    def _await_running(self, within_s: float, silent_s: float | None = None) -> None:
        """As `wait_until_running`; the coordinator has `silent_s` seconds for each answer, see `Line.ask`."""
        line, deadline = self._line, time.monotonic() + within_s

        def ask(question: str) -> Any:
            return line.ask(question, within_s=silent_s)

        while True:
            late = time.monotonic() >= deadline
            try:
                recovers = ask("state") == RECOVERING or ask("identity").incarnation > line.port.life.incarnation
                line.check_running(silent_s)
                if not recovers:
                    return
                detail = ask("status")["recovering"] if late else ""
            except SystemRecovering as error:
                detail, late = error.message, time.monotonic() >= deadline
            if late:
                raise NotReady(f"system {line.name!r} does not run after {within_s:g} s: {detail}")
            time.sleep(LOOK_S)

    def on_recovery(self, callback: Callable[[RecoveryReport], object]) -> RecoverySubscription:
        """Call `callback(report)` in this process each time that the system went back by itself and runs again.

        It is called on a thread of its own, once for each life and in their order; this program may send into the new
        life then. An error that it raises is logged. The reports are those of `status().recoveries`. If the coordinator
        dies before it could tell, its successor tells of the life that runs, without the parts of the time; of
        lives between, which were over again, there may be no report.

        Returns an object whose `cancel()` ends this. It ends with the system: ask the one that `restart` returns again.
        Raises ConfigError if the system does not go back by itself, or `callback` cannot be called so.
        """
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise ConfigError(f"on_recovery({callback!r}): give a function that takes a report; it may not be async")
        session, life = self._line.port.session, self._line.port.life
        if not life.identity.heals:
            raise ConfigError(
                f"system {self._line.name!r} does not go back to a snapshot by itself, so it never recovers: begin it "
                "with failure=rayshot.FailureConfig(scope='system')"
            )
        subscription = RecoverySubscription(callback, life.identity.coordinator, life.incarnation)
        session.recoveries.add(subscription)
        if life.is_over:  # it went back before the subscription was known
            subscription.runs(session.life.incarnation)
        return subscription
