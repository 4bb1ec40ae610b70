"""What is outside and belongs to a cut: what the hooks of an actor's class are told, and what they may give.

See `hooks`. A sink's rows, the shards of a trainer and the state of an engine are outside: an actor's class fixes them
when a snapshot records it, and they come back when the actor goes back to that snapshot.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from rayshot.errors import OutsideFailed
from rayshot.format import payloads
from rayshot.format.entries import OutsideFile
from rayshot.protocol.identity import SnapshotId

TOLD_MAX = 16
"""An actor remembers so many snapshots of which it was told. Of a forgotten one it hears no commit."""
Work = Callable[[], Any]


class Folder(Protocol):
    """A place for the files of one actor in one snapshot."""

    def open(self) -> str:
        """Its address, which is a path on a local disk. Then it exists."""

    def seal(self) -> tuple[OutsideFile, ...]:
        """List its files, which do not change from now on. Raises OutsideFailed, StoreError."""

    def verify(self) -> None:
        """Compare its files with the snapshot: sizes and digests. Raises Damaged, StoreError."""


class FencingToken(NamedTuple):
    """Who may change what is outside: the resource keeps the token of who took it, and refuses all others.

    `run` names the log of one storage. In it lives only grow, so who has a lower `life` is of the past. `owner` names
    who began that life: the log may have been copied, and then two systems may come to the same life.
    """

    run: str
    life: int
    owner: str

    def may_take(self, held: "FencingToken | None") -> bool:
        """Whether a life with this token may take a resource that has `held`, None if nobody ever took it."""
        return held is None or self == held or (self.run == held.run and self.life > held.life)


@dataclass(eq=False)
class ActorCut:
    """A snapshot, as a hook of one actor sees it.

    What the class changes outside, it changes with `token`. `snapshot` is the id of the snapshot. `payload` is what the
    actor gave for it, None before. `deadline_s`: the snapshot is given up after so many seconds; then `cancelled` is
    set. What was written for it stays all the same, as a lost answer may mean that it is durable; rayshot deletes the
    folder when it is not.

    Where a person restored the system with `outside="again"`, `again` names that, else it is "": what is outside may
    have more, and what comes behind the snapshot is done a second time there, but only once for one name. `takeover`:
    what another run has may be taken.
    """

    system: str
    actor: str
    token: FencingToken
    snapshot: str
    payload: Any = None
    deadline_s: float = 0.0
    again: str = ""
    takeover: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    place: Folder | None = field(default=None, repr=False)
    """Internal: where the folder is; None where there is none, for the reason `no_place`."""
    no_place: str = field(default="no place for files is here", repr=False)
    """Internal."""
    has_files: bool = field(default=False, repr=False)
    """Internal: whether the folder was asked for."""

    @property
    def folder(self) -> str:
        """The address of the folder for this actor's files in this snapshot: a path if the storage is a local disk.

        Its files belong to the snapshot: the manifest has their names, sizes and digests, and they go when the snapshot
        goes. Raises OutsideFailed if there is no place for them.
        """
        if self.place is None:
            raise OutsideFailed(f"actor {self.actor!r}: {self.no_place}", actor=self.actor)
        self.has_files = True
        return self.place.open()

    def verify(self) -> None:
        """In `on_restore`: compare the digests of the folder's files with the snapshot, before they are loaded.

        Their sizes have been compared already. Raises Damaged, StoreError.
        """
        if self.place is not None:
            self.place.verify()


@dataclass(slots=True, eq=False)
class ToldCut:
    """A snapshot of which the class was told. `given` is the function that `on_snapshot` returned.

    `packed` is the payload that it returned instead.

    `is_last`: the actor handled no more messages from then on. `is_sealed`: its function runs, or has run. `due_since`:
    when its commit was known, by time.monotonic.
    """

    snapshot: SnapshotId
    cut: ActorCut
    given: Work | None = None
    packed: str = ""
    is_last: bool = False
    is_sealed: bool = False
    due_since: float = 0.0


class ToldCuts:
    """The snapshots of which a class was told: which commit is due, which function runs, what is settled.

    Nothing is called here, and no thread is: the runtime and the simulator both go by it. A commit implies all earlier
    ones of the actor, so only the newest one is due, and only the newest function of `on_commit` runs. `due` is the
    commit of which `on_commit` is to be told. `publishing` is the newest commit with something to do, and the function
    that does it. `owed` are the commits from which something is still to follow, oldest first; of many the newest.
    """

    def __init__(self) -> None:
        self.due: ToldCut | None = None
        self.owed: list[ToldCut] = []
        self.publishing: tuple[ToldCut, Work] | None = None
        self._told: dict[SnapshotId, ToldCut] = {}
        self._settled: ToldCut | None = None

    def __contains__(self, snapshot: SnapshotId) -> bool:
        return snapshot in self._told

    def get(self, snapshot: SnapshotId) -> ToldCut | None:
        """The snapshot, if the class was told of it and its commit is not known."""
        return self._told.get(snapshot)

    def all(self) -> tuple[ToldCut, ...]:
        """All whose commits are not known, in the order in which the class was told."""
        return tuple(self._told.values())

    def add(self, told: ToldCut) -> None:
        """The class was told of a snapshot."""
        self._told[told.snapshot] = told
        if len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]

    def drop(self, snapshot: SnapshotId) -> None:
        """Its hook has failed."""
        self._told.pop(snapshot, None)

    def committed(self, snapshot: SnapshotId) -> bool:
        """The snapshot is durable and advances; returns whether this is news. Those told before it are older."""
        if (told := self._told.get(snapshot)) is None:
            return False
        for older in (*takewhile(lambda one: one != snapshot, tuple(self._told)), snapshot):
            del self._told[older]
        self.owe(told)
        return True

    def owe(self, told: ToldCut) -> None:
        """The snapshot is durable, or the actor goes on from it."""
        self.due = told
        if told not in self.owed:
            self.owed.append(told)
            del self.owed[1:-TOLD_MAX]

    def failed(self, told: ToldCut) -> None:
        """`on_commit` of this snapshot raised: it is due again, unless a newer one is."""
        self.due = self.due or told

    def take_due(self) -> ToldCut | None:
        """The commit of which `on_commit` is told now, if one is due."""
        told, self.due = self.due, None
        return told

    def returned(self, told: ToldCut, work: Any) -> bool:
        """`on_commit` of this snapshot gave this, a function or nothing. Returns whether its function must be started.

        If one of an earlier commit runs, it goes on with the newest one, and nothing that it does is dropped.
        """
        runs = self.publishing is not None
        if callable(work):
            self.publishing = told, work
        elif self.publishing is not None:
            self.publishing = told, self.publishing[1]
        else:
            self._settle(told)
        return callable(work) and not runs

    def published(self, done: tuple[ToldCut, Work]) -> None:
        """This function has succeeded. A newer one may have come meanwhile."""
        self._settle(done[0])
        if self.publishing is done:
            self.publishing = None

    def _settle(self, told: ToldCut) -> None:
        self._settled = told
        if told in self.owed:
            del self.owed[: self.owed.index(told) + 1]

    @property
    def is_over(self) -> bool:
        """Whether a commit is settled behind which the actor handled nothing more."""
        return self._settled is not None and self._settled.is_last

    def cancel(self) -> None:
        """Nobody waits for these snapshots any more."""
        under_way = [self.due, self.publishing and self.publishing[0]]
        for told in (*self._told.values(), *filter(None, under_way)):
            told.cut.cancelled.set()


def pack_payload(payload: Any, actor: str) -> str:
    """A payload as the manifest has it. Raises OutsideFailed for what would not come back."""
    try:
        text = payloads.pack_payload(payload)
        comes_back = payloads.read_payload(text) == payload
    except (ValueError, RecursionError) as error:
        raise _no_payload(actor, str(error)) from error
    if not comes_back:
        raise _no_payload(actor, "it would come back otherwise: give lists in place of tuples")
    return text


def _no_payload(actor: str, why: str) -> OutsideFailed:
    text = f"actor {actor!r}: on_snapshot gave no payload: {why}. Give JSON, and write what is large into cut.folder"
    return OutsideFailed(text, actor=actor)
