"""Two snapshots of one system: what tables of changes and of order are about.

The one before a snapshot is that before it in `SystemView.snapshots`: by life, then by the position of its commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from rayshot.analysis.selection import Selection
from rayshot.errors import Incomparable, SnapshotNotFound
from rayshot.format.manifest import Manifest
from rayshot.protocol.identity import SnapshotId
from rayshot.store.catalog import SystemView
from rayshot.store.records import CommitRecord
from rayshot.store.relation import Relation, relate, require_comparable
from rayshot.store.snapshot import Snapshot


@dataclass(frozen=True)
class Pair:
    """A snapshot, and the one that it is compared with."""

    old: Snapshot
    new: Snapshot

    @cached_property
    def relation(self) -> Relation:
        """How the old cut lies to the new one; both manifests are read."""
        return relate(self.old.manifest, self.new.manifest)

    @property
    def is_step(self) -> bool:
        """Whether the run, or one as good, went from the old to the new."""
        return self.relation.name in {"before", "equal"}


def require_step(old: Manifest, new: Manifest) -> None:
    """Raise Incomparable unless the run, or one as good, went from `old` to `new`."""
    if require_comparable(old, new).name == "after":
        raise Incomparable(
            f"{old.snapshot} lies after {new.snapshot}, and changes are shown forward: give them the other way round",
            relation="after",
            old=str(old.snapshot),
            new=str(new.snapshot),
        )


def pair_up(
    selection: Selection, compared_with: SnapshotId | None, system: SystemView
) -> list[tuple[CommitRecord, CommitRecord]]:
    """The records of (new, old) for each selected snapshot; those without one before them are left out.

    Raises SnapshotNotFound as `Selection.of`, and where a single snapshot has none before it.
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
