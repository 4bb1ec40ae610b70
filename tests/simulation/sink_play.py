"""Sinks against a table in memory, one as a user writes it and one of `rayshot.sinks`: each row is visible once.

At each moment the table has only rows of a durable cut that advances. The table refuses all but the next number of who
has it, fails now and then, and finds by itself what is visible too early.
"""

import random
import threading
from collections import Counter
from contextlib import contextmanager

import rayshot
from rayshot.errors import SinkAhead, SinkBehind, SinkFenced
from rayshot.simulation import SimulatedSystem
from rayshot.simulation.world.networks import NETWORKS
from rayshot.sinks import Sink
from tests.sinks.tables import Rows as Backend

MODES = ("chandy-lamport", "aligned", "stop-the-world")
ROWS = 8


class Table:
    """`rows` are visible, up to batch `sequence`; `token` is of the life that may write. `wrong` is what was seen.

    `before` was visible when a person restored a snapshot, or is in that; None if nobody did.
    """

    def __init__(self, world, chance=None):
        self.rows, self.sequence, self.token, self.wrong = [], 0, None, []
        self.before = None
        self.world, self.chance, self.outages = world, chance or random.Random(0), 0

    def take(self, token):
        if not token.may_take(self.token):
            raise SinkFenced(f"{self.token} has it")
        self.token = token
        return self.sequence

    def publish(self, token, sequence, rows):
        self.may_fail()
        if token != self.token:
            raise SinkFenced(f"{self.token} has it")
        if sequence > self.sequence + 1:
            raise SinkBehind(f"batch {sequence} leaves a gap behind {self.sequence}")
        if sequence == self.sequence + 1:
            self.rows, self.sequence = self.rows + rows, sequence
            self.look()
        self.may_fail()

    def may_fail(self):
        """An outage, before the step or behind it."""
        if self.chance.random() < 0.1:
            self.outages += 1
            raise ConnectionError("the table is away")

    def look(self):
        """Whether all that is visible is in the newest durable cut that advances."""
        durable = [cut for cut in self.world.snapshots if cut.advances]
        taken = durable[-1].states().get("sink", {"taken": []})["taken"] if durable else []
        if early := {*self.rows} - {*taken} - (self.before or set()):
            self.wrong.append(f"{early} are visible before a durable cut has them")


class Claimed(Table):
    """A table for a backend of `rayshot.sinks`."""

    def __init__(self, world, chance=None):
        super().__init__(world, chance)
        self.claim, self.lock, self.fail, self.done = None, threading.Lock(), None, False


class Steps(Backend):
    """Its backend."""

    def publish(self, token, sequence, line, rows):
        self.table.may_fail()
        super().publish(token, sequence, line, [row["row"] for row in rows])
        self.table.sequence = self.table.claim.sequence
        self.table.look()
        self.table.may_fail()

    def reset(self, token, sequence, line):
        self.table.may_fail()
        super().reset(token, sequence, line)
        self.table.may_fail()


TABLES = {}


@contextmanager
def table_of(table):
    """The table, where actors find it: no object of a test is in a state."""
    TABLES["sink"] = table
    try:
        yield table
    finally:
        del TABLES["sink"]


@rayshot.actor(prove=False)
class Shop:
    """Sends rows, and one more at each snapshot: it is sent before the cut."""

    def __init__(self, sink):
        self.sink, self.receipts = sink, 0

    def sell(self, number):
        self.sink.add.tell(number)

    def on_snapshot(self, cut):
        self.receipts += 1
        self.sink.add.tell(1000 + self.receipts)

    def close(self):
        self.sink.close.tell()


@rayshot.actor(prove=False)
class Rows:
    """The sink. What `Life` has is no state: how far the table is known to be, in this life."""

    def __init__(self):
        self.open, self.sealed, self.sequence, self.taken = [], {}, 0, []
        self.life = Life()

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "life"}

    def add(self, row):
        self.open.append(row)
        self.taken.append(row)

    def close(self):
        rayshot.current().exit()

    def has_room(self):
        return self.life.durable - self.life.published < 2

    def on_snapshot(self, cut):
        self.prune()
        if self.open:
            self.sequence += 1
            self.sealed[self.sequence], self.open = self.open, []
        sequence = self.sequence
        return sequence if self.life.is_there else lambda: self.life.take_anew(cut, sequence)

    def prune(self):
        self.sealed = {number: rows for number, rows in self.sealed.items() if number > self.life.published}

    def on_commit(self, cut):
        batches, self.life.durable = self.due(cut.payload), cut.payload
        return lambda: self.life.publish(cut.token, batches)

    def due(self, sequence):
        return {number: rows for number, rows in self.sealed.items() if number <= sequence}

    def on_restore(self, back):
        self.life = Life()
        there = self.life.take(back)
        if there > self.sequence:
            raise SinkAhead(f"the table has {there}, and the snapshot {self.sequence}")


@rayshot.actor(prove=False)
class Based(Sink):
    """A sink with rayshot's class."""

    rows_waiting_max = 4

    def __init__(self):
        super().__init__()
        self.taken = []

    def connect(self):
        return Steps(TABLES["sink"])

    def add(self, row):
        self.taken.append(row)
        self.write([{"row": row}])

    def close(self):
        rayshot.current().exit()


