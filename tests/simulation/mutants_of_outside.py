"""Mutants that break the rules for what actors fix outside: in the simulator, in a sink, and at its table."""

from dataclasses import replace
from unittest.mock import patch

from rayshot.simulation.actors.network import ActorNetwork
from rayshot.simulation.actors.outside import WorldOutside
from rayshot.simulation.bodies.outside import SimulatedOutside
from rayshot.simulation.world.rollback import RollingBackNetwork
from rayshot.sinks import Sink
from rayshot.sinks.publisher import Publisher
from tests.simulation.mutation import Mutant
from tests.simulation.sink_play import TABLES, Based, Claimed, Life, Rows, Table

OUTSIDE: list[Mutant] = []
AGAIN: list[Mutant] = []
"""Those of what follows from the word "again"; see `play_again`."""


def patched(name, *patches, mutants=OUTSIDE, **changes):
    mutants.append(Mutant(name, patches=patches, changes=changes))


# The sink ------------------------------------------------------------------------------------------

publish, on_snapshot = Life.publish, Rows.on_snapshot


def publish_at_the_snapshot(self, cut):
    given = on_snapshot(self, cut)
    if not self.life.is_there:
        self.life.take(cut)
    self.life.publish(cut.token, self.sealed)
    return given


def prune_all(self):
    self.sealed.clear()


def newest_only(self, sequence):
    return {number: rows for number, rows in self.sealed.items() if number == sequence}


def number_of_now(self, cut):
    given = on_snapshot(self, cut)
    return lambda: (given() if callable(given) else given) and self.sequence


MISTAKES = {
    "rows are published when the snapshot is taken": ((Rows, "on_snapshot", publish_at_the_snapshot),),
    "sealed rows are dropped that are not known to be published": ((Rows, "prune", prune_all),),
    "only the newest batch is published": ((Rows, "due", newest_only),),
}
"""Those that everybody makes: `explore` finds each."""

for mistake, patches in MISTAKES.items():
    patched(mistake, *patches)


def unordered(self, token, batches):
    for number in sorted(batches, reverse=True):
        publish(self, token, {number: batches[number]})


patched(
    "the function of a snapshot says what the actor is by then",
    (Rows, "on_snapshot", number_of_now),
    snapshots=8,
    mode="chandy-lamport",
)
patched("batches are not published in their order", (Life, "publish", unordered))
patched("whoever goes back does not take the table", (Life, "take", lambda self, cut: TABLES["sink"].sequence))
patched("rows that no commit has leave no room", (Rows, "has_room", lambda self: len(self.open) < 3))


# The table -----------------------------------------------------------------------------------------

table_publish = Table.publish


def in_two_steps(self, token, sequence, rows):
    if token == self.token and sequence == self.sequence + 1:
        self.rows = self.rows + rows
        self.may_fail()
        rows = []
    table_publish(self, token, sequence, rows)


patched("rows and number are two steps", (Table, "publish", in_two_steps))


# The simulator -------------------------------------------------------------------------------------

store, tell_of_snapshot, seal = ActorNetwork.store, SimulatedOutside.tell_of_snapshot, SimulatedOutside._seal


def every_commit_is_told(self, coordinator, stored):
    before = len(self.snapshots)
    store(self, coordinator, stored)
    if len(self.snapshots) > before and not stored.cut.advances:
        self.outside.advanced(iter(self.processes.values()), coordinator.generation, stored.cut.snapshot)


def told_before_the_commit(self, told, effect, content):
    seal(self, told, effect, content)
    self._due = told
    self._process.wake()


def sent_behind_the_cut(self, snapshot):
    process, sent = self._process, []
    with patch.object(process, "leave_all", lambda: sent.extend(process.sends)):
        fits = tell_of_snapshot(self, snapshot)
    process.world.push(process.send_all, sent)
    return fits


def not_tried_again(self):
    told, work = self._publishing
    self._outcome("on_commit", work)
    self._publishing, self._settled = None, told


def forgotten(self, snapshot):
    self._told.pop(snapshot, None)


patched(
    "commits are told that do not advance",
    (ActorNetwork, "store", every_commit_is_told),
    snapshots=8,
    crashes=2,
    mode="chandy-lamport",
    network="reordering",
)
patched("a record counts as durable", (SimulatedOutside, "_seal", told_before_the_commit))
patched("what on_snapshot sends is behind the cut", (SimulatedOutside, "tell_of_snapshot", sent_behind_the_cut))
patched(
    "who takes over tells nobody of the last commit",
    (ActorNetwork, "found_all", RollingBackNetwork.found_all),
    takeovers=4,
    crashes=0,
    network="reordering",
)
patched(
    "the snapshot from which a life goes on is not told", (SimulatedOutside, "resumed", lambda self: None), crashes=3
)
patched("an actor ends before its rows are durable", (SimulatedOutside, "may_end", property(lambda self: True)))
patched("a function that raised is not run again", (SimulatedOutside, "_publish", not_tried_again))
patched("a snapshot of which an actor heard the end is not known any more", (SimulatedOutside, "forget", forgotten))


# rayshot's sink ------------------------------------------------------------------------------------

BASED = {"sink_class": Based, "table_class": Claimed}
of_snapshot, due, publish_batches, cut = Sink.on_snapshot, Publisher.due, Publisher._publish, WorldOutside.cut


def drops_all(self, cut):
    self.sealed.clear()
    return of_snapshot(self, cut)


def known_before(self, batches):
    self.published = max(self.published, *batches, 0)
    publish_batches(self, batches)


def due_is_the_newest(self, batches):
    return due(self, {number: batches[number] for number in [*batches][-1:]})


def takes_nothing(self, *, takeover):
    there = self.look()
    self.is_taken, self.published = True, there.sequence
    return there


def counts_open(self):
    return not self.open


def marked(mark):
    def wrong(self, process, snapshot, loaded):
        found = cut(self, process, snapshot, loaded)
        return replace(found, again=found.again and mark(found.token.life))

    return wrong


patched(
    "rayshot's sink drops sealed rows that are not known to be published", (Sink, "on_snapshot", drops_all), **BASED
)
patched("rayshot's sink counts rows as visible before they are", (Publisher, "_publish", known_before), **BASED)
patched("rayshot's sink publishes the newest batch alone", (Publisher, "due", due_is_the_newest), **BASED)
patched("rayshot's sink does not take its table", (Publisher, "take", takes_nothing), **BASED)
patched("rayshot's sink has no room for rows that no commit has", (Sink, "has_room", counts_open), **BASED)
patched("the table is not moved back", (Publisher, "_reset", lambda self: None), mutants=AGAIN)
patched("each life says again anew", (WorldOutside, "cut", marked("life {}".format)), mutants=AGAIN)
patched("again is forgotten with the first life", (WorldOutside, "cut", marked(lambda life: "")), mutants=AGAIN)
