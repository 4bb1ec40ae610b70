"""Questions to the graph of channels: for each process, to whom its channels lead."""

from collections.abc import Iterable, Mapping


def reached_from(starts: Iterable[str], channels: Mapping[str, Iterable[str]]) -> set[str]:
    """All processes that markers from `starts` come to, over any number of channels, the starts included."""
    reached: set[str] = set()
    waiting = set(starts)
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= set(channels.get(name, ())) - reached
    return reached