class Life:
    """One life's way to the table: which batch is known to be visible, and which to be durable."""

    def __init__(self):
        self.is_there, self.published, self.durable = False, 0, 0

    def take(self, cut):
        self.published, self.is_there = TABLES["sink"].take(cut.token), True
        return self.published

    def take_anew(self, cut, sequence):
        if not self.is_there and self.take(cut):
            raise SinkAhead("the table is not empty")
        return sequence

    def publish(self, token, batches):
        for number, rows in sorted(batches.items()):
            TABLES["sink"].publish(token, number, rows)
            self.published = max(self.published, number)


def scenario(world, sink_class=Rows, *, ends=False):
    sink = world.create(sink_class, name="sink")
    shop = world.create(Shop, sink, name="shop")
    for number in range(ROWS):
        shop.sell.tell(number)
    if ends:
        shop.close.tell()


def check(world, table):
    """All has come to rest: publish what is left, and compare."""
    assert not table.wrong, table.wrong
    assert not world.pending, f"nobody takes {world.pending}"
    durable = [cut for cut in world.snapshots if cut.advances and "sink" in cut.actors]
    if durable and durable[-1].id not in world.aborted and (due := durable[-1].payload("sink")) is not None:
        due = due["sequence"] if isinstance(due, dict) else due
        assert table.sequence >= due, f"batch {due} is durable, and the table has {table.sequence}"
    if "sink" in world.ended:
        assert {*range(ROWS)} <= {*table.rows}, f"the sink has ended, and these are visible: {table.rows}"
        return
    for cut in world.snapshots:
        check_receipts(cut)
    settled(world)
    taken = world.state("sink")["taken"]
    assert table.before is not None or {*range(ROWS)} <= {*taken}, f"the sink stands still, with {taken}"
    taken = settled(world).state("sink")["taken"]  # the shop's row of the snapshot before may have come behind it
    if table.before is not None:
        assert {*taken} <= {*table.rows} <= {*taken} | table.before, (sorted(table.rows), sorted(taken))
    else:
        assert sorted(table.rows) == sorted(taken), (sorted(table.rows), sorted(taken))
    assert not table.wrong, table.wrong


def check_receipts(cut):
    """What the shop sent at a snapshot is in it: at the sink, or on its way there."""
    states = cut.states()
    if {"shop", "sink"} <= states.keys():
        channel = cut.channels.get(("shop", "sink"))
        moving = [] if channel is None else [message.args[0] for message in channel.messages if message.args]
        found = sorted(row for row in (*states["sink"]["taken"], *moving) if row > 1000)
        assert found == [1001 + number for number in range(states["shop"]["receipts"])], f"{cut.id} has {found}"


def settled(world):
    """A snapshot, when all is done that follows from it."""
    while (cut := world.snapshot()).id in world.aborted:  # it is durable, and nobody has heard so
        pass
    world.run()
    return cut


def play(seed, sink_class=Rows, table_class=Table, **settings):
    """One schedule; returns how often things happened in it."""
    chance = random.Random(seed)
    faults = {name: chance.randrange(3) for name in ("crashes", "takeovers", "deadlines")}
    chosen = {"mode": chance.choice(MODES), "network": chance.choice(sorted(NETWORKS)), "snapshots": 4, **faults}
    with SimulatedSystem(seed, **{**chosen, **settings}) as world, table_of(table_class(world, chance)) as table:
        scenario(world, sink_class, ends=chance.random() < 0.3)
        world.run()
        check(world, table)
        happened = {"functions": world.functions, "rollbacks": world.rollbacks, "ended": "sink" in world.ended}
        found = sum("storage's answer" in why for why in world.aborted.values())
        return {**happened, "outages": table.outages, "commits found late": found, "snapshots": len(world.snapshots)}


def play_again(seed):
    """One schedule, and a person who goes back to one of its snapshots, with "again"; returns what is there twice."""
    chance = random.Random(seed)
    world = SimulatedSystem(seed, snapshots=4, crashes=chance.randrange(2))
    with table_of(Claimed(world, chance)) as table:
        scenario(world, Based)
        world.run()
        cut = chance.choice([cut for cut in (*world.snapshots, world.snapshot()) if "sink" in cut.states()])
        world.run(until=lambda: chance.random() < 0.05)  # what it published so far, and no more
        table.before = {*table.rows, *cut.state("sink")["taken"]}
        faults = {name: chance.randrange(3) for name in ("crashes", "takeovers")}
        restored = {"outside": "again", "takeover": True, "network": chance.choice(sorted(NETWORKS)), **faults}
        table.world = other = SimulatedSystem.from_snapshot(cut, seed=seed, snapshots=3, **restored)
        other.run()
        check(other, table)
        state, seen = cut.state("sink"), Counter(table.rows)
        waiting = {row["row"] for rows in (state["open"], *state["sealed"].values()) for row in rows}
        known = {*state["taken"]} - waiting
        assert all(seen[row] == 1 for row in known), f"{seen}, of which the snapshot knows {known} to be visible"
        assert max(seen.values(), default=0) <= 2, f"{seen}: visible a third time"
        return sum(count > 1 for count in seen.values())
