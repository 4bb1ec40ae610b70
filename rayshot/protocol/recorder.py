"""What a process knows of one open snapshot."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from rayshot.protocol.identity import is_driver
from rayshot.protocol.out_channel import OutChannel


@dataclass(slots=True)
class Recorder:
    """The state of one open snapshot. Until the process has recorded, `ends` are where markers cut, per sender.

    `driver_limits` are the last numbers that drivers sent before they knew of the snapshot, if this process knew of it
    earlier. `inputs` are those of an aligned snapshot, once the coordinator has told them. `paused`: the snapshot keeps
    handlers from running. `last_sent` are the last numbers sent before the pause, until they have arrived at all
    receivers; `expected` are the receivers where they have not.
    """

    recorded: bool = False
    abandoned: bool = False
    paused: bool = False
    last_sent: Mapping[str, int] | None = None
    expected: set[str] = field(default_factory=set)
    inputs: frozenset[str] | None = None
    ends: dict[str, int] = field(default_factory=dict)
    driver_limits: dict[str, int] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether the process still has to record."""
        return not (self.recorded or self.abandoned)

    def falls_quiet(self, receivers: Iterable[str], channels: Mapping[str, OutChannel]) -> bool:
        """Whether everything sent before the pause has now arrived: `receivers` are those to look at again.

        True only once. Messages for a receiver that has not said hello yet are not transported, so they do not count.
        """
        if self.last_sent is None:
            return False
        for receiver in receivers:
            channel = channels.get(receiver)
            if channel and channel.ready and channel.acknowledged < self.last_sent.get(receiver, 0):
                self.expected.add(receiver)
            else:
                self.expected.discard(receiver)
        if self.expected:
            return False
        self.last_sent = None
        return True

    def aligned_behind(self, closed_at: Mapping[str, int], gone: AbstractSet[str]) -> dict[str, int] | None:
        """The messages of its inputs behind which an aligned snapshot captures; None while markers are missing.

        `closed_at` has the last numbers of senders that will send nothing more; `gone` are all that have ended.
        """
        if not self.waits or self.inputs is None:
            return None
        if len(self.inputs) > len(closed_at) + len(self.ends) + len(gone):
            return None  # while markers come, counting them is enough: no walk over the inputs for each marker
        ends = {**closed_at, **self.ends}
        if not self.inputs <= ends.keys() | gone:
            return None
        return {sender: ends[sender] for sender in sorted(self.inputs & ends.keys())}

    def aligned(self, received: Mapping[str, int], closed_at: Mapping[str, int]) -> tuple[str, ...]:
        """The inputs of an aligned snapshot on which nothing is in flight at this moment."""
        ends = {**closed_at, **self.ends}
        return tuple(s for s in sorted(self.inputs or ()) if s in ends and received.get(s, 0) == ends[s])

    def fix_channels(
        self, arrived: Mapping[str, int], closed_at: Mapping[str, int]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """The n of channels that will bring no marker: those of living drivers, and of senders that are gone.

        In a cut that ends before the last message of a dead driver, because of a tag, this driver is still alive.
        """
        environment: dict[str, int] = {}
        closed: dict[str, int] = {}
        for sender, last in arrived.items():
            gone = sender in closed_at
            if (gone or is_driver(sender)) and sender not in self.ends:
                n = self.ends[sender] = min(last, self.driver_limits.get(sender, last))
                (closed if gone and n == last else environment)[sender] = n
        return environment, closed

    def mailbox_ends(self, arrived: Mapping[str, int], received: Mapping[str, int]) -> dict[str, int]:
        """The last number in the mailbox that belongs to the snapshot, for each sender that has such messages."""
        ends = {sender: min(last, self.ends.get(sender, last)) for sender, last in arrived.items()}
        return {sender: end for sender, end in ends.items() if end > received.get(sender, 0)}


def limits_of(recorders: Iterable[Recorder]) -> dict[str, int]:
    """The last numbers per sender that may be processed before these snapshots are recorded."""
    limits: dict[str, int] = {}
    for recorder in recorders:
        for ends in (recorder.ends, recorder.driver_limits) if recorder.waits else ():
            for sender, end in ends.items():
                limits[sender] = min(end, limits.get(sender, end))
    return limits
