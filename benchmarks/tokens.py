"""Actors that pass tokens around: tokens are never made or lost, so all that a photograph lacks can be counted."""

import time
from collections import Counter
from typing import Any, NamedTuple

import ray

import rayshot

FAN_OUT = 4
STEPS = (1, 3, 7, 12)
"""To which of the following actors an actor sends."""
TOKENS_PER_CHANNEL, PLAIN_TOKENS_PER_CHANNEL = 100, 25
"""This bounds mailboxes and keeps every channel busy; plain calls take a millisecond each until all tokens rest."""
NOTED = 32
"""After so many messages an actor notes the time."""
_noted: list[float] = []
"""Of the actor of this process. Not in its state: what it costs to capture that is measured."""


class Saved(NamedTuple):
    """What a hand-written `save` returns."""

    values: dict[str, int]
    sent: dict[int, int]
    received: dict[int, int]


class Node:
    """Holds values, and passes each token that arrives on to the next of its neighbours."""

    def __init__(self, number: int, ring: int) -> None:
        self.number = number
        self.ring = ring
        self.values: dict[str, int] = {}
        self.neighbours: list[Any] = []
        self.count = 0
        self.going = False
        self.held: list[int] = []

    def fill(self, keys: int) -> None:
        """Hold so many values from now on."""
        self.values = {f"key-{index}": index for index in range(keys)}

    def meet(self, neighbours: list[Any], tokens: int) -> None:
        """Get to know the neighbours; have tokens for each."""
        self.neighbours = neighbours
        self.held = list(range(tokens * len(neighbours)))

    def go(self) -> None:
        """Let go of all tokens, and pass on what comes from now on."""
        self.going = True
        held, self.held = self.held, []
        for token in held:
            self._pass_on(token)

    def halt(self) -> None:
        """Keep what comes from now on."""
        self.going = False

    def take(self, token: int) -> None:
        """Process one message."""
        self.count += 1
        if not self.count % NOTED:
            _noted.append(time.time())
        if self.going:
            self.neighbours[self.count % FAN_OUT].take.tell(token)
        else:
            self.held.append(token)

    def read(self) -> tuple[float, int]:
        """Now by this actor's clock, and the messages processed until now."""
        return time.monotonic(), self.count

    def noted(self) -> list[float]:
        """The times, in seconds since 1970, at which another NOTED messages were processed since the last question."""
        noted = _noted[:]
        del _noted[: len(noted)]
        return noted

    def here(self) -> int:
        """How many tokens rest here."""
        return len(self.held)

    def _pass_on(self, token: int) -> None:
        self.neighbours[token % FAN_OUT].take.tell(token)


class PlainNode(Node):
    """The same with plain Ray calls, and a `save` as people write it. Counts by channel, to see what it misses."""

    def __init__(self, number: int, ring: int) -> None:
        super().__init__(number, ring)
        self.sent: Counter[int] = Counter()
        self.received: Counter[int] = Counter()

    def take_from(self, sender: int, token: int) -> None:
        """Process one message of `sender`."""
        self.count += 1
        self.received[sender] += 1
        if self.going:
            self._pass_on(self.count)
        else:
            self.held.append(token)

    def save(self) -> Saved:
        """The state of this actor, now."""
        return Saved(dict(self.values), dict(self.sent), dict(self.received))

    def _pass_on(self, token: int) -> None:
        self.sent[(self.number + STEPS[token % FAN_OUT]) % self.ring] += 1
        self.neighbours[token % FAN_OUT].take_from.remote(self.number, token)


class Ring:
    """So many nodes, each with FAN_OUT neighbours, through rayshot or plain Ray.

    At first they hold their tokens, and no values.
    """

    def __init__(self, size: int, *, plain: bool = False) -> None:
        self.size = size
        tokens = PLAIN_TOKENS_PER_CHANNEL if plain else TOKENS_PER_CHANNEL
        self.tokens = size * FAN_OUT * tokens
        if plain:
            remote = ray.remote(PlainNode)
            self.nodes = [remote.remote(index, size) for index in range(size)]
        else:
            decorated = rayshot.actor(Node)
            self.nodes = [decorated.options(name=f"node-{size}-{index}").remote(index, size) for index in range(size)]
        ray.get([node.meet.remote(self._neighbours(index), tokens) for index, node in enumerate(self.nodes)])

    def fill(self, keys: int) -> None:
        """Have the nodes hold so many values in all."""
        ray.get([node.fill.remote(keys // self.size) for node in self.nodes])

    def go(self) -> None:
        """Make it busy."""
        ray.get([node.go.remote() for node in self.nodes])

    def halt(self) -> None:
        """Make it idle: returns when every token rests."""
        ray.get([node.halt.remote() for node in self.nodes])
        while sum(ray.get([node.here.remote() for node in self.nodes])) < self.tokens:
            time.sleep(0.01)

    def messages_per_second(self, window_s: float) -> float:
        """Each actor reads its own clock, so it does not matter when it is asked."""
        began = ray.get([node.read.remote() for node in self.nodes])
        time.sleep(window_s)
        ended = ray.get([node.read.remote() for node in self.nodes])
        return float(
            sum((after - before) / (end - begin) for (begin, before), (end, after) in zip(began, ended, strict=True))
        )

    def noted(self) -> list[list[float]]:
        """See `Node.noted`; of all nodes."""
        noted: list[list[float]] = ray.get([node.noted.remote() for node in self.nodes])
        return noted

    def _neighbours(self, index: int) -> list[Any]:
        return [self.nodes[(index + step) % self.size] for step in STEPS]


def lost_and_orphaned(saved: list[Saved]) -> tuple[int, int]:
    """What a set of hand-written saves lacks: messages that nobody would receive, and that nobody would have sent."""
    lost = orphaned = 0
    for sender, one in enumerate(saved):
        for receiver, other in enumerate(saved):
            sent, received = one.sent.get(receiver, 0), other.received.get(sender, 0)
            lost += max(0, sent - received)
            orphaned += max(0, received - sent)
    return lost, orphaned
