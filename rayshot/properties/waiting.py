"""Ready-made: who waits for whom, in cycles and in knots."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rayshot.format.inert import HandleRecord
from rayshot.properties.global_state import ActorState, GlobalState
from rayshot.properties.property import NO_THREADS, OUTSIDE, UNLESS_A_DRIVER_SPEAKS, Answer, Property
from rayshot.properties.replies import NOTHING, waits
from rayshot.store.relation import some_of

OfWaiting = str | Callable[[ActorState], Iterable[str] | None]


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """`edges` say by actor for whom it waits, where nothing that could end the wait is in flight.

    `unknown` are actors that wait, and nobody knows for whom: an older rayshot recorded it. `ended` are actors that
    will never answer.
    """

    edges: Mapping[str, frozenset[str]]
    unknown: frozenset[str]
    ended: frozenset[str] = frozenset()

    def cycles(self) -> list[list[str]]:
        """Groups of which each waits for another one in it: deadlock where each needs all that it waits for."""
        import networkx as nx  # noqa: PLC0415 - only who asks for it waits for its import

        graph = nx.DiGraph({name: sorted(others) for name, others in sorted(self.edges.items())})
        groups = map(sorted, nx.strongly_connected_components(graph))
        return sorted(group for group in groups if len(group) > 1 or graph.has_edge(group[0], group[0]))

    def knots(self) -> list[list[str]]:
        """Cycles whose actors wait for nobody outside the cycle: deadlock where any one of those is enough.

        A wait for an actor that has ended leads nowhere.
        """
        return [group for group in self.cycles() if all(self.edges[name] - self.ended <= {*group} for name in group)]


def wait_graph(state: GlobalState, waits_for: OfWaiting | None = None) -> WaitGraph:
    """Draw who waits for whom.

    Args:
        state: of which snapshot, `GlobalState(snapshot)`.
        waits_for: the attribute that names whom an actor waits for, by a name or a handle or several; or a function of
            an ActorState. None: replies that are awaited with `then`, and have neither request nor reply in flight. In
            that graph all ways lead to actors that have ended, and there are no cycles.

    A wait is left out where any message to the actor is in flight, as that may be what is waited for or end the wait,
    and where the actor has a timer set, as it may then do something by itself.
    """
    edges: dict[str, frozenset[str]] = {}
    unknown = set[str]()
    if waits_for is None:
        for wait in waits(state):
            if wait.callee is None:
                unknown.add(wait.caller)
            elif wait.where == NOTHING:
                edges[wait.caller] = edges.get(wait.caller, frozenset()) | {wait.callee}
        return WaitGraph(edges, frozenset(unknown), state.ended)
    woken = {channel.receiver for channel, entry in state.channels.items() if entry.count}
    for actor in state.born():
        others = frozenset(_names(waits_for(actor) if callable(waits_for) else actor.get(waits_for)))
        if others and not actor.timers and actor.name not in woken:
            edges[actor.name] = others
    return WaitGraph(edges, frozenset(), state.ended)


def deadlock(waits_for: OfWaiting, *, needs: Literal["all", "any"] = "all") -> Property:
    """Some actors wait for one another for ever: a cycle where each needs all, a knot where each needs any one.

    `then` blocks nobody, so what is asked of is what actors say of themselves: whom they wait for stands in an
    attribute. Stable if an actor that waits does nothing until it gets what it waits for. Replies that never come make
    no cycle, as whoever owes one has ended and waits for nobody: `lost_reply` finds these.

    Args:
        waits_for: the attribute, or a function of an ActorState, see `wait_graph`.
        needs: all of those that it waits for, as of locks, or any one, as of answers.
    """
    silent = "an actor that waits does nothing until it gets what it waits for"
    conditions = (silent, NO_THREADS, UNLESS_A_DRIVER_SPEAKS)
    return Property("deadlock", "stable", _Deadlock(waits_for, needs), conditions, closed=True)


@dataclass(frozen=True, slots=True)
class _Deadlock:
    waits_for: OfWaiting
    needs: str

    def __call__(self, state: GlobalState) -> Answer:
        graph = wait_graph(state, self.waits_for)
        found = graph.knots() if self.needs == "any" else graph.cycles()
        evidence: dict[str, Any] = {
            "groups": found,
            "waits": {name: sorted(others) for name, others in sorted(graph.edges.items())},
        }
        if found and state.left_out:
            return Answer.unknown(OUTSIDE, evidence)
        if found:
            return Answer.yes(f"they wait for one another: {some_of(found[0])}", evidence)
        return Answer.no("no group waits for itself", evidence)


def _names(value: Any) -> Iterable[str]:
    if isinstance(value, HandleRecord):
        return (value.name,)
    if isinstance(value, str):
        return (value,)
    if value is None:
        return ()
    return [name for one in value for name in _names(one)]
