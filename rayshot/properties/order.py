"""The snapshots of a history in the order of their cuts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rayshot.errors import SnapshotDeleted
from rayshot.protocol.identity import SnapshotId
from rayshot.store.catalog import SystemView
from rayshot.store.relation import CutClocks, RelationName, relate_clocks
from rayshot.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Known:
    """Snapshots of one system: life after life, and in each no cut comes behind one that it surely lies before.

    `life` is the present one, of which there may be no snapshot yet; `origins` says by life which snapshot it was
    restored from. `deleted` are those that were gone when their manifests were read.
    """

    ordered: Sequence[Snapshot]
    cuts: Mapping[SnapshotId, CutClocks]
    life: int
    origins: Mapping[int, SnapshotId]
    deleted: tuple[SnapshotId, ...]

    def way(self, old: Snapshot, new: Snapshot) -> RelationName:
        """How the cut of `old` lies to that of `new`."""
        return relate_clocks(self.cuts[old.id], self.cuts[new.id]).name


def in_order(history: SystemView | Iterable[Snapshot]) -> Known:
    """Read the manifests of a history; of a system all snapshots at one moment. Raises what reading them raises."""
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
    """Put a snapshot in front of the first that its cut lies before, if that is sure.

    None of these lies in front of one before it. What is a guess says nothing about a third one.
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
