"""Actors that send at a fixed rate, and measure from the time at which a message was due."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray

import rayshot

TICK_S = 0.001
"""A sender wakes so often and sends what has become due: all of one tick counts from when the tick was due."""
SAMPLES_MAX = 200_000
DRAIN_S = 0.3
"""What was sent in a window is processed by then."""


class PacedSender:
    """Sends `rate` messages a second to a PacedReceiver until it is told to stop."""

    def begin(self, own: Any, receiver: Any, rate: float) -> None:
        """Begin, through rayshot. `own` is this actor's handle: with short handlers no snapshot has to wait."""
        self.own, self.receiver, self.rate = own, receiver, rate
        self.sending = True
        self.number = 0
        self.began_at = time.monotonic()
        own.tick.tell()

    def tick(self) -> None:
        """Send what is due, wait for the next tick."""
        number = self._due()
        due_at = self.began_at + (self.number + 1) / self.rate
        tell = self.receiver.take.tell
        for _ in range(self.number, number):
            tell(due_at)
        self.number = number
        if self.sending:
            time.sleep(TICK_S)
            self.own.tick.tell()

    def end(self) -> None:
        """Send no more."""
        self.sending = False

    def send_by_ray(self, receiver: Any, rate: float, seconds: float) -> None:
        """Send for so long, as plain Ray calls."""
        self.rate, self.number, self.began_at = rate, 0, time.monotonic()
        while time.monotonic() < self.began_at + seconds:
            number = self._due()
            due_at = self.began_at + (self.number + 1) / rate
            for _ in range(self.number, number):
                receiver.take.remote(due_at)
            self.number = number
            time.sleep(TICK_S)

    def _due(self) -> int:
        return int((time.monotonic() - self.began_at) * self.rate)


class PacedReceiver:
    """Notes how long after it was due each message, or of very many one in so many, was processed."""

    def __init__(self) -> None:
        self.count = 0
        self.latencies_s: list[float] = []
        self.stride = 1

    def clear(self, expected: int) -> None:
        """Begin anew, with about so many messages to come."""
        self.stride = 1 + expected // SAMPLES_MAX
        self.count = 0
        self.latencies_s = []

    def take(self, due_at: float) -> None:
        """Process one message."""
        self.count += 1
        if self.count % self.stride == 0:
            self.latencies_s.append(time.monotonic() - due_at)

    def read(self) -> tuple[int, list[float]]:
        """Messages processed, and in ms the p50, p99 and p99.9 of those noted."""
        quantiles = np.quantile(self.latencies_s or [float("nan")], (0.5, 0.99, 0.999)) * 1e3
        return self.count, [float(value) for value in quantiles]


class PacedPair:
    """A sender and a receiver, through rayshot or plain Ray."""

    def __init__(self, sender: Any, receiver: Any, *, by_tell: bool) -> None:
        self._sender = sender
        self._receiver = receiver
        self._by_tell = by_tell

    def measure(self, rate: float, seconds: float) -> tuple[float, list[float]]:
        """Send `rate` messages a second for so long; returns those processed a second, and p50, p99, p99.9 in ms."""
        ray.get(self._receiver.clear.remote(int(rate * seconds)))
        if self._by_tell:
            ray.get(self._sender.begin.remote(self._sender, self._receiver, rate))
            time.sleep(seconds)
            ray.get(self._sender.end.remote())
        else:
            ray.get(self._sender.send_by_ray.remote(self._receiver, rate, seconds))
        time.sleep(DRAIN_S)
        count, quantiles_ms = ray.get(self._receiver.read.remote())
        return count / seconds, quantiles_ms


def paced_pair(made: Callable[[type], Any]) -> PacedPair:
    """Start a pair; `made` is `rayshot.actor` or `ray.remote`."""
    return PacedPair(made(PacedSender).remote(), made(PacedReceiver).remote(), by_tell=made is rayshot.actor)
