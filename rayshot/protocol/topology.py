"""Questions about the graph of channels, which gives for each process the receivers of its channels."""

from collections.abc import Iterable, Mapping

from rayshot.protocol.identity import Channel


def reached_from(starts: Iterable[str], channels: Mapping[str, Iterable[str]]) -> set[str]:
    """All processes that markers from `starts` reach, over any number of channels; includes the starts."""
    reached: set[str] = set()
    waiting = set(starts)
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= set(channels.get(name, ())) - reached
    return reached


def back_edges(channels: Mapping[str, Iterable[str]]) -> set[Channel]:
    """The channels that lead back, found by depth-first search in the order of names; without them there is no cycle.

    A channel leads back if its receiver is still being visited when the search follows it, as in section 4.3 of Carbone
    et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows" (2015). A process's channel to itself always
    leads back. The search starts with processes to which no channel leads. So in a dataflow with sources the channels
    that lead back are the feedback channels.
    """
    graph = {name: sorted(receivers) for name, receivers in sorted(channels.items())}
    reached = {receiver for receivers in graph.values() for receiver in receivers}
    found: set[Channel] = set()
    visited: set[str] = set()
    for start in sorted(graph, key=lambda name: (name in reached, name)):
        if start in visited:
            continue
        visited.add(start)
        path = {start: iter(graph[start])}
        while path:
            name = next(reversed(path))
            receiver = next(path[name], None)
            if receiver is None:
                del path[name]
            elif receiver in path:
                found.add(Channel(name, receiver))
            elif receiver not in visited:
                visited.add(receiver)
                path[receiver] = iter(graph.get(receiver, ()))
    return found


def forward_inputs(channels: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """For each process, the senders of the channels to it that do not lead back."""
    back = back_edges(channels)
    inputs: dict[str, set[str]] = {name: set() for name in channels}
    for sender, receivers in channels.items():
        for receiver in receivers:
            if Channel(sender, receiver) not in back and receiver in inputs:
                inputs[receiver].add(sender)
    return {name: frozenset(senders) for name, senders in inputs.items()}
