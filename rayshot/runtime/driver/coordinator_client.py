"""How a driver asks its system's coordinator and actors, and which errors it gets if they are gone."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeVar

from rayshot.errors import (
    ActorNotFound,
    NotReady,
    RayshotError,
    SnapshotAborted,
    SystemDown,
    SystemRecovering,
    SystemStopped,
)
from rayshot.format.suggestion import did_you_mean
from rayshot.protocol.abort import AbortReason
from rayshot.runtime.door import door
from rayshot.runtime.driver.maker import Maker
from rayshot.runtime.driver.session import DriverSession
from rayshot.runtime.wire.answers import SILENT_S, ask_until_settled, get_told, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Stop
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.keyring import offer_keys
from rayshot.runtime.wire.states import RECOVERING

A = TypeVar("A")
log = logging.getLogger("rayshot")
LOOK_S = 0.05
ANSWER_S = 10.0
"""Seconds that an actor has to answer a question about itself."""


class CoordinatorClient:
    """The line from one driver to its system. A `closed` line asks nothing any more."""

    def __init__(self, identity: HostIdentity, session: DriverSession, maker: Maker) -> None:
        self.name = identity.system
        self.coordinator = identity.coordinator
        self.closed = False
        self.session = session
        self._maker = maker

    def open_again(self) -> None:
        """Its system could not be shut down: it asks on."""
        log.warning("system %r is not shut down, or not all of it: call shutdown() again", self.name)
        self.closed = False

    def check_open(self) -> None:
        """Raise SystemStopped if this driver has shut the system down, or its program has left the Ray cluster."""
        if self.closed:
            raise SystemStopped(f"system {self.name!r} was shut down", system=self.name)
        if (left := self.session.left) is not None:
            raise left.anew()

    def check_running(self, within_s: float | None = None) -> None:
        """Raise SystemDown if the system takes no messages any more; else as `ask`."""
        self.fate(self.session.name, within_s)  # a driver is not a member, so the answer comes at once

    def await_running(self, within_s: float = inf, silent_s: float | None = None) -> None:
        """See `System.wait_until_running`. The coordinator has `silent_s` seconds for each answer, see `ask`."""
        deadline = time.monotonic() + within_s
        while True:
            late = time.monotonic() >= deadline
            try:
                recovers = (
                    self.ask("state", within_s=silent_s) == RECOVERING
                    or self.ask("identity", within_s=silent_s).incarnation > self.session.life.incarnation
                )
                self.check_running(silent_s)
                if not recovers:
                    return
                detail = self.ask("status", within_s=silent_s)["recovering"] if late else ""
            except SystemRecovering as error:
                detail, late = error.message, time.monotonic() >= deadline
            if late:
                raise NotReady(f"system {self.name!r} does not run after {within_s:g} s: {detail}")
            time.sleep(LOOK_S)

    def fate(self, name: str, within_s: float | None = None) -> str:
        """What became of an actor, in words. Raises SystemDown if the system takes no messages any more."""
        fate = self.ask("fate", name, self.session.life.incarnation, within_s=within_s)
        if isinstance(fate, Stop):
            raise fate.error() from None
        if fate is None:
            return f"system {self.name!r} goes back to its last snapshot by itself: ask again for actor {name!r}"
        assert isinstance(fate, Ending)
        return fate.detail

    def ask(self, method: str, *args: Any, within_s: float | None = None) -> Any:
        """Call `method` of the coordinator and return its answer.

        Raises SystemDown; NoAnswer after `within_s` seconds, by default SILENT_S, but SystemRecovering if Ray starts
        the coordinator again.
        """
        self.check_open()
        with noticing_restart(self.name, self.coordinator):
            asked = getattr(self.coordinator, method).remote(*args)
            return self.answer(asked, SILENT_S if within_s is None else within_s)

    def giving_keys(self, ask: Callable[[], A]) -> A:
        """The answer of `ask`. If its snapshot lacked keys that this program has, gives them, and asks once more."""
        try:
            return ask()
        except SnapshotAborted as error:
            missing = error.evidence.get("reason") == AbortReason.KEYS_MISSING.value
            if not (missing and offer_keys(self.coordinator, self.name)):
                raise
        return ask()

    def hosts(self) -> dict[str, Any]:
        """Ray handles of all living actors, by name. Waits while the system goes back, as `ask_until_settled`.

        It also waits for what this program does behind a rollback: until it has followed, and has made again those of
        its actors that the snapshot lacks. Raises SystemDown, NoAnswer.
        """
        found: dict[str, Any] = ask_until_settled(self._settled_hosts)
        return found

    def hosts_named(self, *names: str) -> dict[str, Any]:
        """The Ray handles of these actors, by name. Waits as `hosts`, and until those are there that are just made.

        Raises ActorNotFound, which lists the names that exist; SystemDown, NoAnswer.
        """
        for name in names:
            self._maker.meet(name)
        hosts = self.hosts()
        for name in names:
            if name not in hosts:
                there = f"{some_names(hosts)}{did_you_mean(name, tuple(hosts))}"
                raise ActorNotFound(f"system {self.name!r} has no actor {name!r}; it has {there}", actor=name)
        return {name: hosts[name] for name in names}

    def _settled_hosts(self) -> Any:
        found, life = self.ask("actors"), self.session.life
        if not life.identity.heals:
            return found
        if self.ask("fate", life.name, life.incarnation) is None:
            time.sleep(LOOK_S)
            raise SystemRecovering(
                f"system {self.name!r} went back to its last snapshot, and this program has not followed yet",
                system=self.name,
            )
        if life.made_again & self.session.machine.starting <= found.keys():
            return found
        self._maker.meet_again(life)
        return self.ask("actors")

    def ask_actors(self, method: str, hosts: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answers of these hosts (default: all) by actor name. None for a host that lives but does not answer."""
        hosts = self.hosts() if hosts is None else hosts
        refs = {name: getattr(host, method).remote() for name, host in hosts.items()}
        ready, silent = door.wait(list(refs.values()), num_returns=len(refs), timeout=ANSWER_S) if refs else ([], [])
        if silent:
            names = some_names(name for name, ref in refs.items() if ref in silent)
            log.warning("no answer within %g s from %s: does the process hang?", ANSWER_S, names)
        answers = {}
        for name, ref in refs.items():
            with contextlib.suppress(door.NotReached):
                answers[name] = door.get(ref) if ref in ready else None
        return answers

    def answer(self, ref: Any, within_s: float) -> Any:
        """The coordinator's answer. Raises NoAnswer, and Unavailable if it died and Ray starts it again."""
        try:
            return self.get(ref, the_coordinator(self.name), within_s)
        except (door.Unavailable, RayshotError):  # some of our errors are NotReached too
            raise
        except door.NotReached as error:
            if self.session.has_coordinator:
                raise door.Unavailable(
                    f"{the_coordinator(self.name)} died, and Ray starts it again", self.session.life.identity.life
                ) from error
            raise SystemStopped(
                f"the coordinator of system {self.name!r} is gone; attach again with rayshot.init, or restore",
                system=self.name,
            ) from error

    def get(self, ref: Any, whom: str, within_s: float) -> Any:
        """The result of a control call; see `get_told`."""
        try:
            return get_told(ref, whom, within_s)
        except SystemRecovering:
            raise
        except SystemDown as error:
            self.session.close(error)
            raise
