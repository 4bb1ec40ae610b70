"""Memory of ended snapshots, so that what is late for them is swallowed."""

from rayshot.protocol.identity import SnapshotId


class Tombstones:
    """A set of ended snapshots; per initiator all below a floor count as ended and take no memory."""

    def __init__(self) -> None:
        self._floors: dict[str, int] = {}
        self._above: set[SnapshotId] = set()

    def __contains__(self, snapshot: SnapshotId) -> bool:
        return snapshot.counter < self._floors.get(snapshot.initiator, 0) or snapshot in self._above

    def __len__(self) -> int:
        return len(self._above)

    def add(self, snapshot: SnapshotId) -> None:
        """Remember that `snapshot` ended."""
        if snapshot not in self:
            self._above.add(snapshot)

    def raise_floor(self, initiator: str, floor: int) -> None:
        """All snapshots of `initiator` with a counter below `floor` have ended."""
        if floor > self._floors.get(initiator, 0):
            self._floors[initiator] = floor
            self._above = {k for k in self._above if k.initiator != initiator or k.counter >= floor}
