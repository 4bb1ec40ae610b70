"""The snapshots of a history in the order of their cuts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rayshot.errors import SnapshotDeleted
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.relation import CutClocks, RelationName, relate_clocks
from rayshot.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Known:
    """Snapshots of one system, life after life; within a life no cut comes after one that it is surely before.

    `life` is the present life, which may have no snapshot yet; `origins` gives by life the snapshot that it was
    restored from. `deleted` are snapshots that were gone when their manifests were read.
    """

    ordered: Sequence[Snapshot]
    cuts: Mapping[SnapshotId, CutClocks]
    life: int
    origins: Mapping[int, SnapshotId]
    deleted: tuple[SnapshotId, ...]

    def way(self, old: Snapshot, new: Snapshot) -> RelationName:
        """The order of the cuts of `old` and `new`."""
        return relate_clocks(self.cuts[old.id], self.cuts[new.id]).name


def in_order(history: SystemView | Iterable[Snapshot]) -> Known:
    """Read the manifests of a history; a system's snapshots as of one moment. Raises what reading them raises."""
    if isinstance(history, SystemView):
        view = history.now()
        given, life, origins = view.snapshots(), view.history().incarnation, view.restored_from()
    else:
        given, origins = list(history), {}
        life = max((one.id.incarnation for one in given), default=0)
    cuts: dict[SnapshotId, CutClocks] = {}
    deleted: list[SnapshotId] = []
    lives: dict[int, list[Snapshot]] = {}
    for one in sorted(given, key=lambda one: (one.id.incarnation, one.position)):
        try:
            cuts[one.id] = CutClocks.of(one.manifest)
        except SnapshotDeleted:
            deleted.append(one.id)
            continue
        _insert(lives.setdefault(one.id.incarnation, []), one, cuts)
    ordered = [one for several in lives.values() for one in several]
    return Known(ordered, cuts, life, origins, tuple(deleted))


def _insert(ordered: list[Snapshot], new: Snapshot, cuts: Mapping[SnapshotId, CutClocks]) -> None:
    """Put a snapshot before the first one that its cut is surely before.

    None of these is before an earlier one in the list. An unsure relation says nothing about a third snapshot.
    """
    place = len(ordered)
    for index in range(len(ordered) - 1, -1, -1):
        relation = relate_clocks(cuts[ordered[index].id], cuts[new.id])
        if not relation.sure:
            continue
        if relation.name == "after":
            place = index
        elif relation.comparable:
            break
    ordered.insert(place, new)
