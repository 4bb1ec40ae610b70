"""What drivers are told while they follow a system that goes back to its snapshots by itself."""

from collections.abc import Mapping
from typing import NamedTuple

from rayshot.protocol.identity import NOTHING_OWED, Owed, SnapshotId
from rayshot.runtime.wire.host_identity import HostIdentity, Stop


class Covered(NamedTuple):
    """A durable snapshot that advances holds the driver's messages up to these numbers, by receiver.

    `position` is that of its COMMIT in the log. `received` says up to which numbers they are processed there, `owed`
    which calls among these are not answered, `ended` which actors had ended.
    """

    position: int
    snapshot: SnapshotId
    sent: Mapping[str, int]
    received: Mapping[str, int]
    ended: frozenset[str]
    owed: Owed = NOTHING_OWED


class WentBack(NamedTuple):
    """The system went back to a snapshot, and a new life runs: `identity` is for the hosts that the driver makes in it.

    `position` is that of the life's EPOCH in the log; the rest is as in Covered, for the snapshot it went back to.
    """

    identity: HostIdentity
    position: int
    sent: Mapping[str, int]
    received: Mapping[str, int]
    ended: frozenset[str]
    owed: Owed = NOTHING_OWED


Notification = Covered | WentBack | Stop | None
"""The answer to a driver's long call; None if there was no news for a while: call again."""
