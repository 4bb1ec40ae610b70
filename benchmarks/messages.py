"""One-way messages between actors: how many a second, against plain Ray calls, one by one and batched by hand."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster, wait_for
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios

NUMBERS = "two numbers"
SIZES: dict[str, tuple[Any, ...]] = {
    NUMBERS: (1, 2),
    "none": (),
    "100 bytes": (bytes(100),),
    "10,000 bytes": (bytes(10_000),),
}
"""What a message carries, by name."""

RAY_PENDING_MAX = 1_000
BATCHES_PENDING_MAX = 3
"""A plain Ray sender waits when so many of its calls are pending: it has no bound of its own. Not in the ring: there
each would wait for a neighbour that waits itself."""
HAND_BATCHES = (100, 1_000)
INLINE_BYTES_MAX = 100_000
"""Messages in one call where they are batched by hand; fewer where Ray would not send them inline. Both numbers
are measured between two actors, the larger one among more."""
BATCHED_MIN = 5_000
"""So many over each channel at least, except as plain calls: until calls are under way, nothing can be batched."""
BYTES_MAX = 200 << 20
"""All messages of one measurement together hold no more."""


class Pattern(NamedTuple):
    """Who sends to whom: each sender an equal share to each of its receivers."""

    name: str
    channels: dict[int, tuple[int, ...]]


PATTERNS = (
    Pattern("1:1", {0: (1,)}),
    Pattern("1:8", {0: tuple(range(1, 9))}),
    Pattern("8:8", {sender: tuple(range(8, 16)) for sender in range(8)}),
    Pattern("ring of 16", {actor: ((actor + 1) % 16,) for actor in range(16)}),
)
TARGETS = {
    ("1:1", NUMBERS, "rayshot / ray"): Target(">=", 150.0),
    ("1:1", NUMBERS, "rayshot / ray, batches of 1,000"): Target(">=", 1.0),
    ("8:8", NUMBERS, "rayshot / ray"): Target(">=", 100.0),
}


class Station:
    """Sends and counts."""

    def __init__(self) -> None:
        self.expected = self.count = 0
        self.began_at = self.finished_at = 0.0

    def expect(self, total: int) -> None:
        """Begin to count."""
        self.expected = total
        self.count = 0
        self.finished_at = 0.0

    def take(self, *_payload: Any) -> None:
        """Process one message."""
        self.count += 1
        if self.count == self.expected:
            self.finished_at = time.monotonic()

    def take_all(self, batch: list[tuple[Any, ...]]) -> None:
        """Process a batch that its sender made by hand."""
        take = self.take
        for payload in batch:
            take(*payload)

    def send(self, receivers: list[rayshot.ActorHandle], count: int, payload: tuple[Any, ...]) -> None:
        """Send through rayshot."""
        self.began_at = time.monotonic()
        for _ in range(count):
            for receiver in receivers:
                receiver.take.tell(*payload)

    def send_by_ray(
        self, receivers: list[Any], count: int, payload: tuple[Any, ...], pending_max: float = RAY_PENDING_MAX
    ) -> None:
        """Send as plain Ray calls."""
        self.began_at = time.monotonic()
        pending: list[Any] = []
        for _ in range(count):
            pending += [receiver.take.remote(*payload) for receiver in receivers]
            if len(pending) >= pending_max:
                ray.get(pending)
                pending = []

    def send_in_batches(
        self,
        receivers: list[Any],
        count: int,
        payload: tuple[Any, ...],
        size: int,
        pending_max: float = BATCHES_PENDING_MAX,
    ) -> None:
        """Send lists of messages as plain Ray calls, as a careful user writes it."""
        self.began_at = time.monotonic()
        batches: list[list[tuple[Any, ...]]] = [[] for _ in receivers]
        pending: list[list[Any]] = [[] for _ in receivers]
        for _ in range(count):
            for index, batch in enumerate(batches):
                batch.append(payload)
                if len(batch) == size:
                    pending[index].append(receivers[index].take_all.remote(batch))
                    batches[index] = []
                    if len(pending[index]) > pending_max:
                        ray.get(pending[index].pop(0))
        for receiver, batch in zip(receivers, batches, strict=True):
            receiver.take_all.remote(batch)

    def began(self) -> float:
        """When sending began, by the machine's monotonic clock."""
        return self.began_at

    def finished(self) -> float:
        """When the last message was processed, by the machine's monotonic clock; 0 while it was not."""
        return self.finished_at


