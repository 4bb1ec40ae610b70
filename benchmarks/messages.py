"""One-way messages between two actors: how many a second, against plain Ray actors doing the same."""

import time
from collections.abc import Callable
from typing import Any

import ray

import rayshot
from benchmarks.cluster import fresh_cluster, wait_for
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios

TARGET = Target(">=", 50.0)
RAY_PENDING_MAX = 1_000
"""A plain Ray sender waits when so many of its calls are pending: it has no bound of its own."""


class Receiver:
    """Counts what arrives, and says when the last of `total` was processed."""

    def expect(self, total: int) -> None:
        """Begin to count."""
        self.total = total
        self.count = self.last = 0
        self.finished_at: float | None = None

    def take(self, one: int, number: int) -> None:
        """Process one message; they come in order."""
        self.count += one
        self.last = number
        if self.count == self.total:
            self.finished_at = time.monotonic()

    def finished(self) -> float | None:
        """When the last message was processed, by the machine's monotonic clock; None while it was not."""
        assert self.finished_at is None or self.last == self.total - 1, "a message came out of order"
        return self.finished_at


class Sender:
    """Sends `total` messages from one handler; says when it began."""

    def send(self, receiver: rayshot.ActorHandle, total: int) -> None:
        """Send through rayshot."""
        self.began_at = time.monotonic()
        for number in range(total):
            receiver.take.tell(1, number)

    def send_by_ray(self, receiver: Any, total: int) -> None:
        """Send as plain Ray calls; each call's result is nothing, the last one is awaited."""
        self.began_at = time.monotonic()
        for number in range(total):
            ref = receiver.take.remote(1, number)
            if number % RAY_PENDING_MAX == RAY_PENDING_MAX - 1:
                ray.get(ref)
        ray.get(ref)

    def began(self) -> float:
        """When sending began, by the machine's monotonic clock."""
        return self.began_at


def run(*, short: bool) -> Report:
    """Measure in turn."""
    rounds, rayshot_total, ray_total = (2, 5_000, 200) if short else (10, 400_000, 8_000)
    rates: dict[str, list[float]] = {"rayshot": [], "ray": []}
    with fresh_cluster() as folder, rayshot.init("messages", storage=folder):
        ours = [rayshot.actor(kind).options(name=kind.__name__).remote() for kind in (Sender, Receiver)]
        plain = [ray.remote(kind).remote() for kind in (Sender, Receiver)]
        ways = {
            "rayshot": (*ours, ours[0].send.tell, rayshot_total),
            "ray": (*plain, plain[0].send_by_ray.remote, ray_total),
        }
        for sender, receiver, send, total in ways.values():  # once to warm up
            _messages_per_second(sender, receiver, send, max(100, total // 20))
        for _ in range(rounds):
            for name, (sender, receiver, send, total) in ways.items():
                rates[name].append(_messages_per_second(sender, receiver, send, total))
    ratios = paired_ratios(rates["rayshot"], rates["ray"])
    return Report(
        "messages",
        "How many one-way messages a second does one actor send another?",
        {"rounds": rounds, "rayshot_messages": rayshot_total, "ray_messages": ray_total},
        tuple(Series(name, "1/s", tuple(samples)) for name, samples in rates.items()),
        (
            Figure.median_of("rayshot", rates["rayshot"], "1/s"),
            Figure.median_of("ray", rates["ray"], "1/s"),
            Figure.median_of("rayshot / ray", ratios, "x", TARGET),
        ),
    )


def _messages_per_second(sender: Any, receiver: Any, send: Callable[[Any, int], Any], total: int) -> float:
    ray.get(receiver.expect.remote(total))
    send(receiver, total)
    finished_at = wait_for(lambda: ray.get(receiver.finished.remote()), "the last message")
    seconds: float = finished_at - ray.get(sender.began.remote())
    return total / seconds
