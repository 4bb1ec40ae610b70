"""Two snapshots of one system, for tables of changes and of order.

The snapshot before another is the one before it in `SystemView.snapshots`: by life, then by position of the commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from rayshot.analysis.selection import Selection
from rayshot.analysis.view import channel_bytes
from rayshot.errors import Incomparable, SnapshotNotFound
from rayshot.format.entries import ActorEntry, ChannelEntry
from rayshot.format.manifest import Manifest
from rayshot.log.records import CommitRecord
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.relation import Relation, relate, require_comparable
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import captured_bytes


@dataclass(frozen=True)
class Pair:
    """A snapshot, and the snapshot that it is compared with."""

    old: Snapshot
    new: Snapshot

    @cached_property
    def relation(self) -> Relation:
        """The order of the old and the new cut; both manifests are read."""
        return relate(self.old.manifest, self.new.manifest)

    @property
    def is_step(self) -> bool:
        """Whether the real run, or one as good, led from the old to the new."""
        return self.relation.name in {"before", "equal"}


class NoStep:
    """Stands for the changes of a pair that is not a step: such a pair has one row, with its relation."""

    name = "(no step)"


NO_STEP = NoStep()


class ActorPair(NamedTuple):
    """An actor of either snapshot; None if that snapshot does not have it."""

    name: str
    old: ActorEntry | None
    new: ActorEntry | None

    @property
    def bytes(self) -> int:
        """How many bytes are read of it: none if both states are in the same place."""
        if self.old is not None and self.new is not None and self.old.state == self.new.state:
            return 0
        return sum(captured_bytes(entry.state) for entry in (self.old, self.new) if entry is not None)


class ChannelPair(NamedTuple):
    """A channel of either snapshot; None if that snapshot does not have it."""

    sender: str
    receiver: str
    old: ChannelEntry | None
    new: ChannelEntry | None

    @property
    def name(self) -> str:
        """The channel as it is shown."""
        return f"{self.sender} -> {self.receiver}"

    @property
    def bytes(self) -> int:
        """Bytes of the messages in flight in either snapshot."""
        return sum(channel_bytes(entry) for entry in (self.old, self.new) if entry is not None)


def actor_pairs(pair: Pair) -> Sequence[ActorPair | NoStep]:
    """All actors of both snapshots of a step, by name."""
    if not pair.is_step:
        return [NO_STEP]
    old, new = ({actor.name: actor for actor in one.manifest.actors} for one in (pair.old, pair.new))
    return [ActorPair(name, old.get(name), new.get(name)) for name in sorted(old.keys() | new)]


def channel_pairs(pair: Pair) -> Sequence[ChannelPair | NoStep]:
    """All channels of both snapshots of a step, by name."""
    if not pair.is_step:
        return [NO_STEP]
    old, new = (
        {(channel.sender, channel.receiver): channel for channel in one.manifest.channels}
        for one in (pair.old, pair.new)
    )
    return [ChannelPair(*ends, old.get(ends), new.get(ends)) for ends in sorted(old.keys() | new)]


def require_step(old: Manifest, new: Manifest) -> None:
    """Raise Incomparable unless the real run, or one as good, led from `old` to `new`."""
    if require_comparable(old, new).name == "after":
        raise Incomparable(
            f"{old.snapshot} is after {new.snapshot}, and changes are shown forward: swap the two",
            relation="after",
            old=str(old.snapshot),
            new=str(new.snapshot),
        )


def pair_up(
    selection: Selection, compared_with: SnapshotId | None, system: SystemView
) -> list[tuple[CommitRecord, CommitRecord]]:
    """The records of (new, old) for each selected snapshot; snapshots without an earlier one are left out.

    Raises SnapshotNotFound as `Selection.of`, and if a single snapshot has no earlier one.
    """
    chosen = selection.of(system)
    if compared_with is not None:
        old = system.snapshot(compared_with)
        return [(new.record, old.record) for new in chosen]
    before = _before(system.snapshots())
    pairs = [(new.record, before[new.id].record) for new in chosen if new.id in before]
    if selection.is_one and not pairs:
        raise SnapshotNotFound(
            f"no snapshot of {system.name!r} is older than {chosen[0].id}, so there is nothing to compare"
        )
    return pairs


def _before(known: Sequence[Snapshot]) -> dict[SnapshotId, Snapshot]:
    return {new.id: old for old, new in pairwise(known)}
