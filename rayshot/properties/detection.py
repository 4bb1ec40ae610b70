"""One property, asked about a whole history."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rayshot.errors import SnapshotDeleted
from rayshot.properties.order import in_order
from rayshot.properties.property import Property, require_stable
from rayshot.properties.verdict import Verdict, judge
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.relation import relate_clocks
from rayshot.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Detection:
    """The verdicts of a history, in the order of the cuts, life after life.

    `life` is the present one; `deleted` are snapshots that were deleted during the reading.
    """

    asked: Property
    verdicts: tuple[Verdict, ...]
    life: int
    deleted: tuple[SnapshotId, ...]

    @property
    def contradictions(self) -> list[tuple[Verdict, Verdict]]:
        """Each no with a yes that should hold there too, if there is one: then the property is not stable here.

        Or else a condition was broken. If no driver may speak, perhaps a driver came and went between the two; neither
        of them knows it.
        """
        pairs = (
            (_last_before(no, self.verdicts[:index]), no) for index, no in enumerate(self.verdicts) if no.holds is False
        )
        return [(yes, no) for yes, no in pairs if yes is not None and yes.says_of(no)]

    @property
    def decisive(self) -> Verdict | Any:
        """The verdict of the present life that decides the answer; None if there is none.

        For a stable property it is the first yes, as long as no snapshot of this life contradicts another. If it holds
        only while no driver speaks, no driver may have spoken since; for `termination`, nothing may have happened
        since. For an invariant it is the first no.
        """
        present = self._present
        if self.asked.kind == "invariant":
            return next((one for one in present if one.holds is False), None)
        if self._contradicted:
            return None
        return next((one for index, one in enumerate(present) if one.holds and not _spoken(one, index, present)), None)

    @property
    def holds(self) -> bool | None:
        """Whether it holds at the end of the history, as far as the history shows.

        False for a stable property means that it did not hold when the last snapshot began. None if the last snapshot
        does not tell, if the property proved not to be stable, or if there is no snapshot yet after a restore.
        """
        present = self._present
        if not present or self._contradicted:
            return None
        if self.decisive is not None:
            return self.asked.kind == "stable"
        last = present[-1].holds
        return last if self.asked.kind == "invariant" or last is False else None

    @property
    def _present(self) -> list[Verdict]:
        return [one for one in self.verdicts if one.life == self.life]

    @property
    def _contradicted(self) -> bool:
        return any(no.life == self.life for _, no in self.contradictions)


def _last_before(no: Verdict, earlier: Sequence[Verdict]) -> Verdict | None:
    """The last yes whose cut is before `no`. If a driver spoke since then, it also spoke since any earlier yes."""
    for one in reversed(earlier):
        if one.life != no.life:
            return None
        relation = relate_clocks(one.cut, no.cut)
        if one.holds and relation.sure and relation.name in {"before", "equal"}:
            return one
    return None


def _spoken(verdict: Verdict, index: int, present: list[Verdict]) -> bool:
    """Whether a verdict that needs silent drivers is out of date: a driver has spoken since, or died since.

    A verdict of a still system is out of date if anything happened.
    """
    if not verdict.closed:
        return False
    if verdict.still and any(relate_clocks(verdict.cut, other.cut).forward for other in present):
        return True
    told = verdict.cut.told
    return any(
        other.cut.told != told
        if place > index
        else any(count > told.get(ends, count) for ends, count in other.cut.told.items())
        for place, other in enumerate(present)
    )


def detect(history: SystemView | Iterable[Snapshot], asked: Property) -> Detection:
    """Ask a stable property about every snapshot.

    Args:
        history: a system, `rayshot.open(storage).system()`, or snapshots of one.
        asked: a property declared with `stable` or `invariant`, or a ready-made one.

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
