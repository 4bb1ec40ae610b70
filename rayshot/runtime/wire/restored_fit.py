"""How a snapshot fits the program that restored it, as the coordinator keeps it until the first commit that advances.

Until then the system goes back to that snapshot, and to no other. Only the program knew which classes of today stand
for those in the snapshot, and whom it left out: nothing of this is in the storage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rayshot.format.manifest import Manifest
from rayshot.format.pickling import dump_names
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.fit import Fit, without
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import SnapshotId


@dataclass(frozen=True, slots=True)
class RestoredFit:
    """The parts of `snapshot` that are loaded, and as what. No class of the user is in it, only names and pickles.

    `specifications` are those of the actors that are not left out, with the classes of the program. `names` says what
    replaces moved globals, as `dump_names` wrote it. `left_out` are the actors that count as ended, and `letters` the
    dead letters that this makes, by the actor that keeps them.
    """

    snapshot: SnapshotId
    specifications: Mapping[str, ActorSpecification]
    names: bytes
    left_out: frozenset[str] = frozenset()
    letters: Mapping[str, tuple[DeadLetter, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, fit: Fit, letters: Sequence[DeadLetter]) -> "RestoredFit":
        """How a snapshot fits this program; `letters` are the messages in flight to the actors that are left out.

        Raises CodeMismatch if what stands for a global cannot be brought to other processes.
        """
        names, left_out = dump_names(fit.names), frozenset(fit.left_out)
        return cls(fit.manifest.snapshot, fit.specifications, names, left_out, _by_keeper(fit.specifications, letters))

    def of_manifest(self, manifest: Manifest) -> Manifest:
        """The manifest of the snapshot without the actors that are left out."""
        return without(manifest, self.left_out)

    def is_recorded(self, manifest: Manifest) -> bool:
        """Whether all is as the snapshot itself says it, apart from what Ray is told, so anybody finds the same."""
        as_recorded = {
            actor.name: (actor.class_module, actor.class_name, None, actor.methods, actor.version)
            for actor in manifest.actors
        }
        found = {
            name: (one.class_module, one.class_name, one.class_pickle, one.methods, one.version)
            for name, one in self.specifications.items()
        }
        return self.names == dump_names({}) and found == as_recorded


def _by_keeper(names: Mapping[str, object], letters: Sequence[DeadLetter]) -> dict[str, tuple[DeadLetter, ...]]:
    """Give dead letters to their senders. The first actor gets those of drivers and of actors that no longer exist."""
    kept: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        kept.setdefault(letter.sender if letter.sender in names else min(names), []).append(letter)
    return {name: tuple(some) for name, some in kept.items()}
