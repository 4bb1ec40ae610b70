"""The two worlds that a behaviour is tried in, and what came of it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

import rayshot
from rayshot.errors import RayshotError, SystemDown, UsageError
from tests.ports.behaviour import DIFFERS, WORKS, Behaviour

LIMIT_S = 120.0
"""A body that takes longer hangs."""
HANGS = "hangs"


class PlainPort:
    """Plain Ray."""

    world = "plain"
    actor = staticmethod(ray.remote)
    get_actor = staticmethod(ray.get_actor)
    kill = staticmethod(ray.kill)


class RayshotPort:
    """rayshot, in the system that runs."""

    world = "rayshot"
    actor = staticmethod(rayshot.actor)

    def __init__(self, system: rayshot.System) -> None:
        self.get_actor = system.get_actor

    @staticmethod
    def kill(handle: Any) -> None:
        """End an actor."""
        rayshot.kill(handle)


@dataclass(frozen=True)
class Outcome:
    """What a body returned or raised; `hangs` where it did neither."""

    value: Any = None
    error: BaseException | None = None
    hangs: bool = False

    def __str__(self) -> str:
        if self.hangs:
            return HANGS
        return repr(self.value) if self.error is None else f"raised {type(self.error).__name__}: {self.error}"

    def is_error(self, kind: str) -> bool:
        """Whether an error of this class was raised, here or in an actor."""
        return any(kind in {base.__name__ for base in type(error).__mro__} for error in chain(self.error))

    @property
    def leads_on(self) -> bool:
        """Whether it is an error of rayshot's own."""
        return any(isinstance(error, RayshotError) for error in chain(self.error))


def chain(error: BaseException | None) -> list[BaseException]:
    """An error, and those that Ray wrapped in it."""
    found = []
    while error is not None and error not in found:
        found.append(error)
        error = getattr(error, "cause", None) or error.__cause__
    return found


class Attempt:
    """A body on a thread of its own, which is left alone when it hangs."""

    def __init__(self, body: Callable[[Any], Any], port: Any) -> None:
        self._outcome = Outcome(hangs=True)
        self._thread = threading.Thread(target=self._run, args=(body, port), daemon=True)
        self._thread.start()

    def _run(self, body: Callable[[Any], Any], port: Any) -> None:
        try:
            self._outcome = Outcome(body(port))
        except BaseException as error:  # noqa: BLE001 - whatever comes is what is looked at
            self._outcome = Outcome(error=error.with_traceback(None))

    def outcome(self) -> Outcome:
        """What came of it."""
        self._thread.join(LIMIT_S)
        return self._outcome


class Worlds:
    """Runs behaviours in both worlds, in one cluster and one system, which is made anew only when one ended it."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._system: rayshot.System | None = None
        self._systems = 0

    def run(self, behaviour: Behaviour) -> tuple[Outcome, Outcome]:
        """What came of it as plain Ray, and as rayshot; both run side by side."""
        attempts = [Attempt(behaviour.body, port) for port in (PlainPort, RayshotPort(self._system_that_runs()))]
        plain, outcome = (one.outcome() for one in attempts)
        if outcome.hangs or behaviour.ends_system:
            self.close()
        else:
            self._end_actors()
        return plain, outcome

    def close(self) -> None:
        """Shut the system down."""
        if self._system is not None:
            self._system.shutdown()
            self._system = None

    def _system_that_runs(self) -> rayshot.System:
        if self._system is None:
            self._systems += 1
            self._system = rayshot.init(f"ports{self._systems}", storage=self._storage)
        return self._system

    def _end_actors(self) -> None:
        """The actors of a body that nobody needs any more."""
        assert self._system is not None
        try:
            for handle in self._system.actors().values():
                rayshot.kill(handle)
        except SystemDown:
            self.close()


def judge(behaviour: Behaviour, plain: Outcome, outcome: Outcome) -> str:
    """Why it is not as the behaviour's class says; nothing where it is."""
    if plain.hangs or plain.error is not None:
        return f"plain Ray: {plain}"
    if behaviour.kind in (WORKS, DIFFERS):
        expected = (plain.value, plain.value) if behaviour.kind == WORKS else behaviour.values
        if plain.value != expected[0]:
            return f"plain Ray gives {plain}, expected {expected[0]!r}"
        if outcome.hangs or outcome.error is not None or outcome.value != expected[1]:
            return f"rayshot: {outcome}; expected {expected[1]!r}"
        return ""
    if not outcome.is_error(behaviour.error):
        return f"rayshot: {outcome}; expected {behaviour.error}"
    missing = [words for words in behaviour.says if words not in str(outcome.error)]
    return f"the error does not say {missing}: {outcome}" if missing else ""


def seen(behaviour: Behaviour, plain: Outcome, outcome: Outcome) -> str:
    """What rayshot did with it, whatever its class: for a table."""
    if outcome.hangs:
        return HANGS
    if outcome.error is not None:
        return "error that leads on" if outcome.leads_on or is_usage(outcome) else "confusing error"
    if outcome.value == plain.value:
        return WORKS
    return DIFFERS if behaviour.kind == DIFFERS and outcome.value == behaviour.values[1] else "silently different"


def is_usage(outcome: Outcome) -> bool:
    """Whether the error names the porting table."""
    return isinstance(outcome.error, UsageError) or "rayshot help porting" in str(outcome.error)
