"""What the pipeline remembers of each life: how far its actors are, from the lake's own tables.

A restart keeps nothing else: the tables up to a log index are everything that has been seen.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow.dataset as ds

from pyspark_rayshot.lake.changes import (
    Digests,
    Head,
    KnownRow,
    Next,
    Observation,
    digests_as_of,
    ended,
    in_turn,
    late_changes,
)
from pyspark_rayshot.lake.clocks import LifeClocks
from pyspark_rayshot.lake.destination import Destination
from pyspark_rayshot.lake.lake_tables import VALUE_COLUMNS, ActorMoment, Change
from rayshot.analysis.state_views import attribute_rows
from rayshot.analysis.views import VIEWS
from rayshot.format.entries import ActorEntry
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import state_digest


class Moment(NamedTuple):
    """How far an actor was in a snapshot."""

    actor: str
    clock: int
    log_index: int
    snapshot: str
    state_digest: str | None


class Turn(NamedTuple):
    """An actor in a snapshot that is not late, and what was known about it before."""

    entry: ActorEntry
    clock: int
    head: Head | None
    restored: Digests | None


class LakeLife:
    """The actors of one life as the lake has them up to a log index, and from there on as snapshots come.

    `restored` is the snapshot with which the life began, None if it is not known.
    """

    def __init__(self, lake: Destination, life: int, upto: int, restored: str | None) -> None:
        self._lake = lake
        self._life = life
        self.catch_up(upto)
        self._clocks = LifeClocks()
        columns = lake.read("channels", ("sender", "receiver", "sent", "received"), self._within)
        highest = columns.group_by(["sender", "receiver"]).aggregate([("sent", "max"), ("received", "max")])
        self._clocks.learn(
            (row["sender"], row["receiver"], row["sent_max"], row["received_max"]) for row in highest.to_pylist()
        )
        self._heads = self._read_heads()
        self._restored = {} if restored is None else self._as_of_snapshot(restored, upto)

    def catch_up(self, upto: int) -> None:
        """Load what the lake says about this life up to that log index."""
        self._within = (ds.field("life") == self._life) & (ds.field("log_index") <= upto)

    def moments(self, snapshot: Snapshot) -> list[ActorMoment]:
        """The actors of a snapshot with their clocks."""
        gone = self._clocks.gone(snapshot.manifest)
        entries = VIEWS["actors"].entries
        assert entries is not None
        return [ActorMoment(row, gone[row.name]) for row in entries(snapshot)]

    def is_late(self, moments: list[ActorMoment]) -> bool:
        """Whether an actor had done more in an earlier snapshot of the log."""
        heads = ((self._heads.get(moment.row.name), moment) for moment in moments)
        return any(head is not None and head.clock > _clock(moment) for head, moment in heads)

    def see(self, snapshot: Snapshot, moments: list[ActorMoment]) -> Iterator[Change]:
        """The rows of `state_changes` that a snapshot brings. If it `is_late`, the lake has all snapshots before it."""
        for moment in moments:
            yield from self._see(observe(snapshot, moment.row.entry, _clock(moment)))
        for actor in snapshot.manifest.ended:
            head = self._heads.get(actor)
            if head is not None and not head.ended:
                yield from ended(actor, head, str(snapshot.id))
        self._clocks.add(snapshot.manifest)

    def turns(self, moments: list[ActorMoment]) -> list[Turn]:
        """What another process needs to `see` the actors whose states must be read; the snapshot must not be late."""
        found = []
        for moment in moments:
            entry, clock = moment.row.entry, _clock(moment)
            head = self._heads.get(entry.name)
            if head is None or (head.clock <= clock and head.state_digest != _digest(entry)):
                found.append(Turn(entry, clock, head, self._restored.get(entry.name)))
        return found

    def seen(self, heads: Mapping[str, Head]) -> None:
        """Take in the results of `turns`, before the other actors of the snapshot are seen."""
        self._heads.update(heads)

    def _see(self, seen: Observation) -> Iterator[Change]:
        head = self._heads.get(seen.actor)
        if head is not None and head.clock > seen.clock:
            yield from self._see_late(seen)
        else:
            self._heads[seen.actor], found = in_turn(head, seen, self._restored.get(seen.actor))
            yield from found

    def _see_late(self, seen: Observation) -> Iterator[Change]:
        own = self._within & (ds.field("actor") == seen.actor)
        behind = [moment for moment in self._moments(own) if moment.clock > seen.clock]
        first = min(behind, key=lambda moment: (moment.clock, moment.log_index))
        known = self._known(own)

        def stored(attribute: str) -> Mapping[str, Any]:
            before = [row for row in known if row.attribute == attribute and row.clock <= seen.clock]
            row = max(before, key=lambda one: one.order)
            where = own & (ds.field("attribute") == attribute) & (ds.field("clock") == row.clock)
            where &= (ds.field("log_index") == row.log_index) & (ds.field("change") == row.change)
            (cells,) = self._lake.read("state_changes", [column.name for column in VALUE_COLUMNS], where).to_pylist()
            return dict(cells)

        yield from late_changes(seen, known, Next(first.clock, first.snapshot), stored)

    def _read_heads(self) -> dict[str, Head]:
        heads: dict[str, Head] = {}
        for moment in sorted(self._moments(self._within), key=lambda one: (one.clock, one.log_index)):
            heads[moment.actor] = Head(moment.clock, moment.state_digest)
        for actor, rows in self._by_actor(self._within).items():
            heads[actor].attributes = digests_as_of(rows)
            heads[actor].ended = any(row.change == "ended" for row in rows)
        return heads

    def _as_of_snapshot(self, snapshot: str, last: int) -> dict[str, Digests]:
        """What each actor had in a snapshot of any life; nothing if the lake does not have the snapshot.

        Rows of later records of the log may have the same clock, as it does not move when a timer changes a state.
        """
        upto = ds.field("log_index") <= last
        columns = ("life", "actor", "clock", "gone", "log_index")
        found = self._lake.read("actors", columns, upto & (ds.field("snapshot") == snapshot)).to_pylist()
        if not found:
            return {}
        clocks = {row["actor"]: row["clock"] + row["gone"] for row in found}
        known = self._by_actor(
            (ds.field("life") == found[0]["life"]) & (ds.field("log_index") <= found[0]["log_index"])
        )
        return {actor: digests_as_of(known.get(actor, []), clock) for actor, clock in clocks.items()}

    def _moments(self, where: ds.Expression) -> list[Moment]:
        columns = ("actor", "clock", "gone", "log_index", "snapshot", "state_digest")
        return [
            Moment(row["actor"], row["clock"] + row["gone"], row["log_index"], row["snapshot"], row["state_digest"])
            for row in self._lake.read("actors", columns, where).to_pylist()
        ]

    def _by_actor(self, where: ds.Expression) -> dict[str, list[KnownRow]]:
        found = defaultdict(list)
        for row in self._known(where):
            found[row.actor].append(row)
        return found

    def _known(self, where: ds.Expression) -> list[KnownRow]:
        rows = self._lake.read("state_changes", KnownRow._fields, where).to_pylist()
        return [KnownRow(**row) for row in rows]


def _clock(moment: ActorMoment) -> int:
    clock: int = moment.row.clock
    return clock + moment.gone


def observe(snapshot: Snapshot, entry: ActorEntry, clock: int) -> Observation:
    """An actor of a snapshot; its state is read only if it is needed."""
    return Observation(entry.name, clock, _digest(entry), str(snapshot.id), lambda: attribute_rows(snapshot, entry))


def _digest(entry: ActorEntry) -> str | None:
    return None if entry.state is None else state_digest(entry.state)
