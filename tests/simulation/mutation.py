"""What a mutant is: a wrong version of the machines that breaks one rule; the oracles must see it.

`changes` replace settings that a schedule drew, so that the broken rule is put to the test often.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import pytest

from rayshot.errors import InconsistentCut, ScheduleFailed
from rayshot.protocol.collector import Collector
from rayshot.protocol.driver import Driver
from rayshot.protocol.participant import Participant
from rayshot.protocol.recovery import Recovery
from rayshot.simulation.world.machines import Machines


@dataclass(frozen=True)
class Mutant:
    """`patches` are (owner, attribute, wrong value), for what is not a method of a machine."""

    name: str
    machines: Machines = field(default_factory=Machines)
    patches: tuple[tuple[Any, str, Any], ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    not_by: str | None = None

    @contextmanager
    def at_work(self) -> Iterator[Machines]:
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.enter_context(mock.patch.object(owner, name, value))
            yield self.machines


MUTANTS: list[Mutant] = []


Patch = tuple[Any, str, Any]


def mutant(name: str, *patches: Patch, not_by: str | None = None, **changes: Any) -> Callable[[type], type]:
    def register(machine: type) -> type:
        machines = Machines()
        for base in (Participant, Collector, Driver, Recovery):
            if issubclass(machine, base):
                machines = replace(machines, **{base.__name__.lower(): machine})
        MUTANTS.append(Mutant(name, machines, patches, changes, not_by))
        return machine

    return register


def patched(name: str, *patches: Patch, not_by: str | None = None, **changes: Any) -> None:
    MUTANTS.append(Mutant(name, Machines(), patches, changes, not_by))


@contextmanager
def noticed() -> Iterator[None]:
    """`explore` fails by an assertion, of its check or of the code: another error says that a mutant does not fit."""
    with pytest.raises(ScheduleFailed) as failed:
        yield
    cause = failed.value.__cause__
    assert isinstance(cause, (AssertionError, InconsistentCut)), f"it does not fit the code any more: {cause!r}"
