"""What one snapshot says about a property, and for which other snapshots this is true as well.

Let phi be stable within one life. If phi holds in the snapshot, it holds from the moment when the snapshot was
complete, until a restore. If it does not, it did not hold when the snapshot began. The snapshot itself may never have
been a state of the run. (Chandy and Lamport 1985, section 5; theorem 1.)

So a yes is valid for every cut that can be reached from this one, and a no for every cut from which this one can be
reached. A cut that overlapped is neither, whatever its position in the log. A restore ends the life of a verdict.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rayshot.errors import PredicateFailed
from rayshot.inert.jsonable import jsonable
from rayshot.properties.global_state import GlobalState
from rayshot.properties.property import Answer, Kind, Property
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.relation import CutClocks, relate_clocks
from rayshot.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one snapshot says about a property.

    `holds` is None if the snapshot does not tell. `told` gives, for each living driver, how many messages it had told
    by then; `cut` has all counters. `closed` and `still` are those of the property. A verdict no longer needs the
    snapshot, and can be pickled.
    """

    name: str
    kind: Kind
    holds: bool | None
    why: str
    evidence: Mapping[str, Any]
    conditions: tuple[str, ...]
    closed: bool
    still: bool
    told: Mapping[str, int]
    cut: CutClocks

    @property
    def snapshot(self) -> SnapshotId:
        """The snapshot that was judged."""
        return self.cut.snapshot

    @property
    def life(self) -> int:
        """The life of the system in which the verdict is valid."""
        return self.cut.snapshot.incarnation

    @property
    def meaning(self) -> str:
        """What follows from the verdict, in a sentence."""
        unless = ", as long as " + " and ".join(self.conditions) if self.conditions else ""
        match self.kind, self.holds:
            case _, None:
                return f"{self.snapshot} does not tell"
            case "possibly", True:
                return f"a run as good as the real one passed {self.snapshot}, where it holds"
            case "possibly", False:
                return "nothing follows: it may hold in other states"
            case "invariant", True:
                return f"it holds in {self.snapshot}"
            case "invariant", False:
                return f"it is broken in {self.snapshot}, a state that can be reached{unless}: a bug"
            case _, True:
                return f"it holds from the moment when {self.snapshot} was complete, until a restore{unless}"
        return f"it did not hold when {self.snapshot} began"

    def says_of(self, other: "Snapshot | Verdict") -> bool | None:
        """Whether the property holds in another snapshot, as far as this verdict alone tells; None if it does not.

        For a stable property a yes is valid for cuts that can be reached from this one, in the same life, and a no for
        those before it. If it holds only while no driver speaks, no driver may have spoken in between, as far as the
        two snapshots know: a driver that came and went between them is in neither. For `termination` it is valid only
        for cuts with the same counters, as no other cut can follow unless somebody spoke. For a property that is not
        stable it is valid only for its own cut. If the two overlapped, and only a driver that one of them does not know
        could decide, nothing follows. Raises ConfigError for another system.
        """
        cut = other.cut if isinstance(other, Verdict) else CutClocks.of(other.manifest)
        if self.holds is None:
            return None
        relation = relate_clocks(self.cut, cut)
        if not relation.sure or (self.closed and self.cut.told != cut.told):
            return None
        way = relation.name
        if self.kind != "stable" or self.still:
            return self.holds if way == "equal" else None
        return self.holds if way in {"equal", "before" if self.holds else "after"} else None


def judge(asked: Property, snapshot: Snapshot) -> Verdict:
    """Ask a property about one snapshot.

    Raises PredicateFailed if the predicate raises, leaves the program, or gives no answer; the error names predicate
    and snapshot, and has the predicate's own exception as its cause. Also raises what reading the snapshot raises.
    """
    if not isinstance(asked, Property):
        raise PredicateFailed(
            f"{asked!r:.100} was asked of {snapshot.id} and is not a property: declare it with @stable, or ask "
            "possibly(...)",
            snapshot=str(snapshot.id),
        )
    state = GlobalState(snapshot)
    cut = CutClocks.of(snapshot.manifest)
    told = dict(state.told)
    try:
        given = asked(state)
    except (Exception, SystemExit) as error:
        if state.has_raised(error):
            raise
        raise _failed(asked, snapshot, f"raised {type(error).__name__}: {error}") from error
    answer = given if isinstance(given, Answer) else Answer(_truth(asked, snapshot, given))
    holds = _truth(asked, snapshot, answer.holds)
    if not isinstance(answer.why, str) or not isinstance(answer.evidence, Mapping):
        raise _failed(asked, snapshot, f"gave {answer!r:.100}: `why` is a text, and `evidence` a mapping")
    evidence = {str(name): jsonable(value) for name, value in answer.evidence.items()}
    declared = asked.conditions, asked.closed, asked.still
    return Verdict(asked.name, asked.kind, holds, answer.why, evidence, *declared, told, cut)


def _truth(asked: Property, snapshot: Snapshot, given: object) -> bool | None:
    numpy = sys.modules.get("numpy")
    if given is None or isinstance(given, bool):
        return given
    if numpy is not None and isinstance(given, numpy.bool_):
        return bool(given)
    raise _failed(asked, snapshot, f"gave {given!r:.100}: return True, False, None, or an Answer")


def _failed(asked: Property, snapshot: Snapshot, what: str) -> PredicateFailed:
    return PredicateFailed(
        f"the predicate {asked.name!r}, asked of {snapshot.id}, {what}",
        predicate=asked.name,
        snapshot=str(snapshot.id),
    )
