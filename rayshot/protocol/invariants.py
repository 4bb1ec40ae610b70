"""What must hold between any two events of a machine, checked from its counters alone.

A wrong counter would show in a cut much later, or never. Here it shows at the event that made it wrong.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from rayshot.protocol.identity import STOP_THE_WORLD, SnapshotId
from rayshot.protocol.out_channel import OutChannel
from rayshot.protocol.recorder import Recorder
from rayshot.protocol.tombstones import Tombstones


def check_counters(
    out: Mapping[str, OutChannel],
    arrived: Mapping[str, int],
    held: Mapping[str, Mapping[int, int]],
    closed_at: Mapping[str, int],
    forgotten: AbstractSet[str],
) -> None:
    """Check both sides of all channels: nothing is acknowledged before it is sent, and no gap is delivered."""
    for receiver, channel in out.items():
        assert 0 <= channel.acknowledged <= channel.transported, f"to {receiver}: {channel}"
        for snapshot, n in channel.kept_from.items():
            assert 0 <= n <= channel.acknowledged, f"to {receiver}: kept from {n} for {snapshot}: {channel}"
    for sender, batches in held.items():
        assert batches, f"from {sender}: nothing is held, and it takes memory"
        behind = arrived.get(sender, 0) + 1
        assert all(first > behind and count > 0 for first, count in batches.items()), (
            f"from {sender}: {batches} are held though {behind - 1} have arrived"
        )
    for sender, last in closed_at.items():
        assert arrived.get(sender, 0) <= last, f"from {sender}: {arrived[sender]} arrived, {last} was the last one"
        assert sender not in forgotten, f"from {sender}: it is forgotten, and counted"


def check_recorders(
    incarnation: int, recorders: Mapping[SnapshotId, Recorder], tombstones: Tombstones, channels: Iterable[OutChannel]
) -> None:
    """Check the snapshots of one process: none is both open and over, and channels know only open ones."""
    for snapshot, recorder in recorders.items():
        assert snapshot.incarnation == incarnation, f"{snapshot} is open in life {incarnation}"
        assert snapshot not in tombstones, f"{snapshot} is open, and has ended"
        if recorder.paused:
            assert snapshot.mode == STOP_THE_WORLD, f"{snapshot} pauses the handlers"
            assert not recorder.abandoned, f"{snapshot} is given up, and pauses the handlers"
    for channel in channels:
        for snapshot in channel.due:
            assert snapshot in recorders, f"a marker of {snapshot} is due, which is not open"
            assert recorders[snapshot].recorded, f"a marker of {snapshot} is due, which is not recorded"
        for snapshot in channel.kept_from:
            assert snapshot in recorders, f"messages are kept for {snapshot}, which is not open"
            assert recorders[snapshot].waits, f"messages are kept for {snapshot}, which waits for nothing"
