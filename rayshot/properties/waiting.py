"""Ready-made: which actors wait for each other, in cycles and in knots."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rayshot.inert.inert_object import HandleRecord
from rayshot.properties.global_state import ActorState, GlobalState
from rayshot.properties.property import NO_THREADS, OUTSIDE, UNLESS_A_DRIVER_SPEAKS, Answer, Property
from rayshot.properties.replies import NOTHING, waits
from rayshot.snapshots.relation import some_of

OfWaiting = str | Callable[[ActorState], Iterable[str] | None]


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """`edges` give by actor the actors that it waits for, if nothing in flight could end the wait.

    `unknown` are actors that wait, nobody knows for whom: an older rayshot recorded the call. `ended` are actors that
    will never answer.
    """

    edges: Mapping[str, frozenset[str]]
    unknown: frozenset[str]
    ended: frozenset[str] = frozenset()

    def cycles(self) -> list[list[str]]:
        """Groups in which each actor waits for another of the group: a deadlock if each needs all it waits for."""
        import networkx as nx  # noqa: PLC0415 - only callers of this method wait for the import

        graph = nx.DiGraph({name: sorted(others) for name, others in sorted(self.edges.items())})
        groups = map(sorted, nx.strongly_connected_components(graph))
        return sorted(group for group in groups if len(group) > 1 or graph.has_edge(group[0], group[0]))

    def knots(self) -> list[list[str]]:
        """Cycles whose actors wait for nobody outside the cycle: a deadlock if any one of those would be enough.

        A wait for an actor that has ended leads nowhere.
        """
        return [group for group in self.cycles() if all(self.edges[name] - self.ended <= {*group} for name in group)]


def wait_graph(state: GlobalState, waits_for: OfWaiting | None = None) -> WaitGraph:
    """Find out which actors wait for which.

    Args:
        state: the state of a snapshot, `GlobalState(snapshot)`.
        waits_for: the attribute that names the actors that an actor waits for, by a name or a handle or several; or a
            function of an ActorState. None: replies that are awaited with `then`, with neither request nor reply in
            flight. In that graph all ways lead to actors that have ended, and there are no cycles.

    A wait is left out if any message to the actor is in flight, as it may be what the actor waits for, or end the wait;
    and if the actor has a timer set, as it may then do something by itself.
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


class WaitingActor(Protocol):
    """What a handler of an actor waits for: the part of `ActorStatus` that is needed here."""

    @property
    def waits_for(self) -> Iterable[str] | None:
        """The actors for whose answers it waits; None if the actor does not answer."""


class LivingSystem(Protocol):
    """The part of `SystemStatus` that is needed here."""

    @property
    def actors(self) -> Mapping[str, WaitingActor]:
        """All actors by name."""


def waiting_handlers(status: LivingSystem) -> WaitGraph:
    """Find out whose handlers wait for which actors at this moment: `waiting_handlers(system.status())`.

    A snapshot holds no handler that waits, so this looks at the living system. `cycles()` are handlers that wait for
    each other: for ever, unless one of them has a time-out, or any one of several answers is enough for it.
    """
    edges = {name: frozenset(actor.waits_for) for name, actor in status.actors.items() if actor.waits_for}
    return WaitGraph(edges, frozenset())


def deadlock(waits_for: OfWaiting, *, needs: Literal["all", "any"] = "all") -> Property:
    """Some actors wait for each other for ever: a cycle if each needs all, a knot if each needs any one.

    `then` blocks no actor. So this looks at what actors say about themselves: an attribute names the actors that they
    wait for. Stable if an actor that waits does nothing until it gets what it waits for. Replies that never come make
    no cycle, as an actor that owes one has ended and waits for nobody: `lost_reply` finds these.

    Args:
        waits_for: the attribute, or a function of an ActorState, see `wait_graph`.
        needs: "all" of those that it waits for, as for locks, or "any" one, as for answers.
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
