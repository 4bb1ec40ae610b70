"""One property asked of a whole history."""

from collections.abc import Iterable
from dataclasses import dataclass

from rayshot.errors import SnapshotDeleted
from rayshot.properties.order import in_order
from rayshot.properties.property import Property, require_stable
from rayshot.properties.verdict import Verdict, judge
from rayshot.protocol.identity import SnapshotId
from rayshot.store.catalog import SystemView
from rayshot.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Detection:
    """The verdicts of a history, in the order of the cuts, life after life.

    `life` is the present one, and `deleted` are snapshots that were deleted while they were read.
    """

    asked: Property
    verdicts: tuple[Verdict, ...]
    life: int
    deleted: tuple[SnapshotId, ...]

    @property
    def contradictions(self) -> list[tuple[Verdict, Verdict]]:
        """Pairs of which the first says that it holds in the second, where it does not: it is not stable here."""
        if self.asked.kind == "invariant":
            return []
        yes, no = ([one for one in self.verdicts if one.holds is answer] for answer in (True, False))
        return [(one, other) for one in yes for other in no if one.says_of(other)]

    @property
    def decisive(self) -> Verdict | None:
        """The verdict of the present life that settles it.

        Of a stable property the first yes, as long as no snapshot contradicts it and, where it needs that, no driver
        has spoken since; of an invariant the first no. None where there is none.
        """
        present = [one for one in self.verdicts if one.life == self.life]
        if self.asked.kind == "invariant":
            return next((one for one in present if one.holds is False), None)
        wrong = {one.snapshot for one, _ in self.contradictions}
        for one in present:
            spoken = one.closed and any(other.cut.told != one.cut.told for other in present[present.index(one) :])
            if one.holds and not spoken and one.snapshot not in wrong:
                return one
        return None

    @property
    def holds(self) -> bool | None:
        """Whether it holds at the end of the history, as far as that tells; None where no snapshot does.

        After a restore of which there is no snapshot yet nothing is told. False of a stable property means that it did
        not hold when the last snapshot began.
        """
        present = [one for one in self.verdicts if one.life == self.life]
        if not present:
            return None
        if self.asked.kind == "invariant":
            return present[-1].holds if self.decisive is None else False
        if self.decisive is not None:
            return True
        return False if present[-1].holds is False else None


def detect(history: SystemView | Iterable[Snapshot], asked: Property) -> Detection:
    """Ask a stable property of every snapshot.

    Args:
        history: a system, `rayshot.open(storage).system()`, or snapshots of one.
        asked: declared with `stable` or `invariant`, or a ready-made one.

    Raises NotStable for other predicates, PredicateFailed, and what reading snapshots raises. A snapshot that is
    deleted meanwhile is left out and counted.
    """
    asked = require_stable(asked)
    known = in_order(history)
    verdicts: list[Verdict] = []
    deleted = list(known.deleted)
    for one in known.ordered:
        try:
            verdicts.append(judge(asked, one))
        except SnapshotDeleted:
            deleted.append(one.id)
    return Detection(asked, tuple(verdicts), known.life, tuple(deleted))
