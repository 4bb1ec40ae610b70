"""Records: what a process counted at the moment it recorded. One that breaks its rules cannot be built."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayshot.protocol.identity import SnapshotId, is_driver, label_of


@dataclass(frozen=True, slots=True)
class Record:
    """One process's counters at the moment it recorded; its state travels beside it.

    All mappings count messages since the process's first life; their keys are the other ends of the channels.
    `released[q] <= transported[q] <= sent[q]`: q acknowledged up to `released` before it recorded, so q had these
    messages by then; the messages released+1 .. sent, transported or not, come with the record. `arrived[p]`: the
    messages received+1 .. arrived of sender p, in the mailbox, come with the record; p is left out if there are none.
    `environment[d]` is the n of a driver's channel; the receiver fixes it, as drivers never record. The receiver also
    fixes `closed[p]`, for a sender p that has ended or is a driver that died: nothing will follow on that channel.
    `born` is false while the constructor's message is not processed: such a process has no state.
    `ended` marks the last record of a process that ended by its own wish.
    `aligned` are the inputs of an aligned snapshot with every message processed that was sent before their markers.
    `overlaps` are the snapshots that this process had recorded before without knowing their end.
    `forgotten` counts the dead drivers whose counters this process had forgotten in this life.
    `owed[d]` are the numbers of those messages up to `received[d]` that are calls of a living driver without an answer.

    A record that breaks these rules cannot be built, nor one with `received[p]` above p's `arrived`, `closed` or
    `environment`.
    """

    snapshot: SnapshotId
    process: str
    born: bool = True
    sent: Mapping[str, int] = field(default_factory=dict)
    transported: Mapping[str, int] = field(default_factory=dict)
    released: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, int] = field(default_factory=dict)
    ended: bool = False
    closed: Mapping[str, int] = field(default_factory=dict)
    overlaps: tuple[SnapshotId, ...] = ()
    aligned: tuple[str, ...] = ()
    arrived: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0
    owed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sent, transported, received = self.sent, self.transported, self.received
        for q, n in self.released.items():
            assert 0 <= n <= transported.get(q, 0) <= sent.get(q, 0), f"released {n}, {self} to {q!r}"
        for ends in (self.arrived, self.closed, self.environment):
            for p, n in ends.items():
                assert 0 <= received.get(p, 0) <= n, f"received {received.get(p, 0)}, {self} from {p!r}"
        for driver, numbers in self.owed.items():
            assert 0 < min(numbers) <= max(numbers) <= received.get(driver, 0), f"{self} owes {driver!r} {numbers}"

    @property
    def sent_by_drivers(self) -> dict[str, int]:
        """The n of the channels from drivers, alive or dead."""
        return {**self.environment, **{sender: n for sender, n in self.closed.items() if is_driver(sender)}}

    @property
    def past_drivers(self) -> frozenset[str]:
        """The dead drivers with no message in flight: this process had processed everything that it took from them.

        The numbers of programs with a name are not among them: they are kept, so that the next process of the program
        knows what was told.
        """
        received = self.received
        dead = (d for d, n in self.closed.items() if is_driver(d) and received.get(d, 0) == n)
        return frozenset(driver for driver in dead if not label_of(driver))


def last_record(
    none: SnapshotId, process: str, sent: Mapping[str, int], received: Mapping[str, int], closed: Mapping[str, int]
) -> Record:
    """The last record of a process that ends, for no snapshot: all that the process sent has arrived."""
    return Record(
        none,
        process,
        sent=sent,
        transported=sent,
        released=sent,
        received=dict(received),
        ended=True,
        closed=dict(closed),
    )
