"""Concluding: how conversations come to their end before a snapshot; see docs/design/0041-concluding.md.

A handler that waits for another actor is half done, so its actor cannot record. Before a snapshot begins, the actors
that ask are held: they begin nothing but what somebody waits for, and say when they rest. When all rest, the snapshot
begins, and each goes on as soon as it has recorded.

Orders and reports may come in any order, and more than once. What comes late is told by the id of its conclusion, and a
report also by its number. A mistake here costs a snapshot, which is refused and tried again; it never makes a bad cut.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rayshot.protocol.identity import SnapshotId


class ConclusionId(NamedTuple):
    """Conclusions in the order in which they begin, over all coordinators of a life; `term` is the coordinator's."""

    term: int
    number: int


class Rest(NamedTuple):
    """An actor's report on whether it `rests`: it handles nothing, and may begin nothing. A later one counts more."""

    conclusion: ConclusionId
    number: int
    rests: bool


class HoldBack:
    """What an actor may begin, and what it reports of this.

    `conclusion` holds the actor now; None: it begins what it likes.
    """

    def __init__(self) -> None:
        self.conclusion: ConclusionId | None = None
        self._over = ConclusionId(0, 0)
        """All conclusions up to this one are over here, or were replaced."""
        self._asked: dict[str, int] = {}
        """For each sender, the number of the last message for whose answer it waited."""
        self._older: tuple[SnapshotId, ...] = ()
        self._rests = False
        self._number = 0
        self.breaths = 0
        """So many messages may begin besides."""

    def begin(self, conclusion: ConclusionId, open_snapshots: Iterable[SnapshotId]) -> bool:
        """Hold the actor from now on; an earlier conclusion is over. Returns False for one that is late, or known.

        `open_snapshots` are those of which the actor knew before.
        """
        if conclusion <= self._over:
            return False
        self._over = self.conclusion = conclusion
        self._older, self._rests, self.breaths = tuple(open_snapshots), False, 0
        return True

    def asked(self, sender: str, last: int) -> None:
        """The `sender` waits for the answer to its message `last`, or has waited for it."""
        self._asked[sender] = max(last, self._asked.get(sender, 0))

    def breathe(self, conclusion: ConclusionId, count: int) -> None:
        """So many messages may begin besides. In any case the actor reports anew when it rests."""
        if conclusion == self.conclusion:
            self.breaths, self._rests = count, False

    def limits(self, limits: Mapping[str, int], senders: Iterable[str]) -> dict[str, int]:
        """The numbers up to which messages of these senders may begin now; `limits` are those of open snapshots."""
        asked = {name: self._asked.get(name, 0) for name in senders}
        return {name: min(last, limits.get(name, last)) for name, last in asked.items()}

    def begins(self) -> Rest | None:
        """Something begins; returns what to report."""
        self.breaths = max(0, self.breaths - 1)
        return self._report(rests=False)

    def rests(self) -> Rest | None:
        """Nothing that may begin is left; returns what to report."""
        self.breaths = 0  # what comes later was not meant
        return self._report(rests=True)

    def _report(self, *, rests: bool) -> Rest | None:
        if self.conclusion is None or rests is self._rests:
            return None
        self._rests = rests
        self._number += 1
        return Rest(self.conclusion, self._number, rests)

    def recorded(self, snapshot: SnapshotId) -> None:
        """The actor has recorded: it goes on, if this is the snapshot for which it was held.

        That is the next one of the coordinator. Another actor may have begun this one meanwhile, for something else.
        """
        if snapshot.by_coordinator and snapshot not in self._older:
            self.conclusion = None

    def end(self, conclusion: ConclusionId | None = None) -> None:
        """This conclusion is over, and all before it; None: whichever holds the actor."""
        if conclusion is not None:
            self._over = max(self._over, conclusion)
        if self.conclusion is not None and (conclusion is None or self.conclusion <= conclusion):
            self.conclusion = None


class Doing(NamedTuple):
    """What an actor does at a moment.

    `handles`: a handler runs or waits. `waits_for` are the actors for which it has waited for `waits_s` seconds. `held`
    counts the messages that wait to be handled.
    """

    handles: bool
    waits_for: tuple[str, ...]
    waits_s: float
    held: int


class Conclusion:
    """One conclusion, as its coordinator sees it."""

    def __init__(self, identity: ConclusionId) -> None:
        self.identity = identity
        self._latest: dict[str, Rest] = {}
        self._breaths: Counter[str] = Counter()
        self._breath = 1

    @property
    def told(self) -> frozenset[str]:
        """The actors that were told, and have not ended."""
        return frozenset(self._latest)

    @property
    def restless(self) -> tuple[str, ...]:
        """The actors that have not said that they rest, sorted. When there are none, the snapshot can begin."""
        return tuple(sorted(name for name, latest in self._latest.items() if not latest.rests))

    def tell(self, name: str) -> None:
        """One more actor is told."""
        self._latest.setdefault(name, Rest(self.identity, 0, rests=False))

    def hear(self, name: str, report: Rest) -> None:
        """An actor reports."""
        latest = self._latest.get(name)
        if latest is not None and report.conclusion == self.identity and report.number > latest.number:
            self._latest[name] = report

    def lose(self, name: str) -> None:
        """An actor has ended: nothing of it is under way any more."""
        self._latest.pop(name, None)

    def chain(self, doing: Mapping[str, Doing]) -> frozenset[str]:
        """The restless actors, those for which they wait, and so on, as far as `doing` says."""
        found = set(self.restless)
        to_follow = [*found]
        while to_follow:
            one = doing.get(to_follow.pop())
            to_follow += () if one is None else {*one.waits_for} - found
            found.update(to_follow)
        return frozenset(found)

    def breathe(self, doing: Mapping[str, Doing], wait_s: float) -> dict[str, int]:
        """How many held messages shall begin, by actor, as nothing else seems to happen any more.

        `doing` has all that were told, and the whole `chain`. Each handler of this chain must have waited for `wait_s`
        seconds: one that runs may end by itself. Actors take turns. Each time there are twice as many messages, as the
        handler that waits may need many. Some too many do no harm.
        """
        chain = [doing.get(name) for name in self.chain(doing)]
        works = any(one is None or (one.handles and not (one.waits_for and one.waits_s >= wait_s)) for one in chain)
        if works or not any(one is not None and one.waits_for for one in chain):
            return {}
        left = {name: doing[name].held for name in self._latest if name in doing and not doing[name].handles}
        chosen: Counter[str] = Counter()
        for _ in range(self._breath):
            able = [(self._breaths[name], name) for name, held in left.items() if held > chosen[name]]
            if not able:
                break
            _, name = min(able)
            chosen[name] += 1
            self._breaths[name] += 1
            self._latest[name] = self._latest[name]._replace(rests=False)
        if chosen:
            self._breath *= 2
        return dict(chosen)
