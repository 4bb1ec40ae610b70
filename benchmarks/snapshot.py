"""What snapshots of a busy system cost: how long they take, and how much throughput is lost to one a second."""

import time
from typing import Any

import ray

import rayshot
from benchmarks.cluster import fresh_cluster, settle
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios

ACTORS = 16
FAN_OUT = 4
TOKENS_PER_CHANNEL = 100
"""Tokens wander for ever and are never made or lost: this bounds mailboxes and keeps every channel busy."""
TOKENS = ACTORS * FAN_OUT * TOKENS_PER_CHANNEL
RECORDED_TARGET = Target("<=", 150.0)
LOSS_TARGET = Target("<=", 5.0)


class Node:
    """Passes each token that arrives on to the next of its neighbours."""

    def __init__(self) -> None:
        self.neighbours: list[rayshot.ActorHandle] = []
        self.count = 0

    def meet(self, neighbours: list[rayshot.ActorHandle], tokens: int) -> None:
        """Get to know the neighbours, and send each so many tokens."""
        self.neighbours = neighbours
        for token in range(tokens * len(neighbours)):
            neighbours[token % len(neighbours)].take.tell(token)

    def take(self, token: int) -> None:
        """Process one message."""
        self.count += 1
        self.neighbours[self.count % FAN_OUT].take.tell(token)

    def read(self) -> tuple[float, int]:
        """Now by this actor's clock, and the messages processed until now."""
        return time.monotonic(), self.count


def run(*, short: bool) -> Report:
    """Take single snapshots, then compare windows without and with one a second."""
    snapshots, windows, window_s, interval_s = (3, 2, 0.5, 0.2) if short else (30, 12, 5.0, 1.0)
    rates: dict[str, list[float]] = {"without": [], "with": []}
    with fresh_cluster() as folder, rayshot.init("snapshot", storage=folder) as system:
        nodes = _ring(rayshot.actor(Node))
        time.sleep(0.2 if short else 3.0)
        recorded_s, durable_s, in_flight, busy = _single_snapshots(system, snapshots)
        before = len(system.snapshots())
        for _ in range(windows):
            for name, interval in (("without", None), ("with", interval_s)):
                system.configure(rayshot.SnapshotConfig(interval_s=interval))
                rates[name].append(_messages_per_second(nodes, window_s))
            settle(system)
        periodic = [snapshot.stats["recorded_s"] for snapshot in system.snapshots()[before:]]
    losses = [100 * (1 - ratio) for ratio in paired_ratios(rates["with"], rates["without"])]
    return Report(
        "snapshot",
        f"What does a snapshot of {ACTORS} actors with {ACTORS * FAN_OUT} busy channels cost?",
        {
            "snapshots": snapshots,
            "windows": windows,
            "window_s": window_s,
            "interval_s": interval_s,
            "tokens": TOKENS,
        },
        (
            Series("recorded", "ms", tuple(1e3 * s for s in recorded_s)),
            Series("durable", "ms", tuple(1e3 * s for s in durable_s)),
            Series("recorded, periodic", "ms", tuple(1e3 * s for s in periodic)),
            Series("in flight", "messages", tuple(in_flight)),
            Series("busy channels", "channels", tuple(busy)),
            *(Series(f"{name} snapshots", "1/s", tuple(samples)) for name, samples in rates.items()),
        ),
        (
            Figure.median_of("recorded p50", [1e3 * s for s in recorded_s], "ms", RECORDED_TARGET),
            Figure.median_of("recorded p50, periodic", [1e3 * s for s in periodic], "ms", RECORDED_TARGET),
            Figure.median_of("durable p50", [1e3 * s for s in durable_s], "ms"),
            Figure.median_of("without snapshots", rates["without"], "1/s"),
            Figure.median_of("with snapshots", rates["with"], "1/s"),
            Figure.median_of("throughput lost", losses, "%", LOSS_TARGET),
        ),
    )


def _ring(actor_class: Any) -> list[Any]:
    nodes = [actor_class.options(name=f"node-{index}").remote() for index in range(ACTORS)]
    ray.get([node.read.remote() for node in nodes])
    for index, node in enumerate(nodes):
        neighbours = [nodes[(index + step) % ACTORS] for step in (1, 3, 7, 12)]
        node.meet.tell(neighbours, TOKENS_PER_CHANNEL)
    return nodes


def _single_snapshots(system: rayshot.System, count: int) -> tuple[list[float], list[float], list[float], list[float]]:
    recorded_s, durable_s, in_flight, busy = [], [], [], []
    for _ in range(count):
        asked_at = time.perf_counter()
        snapshot = system.snapshot()
        durable_s.append(time.perf_counter() - asked_at)
        recorded_s.append(float(snapshot.stats["recorded_s"]))
        in_flight.append(float(snapshot.stats["in_flight"]))
        assert in_flight[-1] == TOKENS, f"{snapshot.id} holds {in_flight[-1]:g} of {TOKENS} tokens"
        busy.append(float(sum(channel.sent > channel.received for channel in snapshot.channels.values())))
        time.sleep(0.2)
    return recorded_s, durable_s, in_flight, busy


def _messages_per_second(nodes: list[Any], window_s: float) -> float:
    """Each actor reads its own clock, so it does not matter when it is asked."""
    began = ray.get([node.read.remote() for node in nodes])
    time.sleep(window_s)
    ended = ray.get([node.read.remote() for node in nodes])
    return float(
        sum((after - before) / (end - begin) for (begin, before), (end, after) in zip(began, ended, strict=True))
    )
