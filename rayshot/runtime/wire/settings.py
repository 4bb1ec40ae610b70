"""The settings with which a coordinator is made. They survive its death, so the next coordinator needs nothing else."""

from dataclasses import dataclass
from typing import Any

from rayshot.model.configuration import KEPT, FailureConfig, Loops, SnapshotConfig, Trace
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime.wire.host_identity import HostIdentity


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """One life of a system, numbered higher than `after`.

    `loading`: the life is being restored, and begins no snapshot until it is told that all actors are loaded.
    `beginning`: nothing is committed before the first snapshot, which is requested when the `begin` function has
    returned. `fresh`: the life may begin even if the storage has snapshots of earlier lives. `pin` is the snapshot to
    which its program goes back, see `store.pinning`. `hash_seed` and `loops` are for hosts, see HostIdentity. `keys`
    are the names of its keys, see `keyring`. `files` is the root of what actors write for snapshots, see OutsideTerms.
    `takeover`: where the system begins, it may take what another run has outside. Ray keeps this object, so it does not
    hold the keys themselves.
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
    hash_seed: int | None = None
    loops: Loops = KEPT
    files: str | None = None
    takeover: bool = False

    def identity(self, incarnation: int, coordinator: Any, config: SnapshotConfig) -> HostIdentity:
        """The identity for hosts of the life `incarnation`, whose snapshots are taken as `config` says now."""
        told = coordinator, self.storage, config.timeout_s, config.max_in_flight_bytes, self.trace
        return HostIdentity(
            self.system,
            incarnation,
            COORDINATOR,
            *told,
            heals=self.failure.heals,
            hash_seed=self.hash_seed,
            loops=self.loops,
        )
