"""Memory of ended snapshots, so that what is late for them is swallowed."""

from rayshot.protocol.identity import SnapshotId


class Tombstones:
    """The ended snapshots of one incarnation; per initiator all below a floor count as ended and take no memory."""

    def __init__(self) -> None:
        self._floors: dict[str, int] = {}
        self._above: set[SnapshotId] = set()

    def __contains__(self, snapshot: SnapshotId) -> bool:
        return snapshot.counter < self.floor(snapshot.initiator) or snapshot in self._above

    def __len__(self) -> int:
        return len(self._above)

    def floor(self, initiator: str) -> int:
        """All snapshots of `initiator` with a counter below this have ended."""
        return self._floors.get(initiator, 0)

    def add(self, snapshot: SnapshotId) -> None:
        """Remember that `snapshot` ended."""
        if snapshot not in self:
            self._above.add(snapshot)

    def raise_floor(self, initiator: str, floor: int) -> None:
        """All snapshots of `initiator` with a counter below `floor` have ended; a floor never sinks."""
        if floor > self.floor(initiator):
            self._floors[initiator] = floor
            self._above = {k for k in self._above if k.initiator != initiator or k.counter >= floor}
