"""How a snapshot fits the program that goes on from it: this is checked before anything is started or stopped."""

from dataclasses import dataclass, replace

from rayshot.format.signing_key import find_trusted_keys
from rayshot.model.rename_classes import RenamedClasses
from rayshot.model.resolution import Fit, SkipMissing, fit
from rayshot.model.stored_options import ActorOptions, supply
from rayshot.snapshots.snapshot import Snapshot, check_allow_unsigned, check_trust


@dataclass(frozen=True)
class Fitting:
    """What a person says about a snapshot from which a system goes on; see the arguments of `rayshot.restore`."""

    allow_unsigned: bool = False
    rename_classes: RenamedClasses | None = None
    skip_missing_classes: SkipMissing = False
    options: ActorOptions | None = None

    def __post_init__(self) -> None:
        check_allow_unsigned(self.allow_unsigned)

    def of(self, snapshot: Snapshot) -> Fit:
        """How this snapshot fits. Raises Untrusted, Damaged, Incompatible, NotFound and ConfigError."""
        check_trust(snapshot, find_trusted_keys(), allow_unsigned=self.allow_unsigned)
        found = fit(
            snapshot.manifest, snapshot.read, self.rename_classes, skip_missing_classes=self.skip_missing_classes
        )
        return replace(found, specifications=supply(found.specifications, self.options))
