"""What a process knows of one open snapshot."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field


@dataclass(slots=True)
class Recorder:
    """Until the process has recorded, `ends` are, per sender, where its markers cut the channels.

    `driver_limits` are the last numbers that drivers sent before they knew of the snapshot, as far as that was after
    this process knew of it. `inputs` are those of an aligned snapshot, once the coordinator has told them.
    """

    recorded: bool = False
    abandoned: bool = False
    inputs: frozenset[str] | None = None
    ends: dict[str, int] = field(default_factory=dict)
    driver_limits: dict[str, int] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether the process is still to record."""
        return not (self.recorded or self.abandoned)

    def lower(self, limits: dict[str, int]) -> None:
        """Lower the limits per sender to what may be processed before this snapshot is recorded."""
        for ends in (self.ends, self.driver_limits):
            for sender, end in ends.items():
                limits[sender] = min(end, limits.get(sender, end))

    def aligned_behind(self, closed_at: Mapping[str, int], gone: AbstractSet[str]) -> dict[str, int] | None:
        """Behind which messages of its inputs an aligned snapshot is to be captured; None while markers are missing.

        `closed_at` has the last numbers of senders that will send nothing more, `gone` are all that have ended.
        """
        ends = {**closed_at, **self.ends}
        if not self.waits or self.inputs is None or not self.inputs <= ends.keys() | gone:
            return None
        return {sender: ends[sender] for sender in sorted(self.inputs & ends.keys())}

    def aligned(self, received: Mapping[str, int], closed_at: Mapping[str, int]) -> tuple[str, ...]:
        """The inputs of an aligned snapshot on which nothing is in flight at this moment."""
        ends = {**closed_at, **self.ends}
        return tuple(s for s in sorted(self.inputs or ()) if s in ends and received.get(s, 0) == ends[s])
