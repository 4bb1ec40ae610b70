"""Predicates, and what their authors declare about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, overload

from rayshot.errors import ConfigError, NotStable
from rayshot.properties.global_state import GlobalState

Kind = Literal["stable", "invariant", "possibly"]
UNLESS_A_DRIVER_SPEAKS = "no driver speaks from before the snapshot began"
NO_THREADS = "no actor has a thread that acts by itself"
OUTSIDE = "what this program told before is not all inside the snapshot"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a predicate found: whether it holds, None if the snapshot does not tell, and why in a sentence.

    `evidence` are values that JSON can hold, by name.
    """

    holds: bool | None
    why: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def yes(cls, why: str, evidence: Mapping[str, Any] = MappingProxyType({})) -> "Answer":
        """The predicate holds."""
        return cls(holds=True, why=why, evidence=evidence)

    @classmethod
    def no(cls, why: str, evidence: Mapping[str, Any] = MappingProxyType({})) -> "Answer":
        """The predicate does not hold."""
        return cls(holds=False, why=why, evidence=evidence)

    @classmethod
    def unknown(cls, why: str, evidence: Mapping[str, Any] = MappingProxyType({})) -> "Answer":
        """The snapshot does not tell."""
        return cls(holds=None, why=why, evidence=evidence)


Predicate = Callable[[GlobalState], bool | Answer | None]


@dataclass(frozen=True, slots=True)
class Property:
    """A predicate, with what is declared about it.

    `kind`: "stable" stays true once it is true; "invariant" is true in every state that can be reached, so a no proves
    a bug; "possibly" is neither. `conditions` say when the declaration is right. `closed`: it is right only as long as
    no driver speaks. `still`: if it holds, nothing more can happen, so anything that did happen proves that somebody
    spoke from outside.
    """

    name: str
    kind: Kind
    predicate: Predicate
    conditions: tuple[str, ...] = ()
    closed: bool = False
    still: bool = False

    def __call__(self, state: GlobalState) -> bool | Answer | None:
        """What the predicate says about a state."""
        return self.predicate(state)


@overload
def stable(predicate: Predicate, /) -> Property: ...


@overload
def stable(
    *, name: str | None = None, conditions: tuple[str, ...] = (), unless_a_driver_speaks: bool = False
) -> Callable[[Predicate], Property]: ...


def stable(
    predicate: Predicate | None = None,
    /,
    *,
    name: str | None = None,
    conditions: tuple[str, ...] = (),
    unless_a_driver_speaks: bool = False,
) -> Property | Callable[[Predicate], Property]:
    """Declare a predicate stable: within one life, once it is true it stays true (Chandy and Lamport 1985, section 5).

    Use it as a decorator, with or without arguments. Nobody can prove for you that a predicate is stable; over a
    history `detect` shows where it was not.

    Args:
        predicate: takes a GlobalState and returns True, False, None if it cannot tell, or an Answer.
        name: its name in answers; the function's own name if left out.
        conditions: sentences that say when it is stable.
        unless_a_driver_speaks: it is stable only as long as no driver sends anything.
    """
    if predicate is None:
        return lambda given: _declare(given, "stable", name, conditions, closed=unless_a_driver_speaks)
    return _declare(predicate, "stable", name, conditions, closed=unless_a_driver_speaks)


def invariant(predicate: Predicate, /, *, name: str | None = None, conditions: tuple[str, ...] = ()) -> Property:
    """Declare that a predicate is true in every state that the system can reach; then a no proves a bug.

    S* can be reached, even if it never was a state of the run. Arguments as for `stable`.
    """
    return _declare(predicate, "invariant", name, conditions)


def possibly(predicate: Predicate, /, *, name: str | None = None) -> Property:
    """Declare a predicate that is not stable.

    If it holds in S*, a run that no actor could tell from the real one passed a state in which it holds. If it does
    not, nothing follows. `detect` refuses it; `judge` asks it about one snapshot.
    """
    return _declare(predicate, "possibly", name, ())


def require_stable(asked: object) -> Property:
    """Raise NotStable for a predicate that is not declared to stay true."""
    if not isinstance(asked, Property):
        shown = getattr(asked, "__name__", repr(asked)[:100])
        raise NotStable(
            f"{shown} is not declared stable, and a snapshot says nothing about later: put @rayshot.properties.stable "
            "before it if it stays true once it is, or ask judge(possibly(...), snapshot)",
            predicate=shown,
        )
    if asked.kind == "possibly":
        raise NotStable(
            f"possibly {asked.name} says something of one snapshot and nothing of what came later: ask "
            "judge(...) for it",
            predicate=asked.name,
        )
    return asked


def _declare(
    predicate: Predicate, kind: Kind, name: str | None, conditions: tuple[str, ...], *, closed: bool = False
) -> Property:
    if not callable(predicate) or isinstance(predicate, Property):
        raise ConfigError(f"{predicate!r:.100} is not a predicate: give a function of a GlobalState")
    shown = name or str(getattr(predicate, "__name__", type(predicate).__name__))
    if closed:
        conditions = (*conditions, UNLESS_A_DRIVER_SPEAKS)
    return Property(shown, kind, predicate, tuple(conditions), closed)
