"""Where a sum that should never change did: the first interval, and the actors whose own books do not balance.

Theory of operation. What a system only moves about, such as money, is the same in every state that can be reached, and
so in every snapshot: what all actors hold and what messages in flight carry, together. Where two snapshots differ,
something between them made or lost it.

Who it was the two snapshots tell by books. Of an actor's channels the counters say which messages it sent and processed
between two cuts, one of which lies before the other, and the content is there for those that are in flight in either.
Held after - held before + sent - processed is 0 for whoever only moves things about. A message that was sent and
processed between the two is in neither, and nobody knows what it carried; but it leaves one end as it reaches the
other, so that the sum over both ends is known. Actors that such messages join are one account here. Where an actor
ended in between, its messages are in neither, nor are its counters: then all actors are one account.

Drivers have no state. What a driver tells brings in what it carries; of what nobody saw that is taken to be nothing,
unless a message of a driver that somebody saw carries something: then drivers keep accounts as actors do.

A manifest names a driver while it lives, and while a message of it is in flight. So a driver that started after the
first snapshot, died before the second, and had all its messages processed by then, is in neither. If it brought
something in, the actors that got it are suspects, and nothing says that it was there. Only traces tell: run again by
`rayshot.audit.name_messages`, these actors balance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rayshot.errors import ConfigError, PredicateFailed, SnapshotDeleted
from rayshot.properties.books import Account, Books
from rayshot.properties.global_state import GlobalState
from rayshot.properties.order import Known, in_order
from rayshot.properties.quantity import Exact, Quantity, Sum, add_up, exact, plain, size
from rayshot.protocol.identity import SnapshotId
from rayshot.store.catalog import SystemView
from rayshot.store.relation import some_of
from rayshot.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Total:
    """What there was in one snapshot: `held` by actors, `moving` in messages in flight, and both by name in `parts`."""

    snapshot: SnapshotId
    log_index: int
    taken_at: datetime
    parts: Sum

    @property
    def held(self) -> int | float:
        """By all actors."""
        return plain(self.parts.at_rest)

    @property
    def moving(self) -> int | float:
        """Carried by messages in flight."""
        return plain(self.parts.in_flight)

    @property
    def total(self) -> int | float:
        """All that there was; without what is `untold`."""
        return plain(self.parts.total)

    @property
    def untold(self) -> tuple[str, ...]:
        """Why there may be more: what replies and constructors bring, and is not counted. See `quantity`."""
        return self.parts.untold


@dataclass(frozen=True, slots=True)
class Interval:
    """Two snapshots between which the sum changed by `change`; `new` is the first one where it is another.

    `comparable`: the cut of `old` lies before that of `new`, or `new` is of the life that was restored from `old`; only
    then are there `accounts`, those that do not balance first. `born` and `ended` are actors that came and went:
    who comes with something in its hands changes a sum, and so does who goes with it. `told` is how many messages each
    driver told in between, `brought_in` what those of them carried that somebody saw. `drivers_gone` died in between,
    and nobody knows how much they told before.
    """

    old: Snapshot
    new: Snapshot
    change: int | float
    comparable: bool
    accounts: tuple[Account, ...]
    born: tuple[str, ...]
    ended: tuple[str, ...]
    told: Mapping[str, int]
    brought_in: int | float
    drivers_gone: tuple[str, ...]

    @property
    def suspects(self) -> tuple[str, ...]:
        """The actors whose books do not balance; all of an account whose members cannot be told apart."""
        return tuple(name for account in self.accounts if not account.balanced for name in account.actors)

    @property
    def why(self) -> str:
        """What is known of it, in a sentence."""
        moved = f"{_signed(self.change)} between {self.old.id} and {self.new.id}"
        if not self.comparable:
            return f"{moved}; {self.apart}: nobody's books can be told from these two"
        wrong = [account for account in self.accounts if not account.balanced]
        whose = "; ".join(f"{_signed(one.appeared)} at {some_of(one.actors)}" for one in wrong)
        told = ", ".join(f"{count:,} messages of {driver}" for driver, count in self.told.items())
        came = [f"born: {some_of(self.born)}"] if self.born else []
        went = [f"ended: {some_of(self.ended)}{self._joined}"] if self.ended else []
        spoke = [f"told in between: {told}"] if told else []
        died = [f"died: {some_of(self.drivers_gone)}, who may have told more"] if self.drivers_gone else []
        return ". ".join([f"{moved}: {whose or 'all books balance'}", *came, *went, *spoke, *died])

    @property
    def apart(self) -> str:
        """Why nothing leads from one to the other; "" where they are comparable."""
        if self.comparable:
            return ""
        life = self.new.id.incarnation
        if life == self.old.id.incarnation:
            return "the two overlapped"
        return f"between them life {life} began, with a snapshot whose total is not known"

    @property
    def _joined(self) -> str:
        if [len(one.actors) > 1 for one in self.accounts] != [True]:
            return ""
        return ", with whom anybody may have exchanged something that is in neither snapshot: all are one account"


@dataclass(frozen=True, slots=True)
class Conservation:
    """The totals of a history, in an order in which no cut comes after one that it lies before, life after life.

    `broken` is the first interval in which the sum changed, None where it never did. A total of which a part is untold
    is compared with no other. `tolerance` is how far totals may differ. `deleted` are snapshots that were deleted while
    they were read.
    """

    what: Quantity
    tolerance: float
    totals: tuple[Total, ...]
    broken: Interval | None
    snapshots: tuple[Snapshot, ...] = field(repr=False, default=())
    deleted: tuple[SnapshotId, ...] = ()

    @property
    def holds(self) -> bool | None:
        """Whether the sum is the same in all snapshots; None where that is not told of some, and of the others it is.

        It may be False though no interval is broken: where it crept away, each time by less than `tolerance`.
        """
        sums = [one.parts.total for one in self.totals if not one.untold]
        allowed = exact(self.tolerance, "tolerance")
        if self.broken is not None or any(size(one - sums[0]) > allowed for one in sums):
            return False
        return True if len(sums) == len(self.totals) else None


def conservation(history: SystemView | Iterable[Snapshot], what: Quantity, *, tolerance: float = 0) -> Conservation:
    """Find out whether a quantity is conserved over a history, and where it first was not.

    Every state, and every message in flight, of every snapshot is read once; of the two snapshots of a broken interval
    twice. Which message it was `rayshot.audit.name_messages(found)` says, where the system was traced.

    Args:
        history: a system, `rayshot.open(storage).system()`, or snapshots of one. Only a system tells what a life was
            restored from. Where that is not told, or was deleted, a life is compared with the last snapshot before
            that was read, and there are no accounts.
        what: is to stay the same, see `quantity`: `quantity("balance", "deposit")`.
        tolerance: how far two totals may differ. Sums are exact; give one where actors themselves round.

    Raises ConfigError for what cannot be added up, PredicateFailed where a function in `what` raises, and what reading
    snapshots raises. A snapshot that is deleted meanwhile is left out and counted.
    """
    known = in_order(history)
    deleted = [*known.deleted]
    allowed = exact(tolerance, "tolerance")
    if allowed < 0:
        raise ConfigError(f"tolerance={tolerance!r}: give 0 or more")
    totals: list[Total] = []
    sums: dict[SnapshotId, Sum] = {}
    broken: Interval | None = None
    for one in known.ordered:
        try:
            parts = _added(what, one)
        except SnapshotDeleted:
            deleted.append(one.id)
            continue
        totals.append(Total(one.id, one.record.position, one.taken_at, parts))
        if parts.untold:
            continue
        while broken is None and one.id not in deleted:
            before = _before(one, known, sums)
            if before is None or size(parts.total - sums[before.id].total) <= allowed:
                break
            try:
                broken = _interval(what, before, one, sums[before.id], parts, known, allowed)
            except SnapshotDeleted as error:  # its messages are read again; the other one is compared with the next
                gone = before if error.evidence.get("snapshot") == str(before.id) else one
                deleted.append(gone.id)
                sums.pop(gone.id, None)
        if one.id not in deleted:
            sums[one.id] = parts
    kept = tuple(total for total in totals if total.snapshot not in deleted)
    return Conservation(what, plain(allowed), kept, broken, tuple(known.ordered), tuple(deleted))


def _added(what: Quantity, snapshot: Snapshot) -> Sum:
    state = GlobalState(snapshot)
    try:
        return add_up(what, state)
    except ConfigError:
        raise
    except Exception as error:
        if state.has_raised(error):
            raise
        raise PredicateFailed(
            f"counting in {snapshot.id} raised {type(error).__name__}: {error}", snapshot=str(snapshot.id)
        ) from error


def _before(new: Snapshot, known: Known, sums: Mapping[SnapshotId, Sum]) -> Snapshot | None:
    """The last one that was read and lies before, or else the last one of the same life; at its start its origin.

    Where the total of that is not known, the last one of its life, or of all that were read.
    """
    read = [one for one in known.ordered if one.id in sums]
    earlier = [one for one in read if one.id.incarnation == new.id.incarnation]
    for one in reversed(earlier):
        if known.way(one, new) in {"before", "equal"}:
            return one
    if earlier:
        return earlier[-1]
    origin = known.origins.get(new.id.incarnation)
    theirs = [one for one in read if origin is not None and one.id.incarnation == origin.incarnation]
    return next((one for one in (*(one for one in theirs if one.id == origin), *theirs[-1:], *read[-1:])), None)


def _interval(
    what: Quantity, old: Snapshot, new: Snapshot, before: Sum, after: Sum, known: Known, allowed: Exact
) -> Interval:
    restored = known.origins.get(new.id.incarnation) == old.id
    comparable = restored or known.way(old, new) in {"before", "equal"}
    then, now = known.cuts[old.id], known.cuts[new.id]
    books = Books(what, old, new, before, after) if comparable else None
    return Interval(
        old,
        new,
        plain(after.total - before.total),
        comparable,
        () if books is None else books.accounts(allowed),
        tuple(sorted(now.actors - then.actors)),
        tuple(sorted(now.ended - then.ended)),
        {} if books is None else books.told,
        0 if books is None else plain(books.brought_in),
        () if books is None else books.drivers_gone,
    )


def _signed(number: float) -> str:
    return f"{number:+,}"
