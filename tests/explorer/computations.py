"""Computations that a seed makes up, with consistent cuts through them, stored as a traced system stores its snapshots.

Cuts are taken as Lai and Yang (1987) do: a message says which cuts its sender had recorded, and whoever gets it records
them first. Two that begin at once in two places may so overlap that neither lies before the other.
"""

import random
from collections import Counter, deque
from dataclasses import dataclass, field

import msgpack

from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot


@dataclass
class Actor:
    name: str
    queue: deque = field(default_factory=deque)
    sent: Counter = field(default_factory=Counter)
    received: Counter = field(default_factory=Counter)
    events: list = field(default_factory=list)
    cuts: dict = field(default_factory=dict)

    def record(self, cut):
        if cut not in self.cuts:
            self.events.append([4, cut])
            self.cuts[cut] = Counter(self.sent), Counter(self.received), len(self.events)


class Computation:
    """Actors that send to random others; `told` are what a driver had sent, by receiver."""

    def __init__(self, names, seed=1):
        self.random = random.Random(seed)
        self.actors = {name: Actor(name) for name in names}
        self.told = Counter()
        self.told_at = {}

    def tell(self, receiver):
        self.told[receiver] += 1
        self.actors[receiver].queue.append(("driver:main", ()))

    def send(self, actor):
        receiver = self.random.choice([one for one in self.actors if one != actor.name])
        actor.sent[receiver] += 1
        self.actors[receiver].queue.append((actor.name, tuple(actor.cuts)))
        return receiver

    def step(self, sends=1):
        """One actor handles its next message."""
        waiting = [actor for actor in self.actors.values() if actor.queue]
        actor = self.random.choice(waiting)
        sender, cuts = actor.queue.popleft()
        for cut in cuts:
            actor.record(cut)
        actor.received[sender] += 1
        actor.events.append([1, sender, [self.send(actor) for _ in range(sends)]])

    def begin(self, cut, *initiators):
        """Of what a driver had told, all is inside."""
        self.told_at[cut] = Counter(self.told)
        for name in initiators:
            self.actors[name].record(cut)

    def finish(self, cut):
        for actor in self.actors.values():
            actor.record(cut)

    def flows(self, cut):
        found = {}
        for sender, actor in self.actors.items():
            for receiver, sent in actor.cuts[cut][0].items():
                found[sender, receiver] = sent, self.actors[receiver].cuts[cut][1][sender]
        for receiver, sent in self.told_at[cut].items():
            found["driver:main", receiver] = sent, self.actors[receiver].cuts[cut][1]["driver:main"]
        return {ends: Flow(sent, max(received, sent - 2), received) for ends, (sent, received) in found.items()}

    def segment(self, name, upto=None):
        actor = self.actors[name]
        events = actor.events[:upto]
        names = sorted({*self.actors, "driver:main"})
        index = {one: place for place, one in enumerate(names)}
        packed = b"".join(
            msgpack.packb([1, index[event[1]], [index[one] for one in event[2]]] if event[0] == 1 else event)
            for event in events
        )
        return msgpack.packb([1, False, "", 1, {}, {}, names, packed])

    def commit(self, repository, counter, **bank):
        """Store the cut `1-coordinator-<counter>`, each actor with its trace up to its record."""
        cut = f"1-coordinator-{counter}"
        bank = {"states": {name: {"balance": counter * 10} for name in self.actors}, **bank}
        traces = {name: self.segment(name, actor.cuts[cut][2]) for name, actor in self.actors.items()}
        return make_snapshot(repository, Bank(flows=self.flows(cut), traces=traces, **bank), counter)


def overlapping(names=("ann", "bea", "cyd", "dan"), seed=1, told=3, steps=60):
    """A computation with two cuts that overlap, and a third one at its end."""
    made = Computation(names, seed)
    for _ in range(told):
        for name in names:
            made.tell(name)
    for _ in range(steps):
        made.step()
    made.begin("1-coordinator-1", names[0])
    made.begin("1-coordinator-2", names[-1])
    for _ in range(steps // 4):
        made.step()
    made.finish("1-coordinator-1")
    made.finish("1-coordinator-2")
    for _ in range(steps):
        made.step()
    made.begin("1-coordinator-3", names[1])
    made.finish("1-coordinator-3")
    return made


def store_all(made, repository, **bank):
    """The snapshots of its three cuts."""
    return [made.commit(repository, counter, **bank) for counter in (1, 2, 3)]
