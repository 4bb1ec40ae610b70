"""Graphs of processes: who knows whom at the start."""

from collections.abc import Callable, Mapping, Sequence

from rayshot.simulation.choices import Choices

Contacts = dict[str, tuple[str, ...]]


def ring(names: Sequence[str]) -> Contacts:
    """Each knows the next."""
    return {name: (names[(index + 1) % len(names)],) for index, name in enumerate(names)}


def star(names: Sequence[str]) -> Contacts:
    """The first knows all, all know the first."""
    return {name: tuple(names[1:]) if name == names[0] else (names[0],) for name in names}


def dag(names: Sequence[str]) -> Contacts:
    """Each knows all behind it: one source, one sink, no way back."""
    return {name: tuple(names[index + 1 :]) for index, name in enumerate(names)}


def two_sources(names: Sequence[str]) -> Contacts:
    """Two that nobody knows, all others in a line behind them."""
    line = dag(names[1:])
    return {names[0]: tuple(names[2:3]), **{name: contacts[:1] for name, contacts in line.items()}}


def disconnected(names: Sequence[str]) -> Contacts:
    """Pairs that know nobody else."""
    return {
        name: tuple(names[other] for other in (index ^ 1,) if other < len(names)) for index, name in enumerate(names)
    }


def islands(names: Sequence[str]) -> Contacts:
    """Each knows nobody: drivers are the only way from one to another."""
    return dict.fromkeys(names, ())


def oneself(names: Sequence[str]) -> Contacts:
    """Each knows itself only."""
    return {name: (name,) for name in names}


def clique(names: Sequence[str]) -> Contacts:
    """All know all, themselves included."""
    return {name: tuple(names) for name in names}


TOPOLOGIES: Mapping[str, Callable[[Sequence[str]], Contacts]] = {
    "ring": ring,
    "star": star,
    "dag": dag,
    "two sources": two_sources,
    "disconnected": disconnected,
    "islands": islands,
    "oneself": oneself,
    "clique": clique,
}


def random_graph(names: Sequence[str], choices: Choices) -> Contacts:
    """Each ordered pair is there with probability one half."""
    return {name: tuple(other for other in names if choices.choose(2)) for name in names}
