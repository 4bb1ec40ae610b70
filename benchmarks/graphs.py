"""Graphs of channels of any size: for each process, to whom its channels lead."""

import random
from collections.abc import Callable, Mapping, Sequence

Graph = Mapping[str, Sequence[str]]
DEGREE = 8
_SEED = 1985


def names_of(count: int) -> list[str]:
    """Names of so many processes, in their order; all equally long, so that bytes tell of the protocol only."""
    return [f"p{index:05}" for index in range(count)]


def ring(count: int) -> Graph:
    """Each leads to the next."""
    names = names_of(count)
    return {name: [names[(index + 1) % count]] for index, name in enumerate(names)}


def star(count: int) -> Graph:
    """The first leads to all, all lead to the first."""
    hub, *others = names_of(count)
    return {hub: others, **{name: [hub] for name in others}}


def random_graph(count: int) -> Graph:
    """Each leads to DEGREE others, or to all if there are fewer: to the next, so that all are reached, and to any."""
    source, names = random.Random(_SEED), names_of(count)
    degree = min(DEGREE, count - 1)
    graph: dict[str, list[str]] = {}
    for index, name in enumerate(names):
        chosen = {names[(index + 1) % count]: None}
        while len(chosen) < degree:
            other = source.choice(names)
            if other != name:
                chosen[other] = None
        graph[name] = list(chosen)
    return graph


def clique(count: int) -> Graph:
    """Each leads to all others."""
    names = names_of(count)
    return {name: [other for other in names if other != name] for name in names}


GRAPHS: Mapping[str, Callable[[int], Graph]] = {
    "ring": ring,
    "star": star,
    "random graph": random_graph,
    "clique": clique,
}
