"""The processes of a system, for benchmarks that kill them."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

import rayshot
from benchmarks.cluster import wait_for

COORDINATOR = "coordinator"
AFTER_S_MAX = 5.0
"""A kill comes so long at most after the system runs again."""
AT_ONCE_SHARE, AT_ONCE_S_MAX = 0.1, 1.5
"""This share of the kills does not wait for that, and comes so long at most after the kill before."""


def report(system: rayshot.System) -> dict[str, Any]:
    """What the coordinator says now; waits for one that is started again."""
    coordinator = system._identity.coordinator  # noqa: SLF001 - System.status waits for a life that runs
    found: dict[str, Any] = asked(coordinator.status.remote)
    return found


def living(system: rayshot.System) -> dict[str, int]:
    """The processes of all actors that answer, by name."""
    return {name: actor["pid"] for name, actor in report(system)["actors"].items() if actor is not None}


def coordinator_pid(system: rayshot.System) -> int:
    """The process of the coordinator."""
    return pid_of(system._identity.coordinator)  # noqa: SLF001 - who else knows its process


def pid_of(actor: Any) -> int:
    """The process of a Ray actor."""
    return int(asked(lambda: actor.__ray_call__.remote(lambda _: os.getpid())))


def asked(call: Callable[[], Any]) -> Any:
    """The answer of a plain call by Ray; it is made anew if it was lost."""
    while True:
        try:
            return ray.get(call())
        except ray.exceptions.ActorUnavailableError:
            time.sleep(0.05)


@dataclass(frozen=True)
class Kill:
    """Who is killed, and how many seconds after the system runs again, or after the last kill if `at_once`."""

    victims: tuple[str, ...]
    after_s: float
    at_once: bool = False


def plan(seed: int, count: int, actors: Sequence[str], after_s_max: float = AFTER_S_MAX) -> list[Kill]:
    """The kills that follow from a seed: half of an actor, a quarter of the coordinator, a quarter of both."""
    rng, kills = random.Random(seed), []
    for number in range(count):
        kind, actor = rng.choice(("actor", "actor", COORDINATOR, "both")), rng.choice(actors)
        victims = {"actor": (actor,), COORDINATOR: (COORDINATOR,), "both": (actor, COORDINATOR)}[kind]
        at_once = number > 0 and rng.random() < AT_ONCE_SHARE
        kills.append(Kill(victims, rng.uniform(0, AT_ONCE_S_MAX if at_once else after_s_max), at_once))
    return kills


@dataclass
class Killing:
    """What the kills did: when each came, and the seconds until the system ran again, where somebody waited for it.

    `say` says how far the system's work is.
    """

    system: rayshot.System
    say: Callable[[], str]
    killed_at: list[float] = field(default_factory=list)
    back_s: list[float] = field(default_factory=list)
    _killed: dict[str, int] = field(default_factory=dict)
    """The processes that were killed since the system ran last."""

    def carry_out(self, kills: Sequence[Kill]) -> None:
        """Kill, and print a line for each kill. Behind this the system runs again. Raises TimeoutError if it hangs."""
        for number, kill in enumerate(kills):
            if not kill.at_once:
                self._await_back()
            time.sleep(kill.after_s)
            pids = [self._pid(name) for name in kill.victims]
            for name, pid in zip(kill.victims, pids, strict=True):
                os.kill(pid, signal.SIGKILL)
                self._killed[name] = pid
            self.killed_at.append(time.monotonic())
            when = f"{kill.after_s:.2f} s after {'the kill before' if kill.at_once else 'it ran'}"
            print(f"{number + 1:4d} of {len(kills)}: {' and '.join(kill.victims)}, {when}; {self.say()}", flush=True)
        self._await_back()

    def _pid(self, name: str) -> int:
        """The process of an actor or of the coordinator, but none that was killed: that may answer for a moment yet."""

        def look() -> int | None:
            pid = coordinator_pid(self.system) if name == COORDINATOR else living(self.system).get(name)
            return None if pid == self._killed.get(name) else pid

        return wait_for(look, name)

    def _await_back(self) -> None:
        if self._killed:
            wait_for(self._is_back, "the system")
            self.back_s.append(time.monotonic() - self.killed_at[-1])
            self._killed.clear()

    def _is_back(self) -> bool | None:
        if any(self._pid(name) == pid for name, pid in self._killed.items()):
            return None
        found = report(self.system)
        assert found["state"] != "stopped", f"the system stopped: {found['stop'].detail}"
        return found["state"] == "running" or None
