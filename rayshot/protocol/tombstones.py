"""Memory of ended snapshots, so that late news of them is swallowed."""

from rayshot.protocol.identity import SnapshotId


class Tombstones:
    """The ended snapshots of one incarnation; per initiator all below a floor count as ended and need no memory.

    Above the floors the newest `kept_max` are remembered; None: all.
    """

    def __init__(self, kept_max: int | None = None) -> None:
        self._kept_max = kept_max
        self._floors: dict[str, int] = {}
        self._above: dict[SnapshotId, None] = {}

    def __contains__(self, snapshot: SnapshotId) -> bool:
        return snapshot.counter < self.floor(snapshot.initiator) or snapshot in self._above

    def __len__(self) -> int:
        return len(self._above)

    def floor(self, initiator: str) -> int:
        """The floor of `initiator`: all its snapshots with a lower counter have ended."""
        return self._floors.get(initiator, 0)

    def add(self, snapshot: SnapshotId) -> None:
        """Remember that `snapshot` ended."""
        if snapshot not in self:
            self._above[snapshot] = None
            if self._kept_max is not None and len(self._above) > self._kept_max:
                del self._above[next(iter(self._above))]

    def raise_floor(self, initiator: str, floor: int) -> None:
        """Note that all snapshots of `initiator` with a counter below `floor` have ended; a floor never sinks."""
        if floor > self.floor(initiator):
            self._floors[initiator] = floor
            self._above = {k: None for k in self._above if k.initiator != initiator or k.counter >= floor}