def run(*, short: bool) -> Report:
    """Measure in turn, pattern by pattern and size by size."""
    rounds, rounds_aimed, seconds = (2, 2, 0.02) if short else (2, 3, 0.3)
    rates: dict[tuple[str, str], dict[str, list[float]]] = {}
    with fresh_cluster() as folder, rayshot.init("messages", storage=folder, failure=ONE_LIFE):
        number = 2 if short else 16
        actors = [rayshot.actor(Station).options(name=f"station-{index}").remote() for index in range(number)]
        plain = [ray.remote(Station).remote() for _ in range(number)]
        ray.get([actor.finished.remote() for actor in actors + plain])
        for pattern in PATTERNS[:1] if short else PATTERNS:
            for size, payload in SIZES.items():
                ways = _ways(pattern, actors, plain, payload)
                counts = {way: _count_for(pattern, payload, way, measure, seconds) for way, measure in ways.items()}
                found = rates[pattern.name, size] = {way: [] for way in ways}
                aimed = any((pattern.name, size) == aim[:2] for aim in TARGETS)
                for _ in range(rounds_aimed if aimed else rounds):
                    for way, measure in ways.items():
                        found[way].append(measure(counts[way]))
    return Report(
        "messages",
        "How many one-way messages a second do actors send each other?",
        {"rounds": rounds, "seconds": seconds, "hand_batches": HAND_BATCHES},
        tuple(
            Series(f"{pattern}, {size}: {way}", "1/s", tuple(samples))
            for (pattern, size), found in rates.items()
            for way, samples in found.items()
        ),
        tuple(figure for (pattern, size), found in rates.items() for figure in _figures(pattern, size, found)),
    )


def _figures(pattern: str, size: str, found: dict[str, list[float]]) -> Iterable[Figure]:
    yield Figure.median_of(f"{pattern}, {size}: rayshot", found["rayshot"], "1/s")
    for way, samples in found.items():
        if way != "rayshot":
            ratio = f"rayshot / {way}"
            ratios = paired_ratios(found["rayshot"], samples)
            yield Figure.median_of(f"{pattern}, {size}: {ratio}", ratios, "x", TARGETS.get((pattern, size, ratio)))


def _ways(
    pattern: Pattern, actors: list[Any], plain: list[Any], payload: tuple[Any, ...]
) -> dict[str, Callable[[int], float]]:
    """Each has every sender of the pattern send so many messages over each channel; returns messages a second."""
    unbounded = (float("inf"),) if pattern.name.startswith("ring") else ()

    def through_rayshot(count: int) -> float:
        return messages_per_second(
            pattern, actors, count, lambda sender, peers: sender.send.tell(peers, count, payload)
        )

    def by_ray(count: int) -> float:
        arguments = (count, payload, *unbounded)
        return messages_per_second(
            pattern, plain, count, lambda sender, peers: sender.send_by_ray.remote(peers, *arguments)
        )

    def in_batches(count: int, size: int) -> float:
        arguments = (count, payload, size, *unbounded)
        return messages_per_second(
            pattern, plain, count, lambda sender, peers: sender.send_in_batches.remote(peers, *arguments)
        )

    batches = HAND_BATCHES if len(pattern.channels) == len(pattern.channels[0]) == 1 else HAND_BATCHES[-1:]
    sizes = dict.fromkeys(min(size, INLINE_BYTES_MAX // max(1, _bytes(payload))) for size in batches)
    by_hand = {f"ray, batches of {size:,}": partial(in_batches, size=size) for size in sizes}
    return {"rayshot": through_rayshot, "ray": by_ray, **by_hand}


def messages_per_second(
    pattern: Pattern, actors: list[Any], count: int, send: Callable[[Any, list[Any]], Any]
) -> float:
    """Have every sender of the pattern `send` so many messages to each of its receivers."""
    expected = Counter(receiver for receivers in pattern.channels.values() for receiver in receivers)
    ray.get([actors[receiver].expect.remote(count * senders) for receiver, senders in expected.items()])
    for sender, receivers in pattern.channels.items():
        send(actors[sender], [actors[receiver] for receiver in receivers])
    finished_at: float = max(_finished_at(actors[receiver]) for receiver in expected)
    began_at: float = min(ray.get([actors[sender].began.remote() for sender in pattern.channels]))
    return count * sum(expected.values()) / (finished_at - began_at)


def _finished_at(actor: Any) -> float:
    finished_at: float = wait_for(lambda: ray.get(actor.finished.remote()) or None, "the last message")
    return finished_at


def _count_for(
    pattern: Pattern, payload: tuple[Any, ...], way: str, measure: Callable[[int], float], seconds: float
) -> int:
    """So many messages over each channel take at least so long; found by trying, which warms up too."""
    channels = sum(map(len, pattern.channels.values()))
    count_max = max(20, BYTES_MAX // (channels * max(1, _bytes(payload))))
    count = min(count_max, 20 if way == "ray" else BATCHED_MIN)
    while True:
        fitting = int(measure(count) * seconds / channels)
        if fitting <= 2 * count or count == count_max:
            return min(max(count, fitting), count_max)
        count = min(fitting, 10 * count, count_max)


def _bytes(payload: tuple[Any, ...]) -> int:
    return sum(len(value) for value in payload if isinstance(value, bytes))
