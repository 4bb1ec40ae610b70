"""Ready-made: who waits for whom, in cycles and in knots."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rayshot.format.inert import HandleRecord
from rayshot.properties.global_state import ActorState, GlobalState
from rayshot.properties.property import UNLESS_A_DRIVER_SPEAKS, Answer, Property
from rayshot.properties.replies import NOTHING, waits
from rayshot.store.relation import some_of

OfWaiting = str | Callable[[ActorState], Iterable[str] | None]


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """By actor, for whom it waits, as long as nothing that could end the wait is in flight.

    `unknown` are actors that wait, and nobody knows for whom: an older rayshot recorded it.
    """

    edges: Mapping[str, frozenset[str]]
    unknown: frozenset[str]

    def cycles(self) -> list[list[str]]:
        """Groups of which each waits for another one in it: deadlock where each needs all that it waits for."""
        return [
            group for group in _components(self.edges) if len(group) > 1 or group[0] in self.edges.get(group[0], ())
        ]

    def knots(self) -> list[list[str]]:
        """Cycles out of which no wait leads: deadlock where each needs any one of those that it waits for."""
        return [group for group in self.cycles() if all(self.edges[name] <= set(group) for name in group)]


def wait_graph(state: GlobalState, waits_for: OfWaiting | None = None) -> WaitGraph:
    """Draw who waits for whom.

    Args:
        state: of which snapshot.
        waits_for: the attribute that names whom an actor waits for, by a name or a handle or several; or a function of
            an ActorState. None: replies that are awaited with `then`, and have neither request nor reply in flight.

    A wait is left out where a message from the other is in flight, as that may be what is waited for, and where the
    actor has a timer set, or a message of its own or of a driver in flight, as it may then do something by itself.
    """
    edges: dict[str, frozenset[str]] = {}
    unknown = set[str]()
    if waits_for is None:
        for wait in waits(state):
            if wait.callee is None:
                unknown.add(wait.caller)
            elif wait.where == NOTHING:
                edges[wait.caller] = edges.get(wait.caller, frozenset()) | {wait.callee}
        return WaitGraph(edges, frozenset(unknown))
    moving = {channel for channel, entry in state.channels.items() if entry.count}
    for actor in state.born():
        others = frozenset(_names(waits_for(actor) if callable(waits_for) else actor.get(waits_for)))
        wakes = actor.timers or any(one.receiver == actor.name and one.sender not in state.actors for one in moving)
        if others and not wakes and not any((other, actor.name) in moving for other in {*others, actor.name}):
            edges[actor.name] = others
    return WaitGraph(edges, frozenset())


def deadlock(waits_for: OfWaiting | None = None, *, needs: Literal["all", "any"] = "all") -> Property:
    """Some actors wait for one another for ever: a cycle where each needs all, a knot where each needs any one.

    `then` blocks nobody, so what is asked of are replies that are lost, or what actors say of themselves: whom they
    wait for stands in an attribute. Stable if an actor that waits answers nobody until it got what it waits for, and
    is woken by nothing else. A snapshot of an older rayshot, in which callees are missing, does not tell.

    Args:
        waits_for: see `wait_graph`.
        needs: all of those that it waits for, as of locks, or any one, as of answers.
    """
    conditions = ("who waits answers nobody until it gets what it waits for", UNLESS_A_DRIVER_SPEAKS)
    return Property("deadlock", "stable", _Deadlock(waits_for, needs), conditions, closed=True)


@dataclass(frozen=True, slots=True)
class _Deadlock:
    waits_for: OfWaiting | None
    needs: str

    def __call__(self, state: GlobalState) -> Answer:
        graph = wait_graph(state, self.waits_for)
        found = graph.knots() if self.needs == "any" else graph.cycles()
        evidence: dict[str, Any] = {
            "groups": found,
            "waits": {name: sorted(others) for name, others in sorted(graph.edges.items())},
            "unknown": sorted(graph.unknown),
        }
        if found and not (self.needs == "any" and any(graph.unknown & set(group) for group in found)):
            return Answer.yes(f"they wait for one another: {some_of(found[0])}", evidence)
        if graph.unknown:
            return Answer.unknown(f"recorded without the name of whom they call: {some_of(graph.unknown)}", evidence)
        return Answer.no("no group waits for itself", evidence)


def _names(value: Any) -> Iterable[str]:
    if isinstance(value, HandleRecord):
        return (value.name,)
    if isinstance(value, str):
        return (value,)
    if value is None:
        return ()
    return [name for one in value for name in _names(one)]


def _components(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components, each sorted (Tarjan 1972, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack = set[str]()
    found: list[list[str]] = []
    for root in edges:
        work = [] if root in index else [(root, iter(sorted(edges[root])))]
        while work:
            name, others = work[-1]
            if name not in index:
                index[name] = low[name] = len(index)
                stack.append(name)
                on_stack.add(name)
            for other in others:
                if other not in index:
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on_stack:
                    low[name] = min(low[name], low[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    at = stack.index(name)
                    found.append(sorted(stack[at:]))
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
    return found
