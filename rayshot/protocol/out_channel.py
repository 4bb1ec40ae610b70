"""The sender's side of one channel, as the machine counts it."""

from dataclasses import dataclass, field

from rayshot.protocol.events import Marker
from rayshot.protocol.identity import ALIGNED, SnapshotId


@dataclass(slots=True)
class OutChannel:
    """The sender's side. `acknowledged <= transported`; `due` are the markers that go with batches until acknowledged.

    `kept_from`, for each snapshot that the receiver had recorded and this process has not: the number acknowledged
    before the receiver told of the snapshot. Messages above that number are kept.
    """

    transported: int = 0
    acknowledged: int = 0
    ready: bool = False
    due: dict[SnapshotId, Marker] = field(default_factory=dict)
    kept_from: dict[SnapshotId, int] = field(default_factory=dict)

    @property
    def released(self) -> int:
        """The number up to which no message is needed any more."""
        return min(self.acknowledged, *self.kept_from.values()) if self.kept_from else self.acknowledged


def spreads(snapshot: SnapshotId) -> bool:
    """Whether a snapshot's markers are also sent without messages: to spread its news, or to reach idle inputs."""
    return not snapshot.by_coordinator or snapshot.mode == ALIGNED
