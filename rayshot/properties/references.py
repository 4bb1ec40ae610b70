"""Ready-made: actors that nobody can reach any more."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rayshot.inert.inert_object import HandleRecord, Inert
from rayshot.properties.global_state import GlobalState
from rayshot.properties.property import NO_THREADS, OUTSIDE, UNLESS_A_DRIVER_SPEAKS, Answer, Property


def unreferenced(actor: str, *, roots: Iterable[str]) -> Property:
    """No actor that can still do something has a handle of `actor`, and `actor` can do nothing by itself.

    Stable if nobody outside has a handle and nobody asks for the actor by its name. Any program may call
    `get_actor(name)`, so an actor is never garbage for certain: give actors that are looked up by name as roots. An
    actor that has a timer, a message on its way to it or a reply to come counts as a root, because it may still give
    its own handle away.

    Args:
        actor: the actor's name.
        roots: actors that programs outside know, or look up.
    """
    known = "no program outside, except the roots, holds its handle or looks it up"
    conditions = (known, NO_THREADS, UNLESS_A_DRIVER_SPEAKS)
    return Property(
        f"{actor} is unreferenced", "stable", _Unreferenced(actor, frozenset(roots)), conditions, closed=True
    )


@dataclass(frozen=True, slots=True)
class _Unreferenced:
    actor: str
    roots: frozenset[str]

    def __call__(self, state: GlobalState) -> Answer:
        if self.actor in state.ended:
            return Answer.yes(f"{self.actor} has ended")
        if self.actor not in state.actors:
            return Answer.no(f"{self.actor} is not born yet")
        reached = _reached(state, self.roots)
        lonely = sorted(state.actors.keys() - reached)
        holds = self.actor not in reached
        why = f"{self.actor} is {'reached by nobody' if holds else 'a root, active, or reached from one'}"
        if holds and state.left_out:
            return Answer.unknown(OUTSIDE, {"unreferenced": lonely})
        return Answer(holds, why, {"unreferenced": lonely})


def _reached(state: GlobalState, roots: frozenset[str]) -> set[str]:
    """Roots, actors that may do something by themselves, and all actors that can be reached from these."""
    known: dict[str, set[str]] = {}
    start = {name for name in state.actors if name in roots or state.actors[name].status != "born"}
    for actor in state.born():
        known[actor.name] = set(_handles([actor.state, [call.context for call in actor.calls]]))
        if actor.timers or actor.calls:
            start.add(actor.name)
            known[actor.name] |= set(_handles([timer.args for timer in actor.timers]))
    for message in state.messages():
        start.add(message.receiver)
        given = (
            {*_handles([message.args, message.kwargs]), message.sender}
            if message.kind == "call"
            else set(_handles([message.args, message.kwargs]))
        )
        known.setdefault(message.receiver, set()).update(given)
    reached, waiting = set[str](), list(start)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(known.get(name, ()))
    return reached


def _handles(value: Any) -> Iterator[str]:
    """The names of all handles in an inert value, however deep."""
    seen, waiting = dict[int, Any](), [value]  # seen objects are kept, so that no new object gets their ids
    while waiting:
        one = waiting.pop()
        if isinstance(one, HandleRecord):
            yield one.name
        elif id(one) not in seen and (parts := _parts(one)) is not None:
            seen[id(one)] = one
            waiting.extend(parts)


def _parts(value: Any) -> Iterable[Any] | None:
    if isinstance(value, Inert):
        return (value.args, value.kwargs, value.state, value.items, value.entries, value.cls)
    if isinstance(value, Mapping):
        return (*value, *value.values())
    if isinstance(value, str | bytes | bytearray | range | array):
        return None
    if hasattr(value, "dtype"):
        return (value.tolist(),) if value.dtype.hasobject else None
    return value if isinstance(value, Iterable) else None
