"""What a coordinator is made with; it survives the coordinator's own death, so it is all that a successor needs."""

from dataclasses import dataclass, field

from rayshot.format.encryption_key import EncryptionKey
from rayshot.format.signing_key import Signer
from rayshot.model.configuration import FailureConfig, SnapshotConfig, Trace


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """One life of a system, numbered higher than `after`.

    `loading`: it is being restored and begins nothing until it is told that all are loaded. Keys come from the driver
    and go nowhere else: a vault gets the data key of one snapshot at a time.
    """

    system: str
    storage: str
    key: Signer | None = field(repr=False)
    snapshot: SnapshotConfig
    failure: FailureConfig
    trace: Trace = False
    loading: bool = False
    encryption_keys: tuple[EncryptionKey, ...] = field(default=(), repr=False)
    after: int = 0
