"""What a coordinator is made with; it survives the coordinator's own death, so it is all that a successor needs."""

from dataclasses import dataclass
from typing import Any

from rayshot.model.configuration import FailureConfig, SnapshotConfig, Trace
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime.wire.host_identity import HostIdentity

RECORDER_TIMEOUTS = 1.5
"""An actor gives a snapshot up after this many time-outs, should its end get lost."""


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """One life of a system, numbered higher than `after`.

    `loading`: it is being restored and begins nothing until it is told that all are loaded. `beginning`: nothing is
    committed before its first snapshot, which is asked for when what makes its actors has returned. `fresh`: it may
    begin where there are snapshots of earlier lives. `pin` is the snapshot to which its program goes back, see
    `store.pinning`. `keys` are the names of its keys, see `keyring`: Ray keeps this object, so the keys themselves are
    not in it.
    """

    system: str
    storage: str
    keys: tuple[str, ...]
    snapshot: SnapshotConfig
    failure: FailureConfig
    trace: Trace = False
    loading: bool = False
    beginning: bool = False
    fresh: bool = False
    after: int = 0
    pin: SnapshotId | None = None

    def identity(self, incarnation: int, coordinator: Any, config: SnapshotConfig) -> HostIdentity:
        """What hosts of the life `incarnation` are told, whose snapshots are taken as `config` says now."""
        timeout_s = RECORDER_TIMEOUTS * config.timeout_s
        told = coordinator, self.storage, timeout_s, config.max_in_flight_bytes, self.trace
        return HostIdentity(self.system, incarnation, COORDINATOR, *told)
