"""What a coordinator is made with; it survives the coordinator's own death, so it is all that a successor needs."""

from dataclasses import dataclass, field

from rayshot.format.signing_key import SigningKey
from rayshot.model.configuration import FailureConfig, SnapshotConfig, Trace


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """One life of a system, numbered higher than `after`.

    `loading`: it is being restored and begins nothing until it is told that all are loaded.
    """

    system: str
    storage: str
    key: SigningKey | None = field(repr=False)
    snapshot: SnapshotConfig
    failure: FailureConfig
    trace: Trace = False
    loading: bool = False
    after: int = 0
