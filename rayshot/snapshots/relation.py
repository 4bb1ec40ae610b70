"""The order of two cuts of one system, by the counters in their manifests. It reads no chunk.

Theory of operation. Ids and times do not order cuts. Each actor has a clock: the numbers of messages that it has sent
on each channel out, and received on each channel in. For a driver's channel the receiver's clock has both numbers,
because drivers never record. One cut is before another if no actor's clock is ahead of its clock in the other: then the
second can be reached from the first. If two snapshots of one life overlapped, one actor may go forward and another
back. Then neither is before the other, and a comparison of their values would show changes that never happened.

If only one of two cuts names a channel, nothing was sent on it in the other cut, with two exceptions: a manifest leaves
out the channels of actors that have ended, and of drivers that died. `Manifest.ended` names the first. A driver's
channel may be new or past, so it decides nothing about an actor if anything else is known of it. If nothing else
differs at all, the cut that was committed later counts as the later one. That is sure if it began after the other's
commit, which its manifest says (`FOLLOWS`). If the two overlapped it is a guess: an actor of which only such a driver
is known may have gone forward or back, and the relation is not `sure`.

A restore continues the counters of its snapshot, so the clocks of two lives cannot be compared.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from rayshot.errors import ConfigError, Incomparable
from rayshot.format.manifest import FOLLOWS, Manifest
from rayshot.protocol.identity import SnapshotId, is_driver

RelationName = Literal["before", "after", "equal", "incomparable", "other life"]
NAMES_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Relation:
    """The order of an older and a newer cut: `name` says that the older is before, after, ...

    The actors in `forward` have done more in the newer cut, the actors in `back` have done more in the older. It is not
    `sure` if an actor may belong to either, because only one of two overlapping cuts knows a driver of it.
    """

    name: RelationName
    forward: tuple[str, ...]
    back: tuple[str, ...]
    sure: bool = True

    @property
    def comparable(self) -> bool:
        """Whether one of the two can be reached from the other."""
        return self.name in {"before", "after", "equal"}


Clock = Mapping[tuple[str, str], int]
"""One actor's counters, by ("to" or "from" or "of", the other end): sent, received, and sent by a driver."""


def clocks(manifest: Manifest) -> dict[str, Clock]:
    """The clock of each actor of a cut that ever sent or received."""
    found: defaultdict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for channel in manifest.channels:
        of_driver = is_driver(channel.sender)
        counter, other = (channel.receiver, channel.sender) if of_driver else (channel.sender, channel.receiver)
        found[counter]["of" if of_driver else "to", other] = channel.sent
        found[channel.receiver]["from", channel.sender] = channel.received
    return dict(found)


def actor_clock(clock: Clock) -> int:
    """An actor's work in one number: messages received and sent on all its channels."""
    return sum(count for (kind, _), count in clock.items() if kind != "of")


@dataclass(frozen=True, slots=True)
class CutClocks:
    """The parts of a cut that order it among others. It outlives the snapshot.

    `follows` is the last log position that was committed when this snapshot began, or -1 if that is unknown.
    """

    system: str
    snapshot: SnapshotId
    position: int
    follows: int
    actors: frozenset[str]
    ended: frozenset[str]
    clocks: Mapping[str, Clock]

    @classmethod
    def of(cls, manifest: Manifest) -> "CutClocks":
        """The cut of a manifest."""
        names = frozenset(actor.name for actor in manifest.actors)
        ended, known = frozenset(manifest.ended), clocks(manifest)
        follows = int(manifest.stats.get(FOLLOWS, -1))
        return cls(manifest.system, manifest.snapshot, manifest.position, follows, names, ended, known)

    @property
    def names(self) -> frozenset[str]:
        """All actors that it knows of."""
        return self.actors | self.ended

    @property
    def told(self) -> dict[tuple[str, str], int]:
        """(Driver, receiver) -> how many messages the driver had sent. Drivers that died are left out."""
        return {
            (other, actor): count
            for actor, clock in self.clocks.items()
            for (kind, other), count in clock.items()
            if kind == "of"
        }

    def stage(self, name: str) -> int:
        """0 before an actor's birth, 1 while it lives, 2 after its end."""
        return 2 if name in self.ended else int(name in self.actors)


def relate(old: Manifest, new: Manifest) -> Relation:
    """Compare two cuts of one system. Raises ConfigError for two systems."""
    return relate_clocks(CutClocks.of(old), CutClocks.of(new))


def relate_clocks(old: CutClocks, new: CutClocks) -> Relation:
    """As `relate`."""
    if old.system != new.system:
        raise ConfigError(
            f"{old.snapshot} is of the system {old.system!r} and {new.snapshot} of {new.system!r}: "
            "only snapshots of one system can be compared"
        )
    steps = {name: _step(name, old, new) for name in old.names | new.names}
    forward, back = (tuple(sorted(name for name, step in steps.items() if step == way)) for way in (1, -1))
    if old.snapshot.incarnation != new.snapshot.incarnation:
        return Relation("other life", forward, back)
    if forward and back:
        return Relation("incomparable", forward, back)
    way, untold = bool(forward) - bool(back), None in steps.values()
    by_position = (new.position > old.position) - (new.position < old.position)
    if way == 0 and untold:
        way = by_position
    apart = new.follows >= old.position or old.follows >= new.position
    name: RelationName = "equal" if way == 0 else "before" if way > 0 else "after"
    return Relation(name, forward, back, sure=apart or not untold)


def require_comparable(old: Manifest, new: Manifest) -> Relation:
    """As `relate`; raises Incomparable unless one cut can be reached from the other in one life."""
    relation = relate(old, new)
    if relation.comparable:
        return relation
    evidence = {
        "relation": relation.name,
        "old": str(old.snapshot),
        "new": str(new.snapshot),
        "actors_forward": list(relation.forward),
        "actors_back": list(relation.back),
    }
    moves = f"forward go {some_of(relation.forward)}; back go {some_of(relation.back)}"
    if relation.name == "other life":
        raise Incomparable(
            f"{old.snapshot} and {new.snapshot} are of different lives, and there is a restore between them: from the "
            f"first to the second {moves}; compare snapshots of one life",
            **evidence,
        )
    raise Incomparable(
        f"{old.snapshot} and {new.snapshot} overlapped, and neither is before the other: from the first to the "
        f"second {moves}; compare each with a snapshot that was taken when no other was open",
        **evidence,
    )


def _step(name: str, before: CutClocks, after: CutClocks) -> int | None:
    """1 for an actor that went forward, -1 for back, 0 for neither; None if the clocks do not tell."""
    stages = after.stage(name) - before.stage(name)
    if stages:
        return 1 if stages > 0 else -1
    if name in before.ended:
        return 0  # a cut leaves out its channels one by one, as their messages are processed
    one, other = before.clocks.get(name, {}), after.clocks.get(name, {})
    untold = False
    for key in one.keys() | other:
        if key in one and key in other:
            difference = other[key] - one[key]
        elif is_driver(key[1]):
            untold = True
            continue
        elif key[1] in (after if key in one else before).ended:
            continue
        else:
            difference = other.get(key, 0) - one.get(key, 0)
        if difference:
            return 1 if difference > 0 else -1
    return None if untold else 0


def some_of(names: Iterable[str]) -> str:
    """The first few names, for a sentence."""
    known = list(names)
    shown = ", ".join(known[:NAMES_SHOWN_MAX]) or "none"
    return f"{shown} and {len(known) - NAMES_SHOWN_MAX:,} more" if len(known) > NAMES_SHOWN_MAX else shown
