"""Where a sum changed that should never change: the first interval, and the actors whose books do not balance.

Theory of operation. If a system only moves something, such as money, then its amount is the same in every state that
can be reached, and so in every snapshot: what all actors hold plus what messages in flight carry. If two snapshots
differ, something between them made or lost some of it.

Books show which actor that was. For an actor's channels the counters say which messages it sent and processed between
two cuts, one before the other. The content is known for messages that are in flight in either. Held after - held before
+ sent - processed is 0 for an actor that only moves things. A message that was sent and processed between the two is in
neither snapshot, and nobody knows what it carried. But it leaves one end and reaches the other, so the sum over both
ends is known. Actors that such messages join are one account here. If an actor ended in between, its messages and its
counters are in neither snapshot: then all actors are one account.

Drivers have no state. A driver's message brings in what it carries. An unseen one is taken to carry nothing, unless a
seen message of some driver carries something: then drivers have accounts as actors do.

A manifest names a driver while it lives, and while a message of it is in flight. So a driver is in neither snapshot if
it started after the first, died before the second, and had all its messages processed by then. If it brought something
in, the actors that got it are suspects, and nothing says that the driver existed. Only traces show it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rayshot.errors import ConfigError, PredicateFailed, SnapshotDeleted
from rayshot.properties.books import Account, Books
from rayshot.properties.global_state import GlobalState
from rayshot.properties.order import Known, in_order
from rayshot.properties.quantity import Exact, Quantity, Sum, add_up, exact, plain, size
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.relation import some_of
from rayshot.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Total:
    """The amounts in one snapshot: `held` by actors, `moving` in messages in flight, and both by name in `parts`."""

    snapshot: SnapshotId
    log_index: int
    taken_at: datetime
    parts: Sum

    @property
    def held(self) -> int | float:
        """The amount that all actors hold."""
        return plain(self.parts.at_rest)

    @property
    def moving(self) -> int | float:
        """The amount that messages in flight carry."""
        return plain(self.parts.in_flight)

    @property
    def total(self) -> int | float:
        """The whole amount, without what is `untold`."""
        return plain(self.parts.total)

    @property
    def untold(self) -> tuple[str, ...]:
        """Why there may be more: replies and constructors may bring some that is not counted. See `quantity`."""
        return self.parts.untold


@dataclass(frozen=True, slots=True)
class Interval:
    """Two snapshots between which the sum changed by `change`; `new` is the first with a different sum.

    `comparable`: the cut of `old` is before that of `new`, or the life of `new` was restored from `old`. Only then are
    there `accounts`, unbalanced ones first. `born` and `ended` are actors that came and went: an actor that comes or
    goes with something changes the sum. `told` is how many messages each driver told in between; `brought_in` is what
    the seen ones of them carried. `drivers_gone` died in between, and nobody knows how much they told before.
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
        """The actors whose books do not balance; of an account with several actors all, as nothing tells them apart."""
        return tuple(name for account in self.accounts if not account.balanced for name in account.actors)

    @property
    def why(self) -> str:
        """What is known about the change, in a sentence."""
        moved = f"{_signed(self.change)} between {self.old.id} and {self.new.id}"
        if not self.comparable:
            return f"{moved}; {self.apart}: these two do not show the books of a single actor"
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
        """Why no run leads from one snapshot to the other; "" if they are comparable."""
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
    """The totals of a history, life after life, in an order in which no cut comes after one that it is before.

    `broken` is the first interval in which the sum changed; None if it never did. A total with an untold part is not
    compared with others. `tolerance` is how far totals may differ. `deleted` are snapshots that were deleted during the
    reading.
    """

    what: Quantity
    tolerance: float
    totals: tuple[Total, ...]
    broken: Interval | Any
    deleted: tuple[SnapshotId, ...] = ()

    @property
    def holds(self) -> bool | None:
        """Whether the sum is the same in all snapshots; None if some do not show it and the others agree.

        It may be False although no interval is broken: if the sum drifted, each time by less than `tolerance`.
        """
        sums = [one.parts.total for one in self.totals if not one.untold]
        allowed = exact(self.tolerance, "tolerance")
        if self.broken is not None or any(size(one - sums[0]) > allowed for one in sums):
            return False
        return True if len(sums) == len(self.totals) else None


def conservation(history: SystemView | Iterable[Snapshot], what: Quantity, *, tolerance: float = 0) -> Conservation:
    """Find out whether a quantity is conserved over a history, and where it first was not.

    Every state and every message in flight of every snapshot is read once; those of the two snapshots of a broken
    interval twice.

    Args:
        history: a system, `rayshot.open(storage).system()`, or snapshots of one. Only a system knows from which
            snapshot a life was restored. If that is unknown, or the snapshot was deleted, a life is compared with the
            last snapshot read before it, and there are no accounts.
        what: the quantity that should stay the same, see `quantity`: `quantity("balance", "deposit")`.
        tolerance: how far two totals may differ. Sums are exact; give a tolerance if the actors themselves round.

    Raises ConfigError for values that cannot be added up, PredicateFailed if a function in `what` raises, and what
    reading snapshots raises. A snapshot that is deleted meanwhile is left out and counted.
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
            except SnapshotDeleted as error:  # messages are read again; the other snapshot is compared next
                gone = before if error.evidence.get("snapshot") == str(before.id) else one
                deleted.append(gone.id)
                sums.pop(gone.id, None)
        if one.id not in deleted:
            sums[one.id] = parts
    kept = tuple(total for total in totals if total.snapshot not in deleted)
    return Conservation(what, plain(allowed), kept, broken, tuple(deleted))


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
    """The snapshot with which to compare the sum of `new`: one that was read, and is before it.

    It is the last such snapshot of the same life. If none is surely before `new`, it is the last one of this life. The
    first snapshot of a life is compared with the one from which the life was restored; if the sum of that one is not
    known, with the last one of that life, or of all.
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
