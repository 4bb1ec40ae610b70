"""How the protocol's own cost grows with processes and channels: counted in rounds of the real machines, not timed."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from benchmarks.graphs import GRAPHS, names_of
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.rounds import Cost, take_snapshot

SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000)
SIZES_SHORT = (10, 30, 100)
CLIQUE_MAX = 300
"""A clique of so many has 89,700 channels, more than any other graph here."""

BY_MARKERS, BY_COORDINATOR, BUSY = "one process begins", "the coordinator begins", "the coordinator begins, busy"
QUANTITIES: Mapping[str, str] = {
    "processes": "processes",
    "channels": "channels",
    "markers": "markers",
    "riding": "markers",
    "marker_bytes": "bytes",
    "coordinator_messages": "messages",
    "coordinator_bytes": "bytes",
    "rounds": "rounds",
    "seconds": "s",
}
"""The fields of Cost with their units."""

Costs = Mapping[tuple[str, str], Sequence[Cost]]
"""By graph and by how the snapshot begins, one for each size."""


def run(*, short: bool) -> Report:
    """Count for all graphs and sizes."""
    sizes = SIZES_SHORT if short else SIZES
    return report_of(count(sizes), sizes)


def count(sizes: Sequence[int]) -> Costs:
    """Take one snapshot of each kind of each graph in each size."""
    costs: dict[tuple[str, str], list[Cost]] = {}
    for name, make in GRAPHS.items():
        for size in sizes:
            if name == "clique" and size > CLIQUE_MAX:
                continue
            graph = make(size)
            costs.setdefault((name, BY_MARKERS), []).append(take_snapshot(graph, initiator=names_of(1)[0]))
            costs.setdefault((name, BY_COORDINATOR), []).append(take_snapshot(graph))
            costs.setdefault((name, BUSY), []).append(take_snapshot(graph, busy=True))
    return costs


def report_of(costs: Costs, sizes: Sequence[int]) -> Report:
    """What was counted, and the figures that say whether it is linear."""
    alone = [cost for (_, begins), found in costs.items() if begins == BY_MARKERS for cost in found]
    told = [cost for (_, begins), found in costs.items() if begins == BY_COORDINATOR for cost in found]
    ridden = [cost for (_, begins), found in costs.items() if begins == BUSY for cost in found]
    slopes = [_slope(one, other) for found in costs.values() for one, other in pairwise(found)]
    return Report(
        "growth",
        "How does the cost of a snapshot grow with the system?",
        {"sizes": list(sizes), "clique_max": CLIQUE_MAX},
        tuple(
            Series(f"{graph}, {begins}: {quantity}", unit, tuple(getattr(cost, quantity) for cost in found))
            for (graph, begins), found in costs.items()
            for quantity, unit in QUANTITIES.items()
        ),
        (
            _most(f"{BY_MARKERS}: markers per channel", [c.markers / c.channels for c in alone], 1),
            _most(f"{BUSY}: markers per channel", [c.riding / c.channels for c in ridden], 1),
            _most(f"{BY_COORDINATOR}: markers", [c.markers + c.riding for c in told], 0),
            _most(
                f"{BY_COORDINATOR}: its messages per process", [c.coordinator_messages / c.processes for c in told], 3
            ),
            _most(f"{BY_COORDINATOR}: rounds", [c.rounds for c in told], 2),
            _most("bytes: steepest slope over processes and channels", slopes, 1.05),
        ),
    )


def total_bytes(cost: Cost) -> int:
    """All bytes that the snapshot added."""
    return cost.marker_bytes + cost.coordinator_bytes


def _most(name: str, values: Sequence[float], bound: float) -> Figure:
    return Figure(name, max(values), "", target=Target("<=", bound))


def _slope(one: Cost, other: Cost) -> float:
    """The exponent with which bytes grow from one size to the next; linear is 1."""
    size, next_size = one.processes + one.channels, other.processes + other.channels
    return math.log(total_bytes(other) / total_bytes(one)) / math.log(next_size / size)


def table_of(costs: Costs) -> list[str]:
    """The lines of the table in docs/benchmarks/growth.md, a row for each graph and size."""
    columns = (
        *("graph", "processes", "channels"),
        *("one process begins: markers", "messages", "bytes", "rounds"),
        *("the coordinator begins: messages", "bytes", "rounds"),
        *("busy: markers that ride", "bytes"),
    )
    lines = [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (len(columns) - 1)}"]
    for name in GRAPHS:
        for alone, told, busy in zip(*(costs[name, b] for b in (BY_MARKERS, BY_COORDINATOR, BUSY)), strict=True):
            numbers = (
                *(alone.processes, alone.channels),
                *(alone.markers, alone.coordinator_messages, total_bytes(alone), alone.rounds),
                *(told.coordinator_messages, total_bytes(told), told.rounds),
                *(busy.riding, total_bytes(busy)),
            )
            lines.append(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return lines
