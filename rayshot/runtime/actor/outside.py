"""What an actor's class fixes outside, in one life of the actor: its hooks, and the functions that they return.

`on_snapshot` is called when a snapshot is to be recorded, before the state is; `on_commit` when a snapshot is durable
and advances, and again for the one from which the actor goes on. What they return runs beside the handlers: the
functions of `on_snapshot` one after the other, and one function of `on_commit` at a time, again and again until it
succeeds. Which commit is due, and which function runs, says `ToldCuts`.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from rayshot.errors import OutsideConflict, OutsideFailed, RayshotError
from rayshot.format.entries import Outside
from rayshot.model.calls import Interruption
from rayshot.model.cell import Cell
from rayshot.model.hook_calls import failed_outside, run_returned, tell_of_commit, tell_of_snapshot
from rayshot.model.hooks import HAS_ROOM, HOOKS_S, ON_COMMIT, ON_SNAPSHOT, has_hook, has_outside
from rayshot.model.outside import ActorCut, FencingToken, ToldCut, ToldCuts, Work, pack_payload
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.runner import Runner
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.door.survived_errors import survived
from rayshot.runtime.wire.host_identity import OutsideDue

if TYPE_CHECKING:
    from rayshot.snapshots.outside import ActorFolder

log = logging.getLogger("rayshot")
OutsideError: TypeAlias = OutsideFailed | OutsideConflict
PAUSES_S = (0.1, 0.5, 1.0, 5.0, 30.0)
"""`on_commit`, and its function, wait so long behind each failure, and behind further ones as long as behind the last.
A newer commit is tried at once."""
STOPPING_S = 5.0
"""A pause is no longer than this while the actors stand still, as a stop may wait."""
PLAIN = (
    "the snapshots of the system are encrypted, and files in cut.folder would not be: encrypt them yourself, and "
    'say so with @rayshot.actor(outside="plain")'
)
ASK_S, ASK_S_MAX = 1.0, 30.0
"""An actor that ends asks for a snapshot again behind so many seconds, while none is under way; twice as long each time
up to the most."""


class OutsideWork:
    """See the module. Call everything under the process's lock, unless a method says otherwise.

    `is_there`: the class has something outside, and this life may touch it; `settles`: it has `on_commit`. `back` is
    the snapshot from which the actor goes on, None if it began in this life. `bounds`: the class says whether it has
    room; `is_full`: it has none for further messages.
    """

    def __init__(self, runner: Runner, cell: Cell) -> None:
        self.back: ToldCut | None = None
        self.is_there = self.settles = self.bounds = self.is_full = self._lost_hooks = False
        self._runner, self._cell = runner, cell
        self._terms, self._is_loaded = runner.identity.outside, False
        self._told = ToldCuts()
        self._trouble = ""
        self._failures, self._again_at = 0, 0.0
        self._hook: tuple[list[str], float] | None = None
        self._sealing_since: float | None = None
        self._over, self._news = threading.Event(), threading.Event()
        self._beside = Beside(f"rayshot-{runner.name}-snapshot"), Beside(f"rayshot-{runner.name}-commit")
        self._ask_at, self._asked = 0.0, 0

    def born(self) -> None:
        """The actor has its object."""
        user_class = type(self._cell.instance)
        self.is_there = self._terms.mode != "leave" and has_outside(user_class)
        self.settles = self.is_there and has_hook(user_class, ON_COMMIT)
        self.bounds = self.is_there and has_hook(user_class, HAS_ROOM)

    @property
    def hook(self) -> tuple[list[str], float] | None:
        """The hook that runs between two handlers, as a message, and its begin by time.monotonic; None if none runs."""
        return self._hook

    @contextmanager
    def _in(self, hook: str) -> Iterator[None]:
        self._hook = [hook], time.monotonic()
        try:
            yield
        finally:
            self._hook = None

    # Snapshots -------------------------------------------------------------------------------------------------

    def lacks(self, snapshot: SnapshotId) -> bool:
        """Whether the class must be told of this snapshot before it is recorded."""
        return self.is_there and snapshot not in self._told

    def tell_of_snapshot(self, snapshot: SnapshotId) -> None:
        """Call `on_snapshot`. On the worker, between two handlers and without the lock, as it may send.

        Raises OutsideFailed, OutsideConflict; what stops the actor meanwhile.
        """
        told = ToldCut(snapshot, self._cut(snapshot, self._folder(snapshot), PLAIN), is_last=self._runner.ending)
        with self._runner.lock:
            self._told.add(told)  # now, as the snapshot may end while the hook runs
        with ExitStack() as failed:
            failed.callback(self._drop, snapshot)
            with self._in(ON_SNAPSHOT):
                given = tell_of_snapshot(self._cell, told.cut)
            packed = "" if callable(given) else pack_payload(given, self._runner.name)  # the state may change later
            failed.pop_all()
        failpoint("after_on_snapshot")
        with self._runner.lock:
            told.given, told.packed = given if callable(given) else None, packed
            if snapshot not in self._runner.participant.open_snapshots:
                self.forget(snapshot)

    def _drop(self, snapshot: SnapshotId) -> None:
        with self._runner.lock:
            self._told.drop(snapshot)

    def seal(self, snapshot: SnapshotId, done: Callable[[Outside | OutsideError], None]) -> None:
        """The snapshot is recorded: call `done` with what the manifest gets, from a thread and without the lock."""
        told = self._told.get(snapshot)
        assert told is not None, f"{snapshot} is sealed, and the class was not told of it"
        told.is_sealed = True
        self._beside[0].put(partial(self._seal, told, done))

    def seals_s(self, snapshot: SnapshotId) -> float | None:
        """For how many seconds the function has run for which this snapshot waits; None if it waits for none.

        It may be that of an earlier snapshot, as one runs at a time. Without the lock.
        """
        told, since = self._told.get(snapshot), self._sealing_since
        return time.monotonic() - since if since is not None and told is not None and told.is_sealed else None

    def _seal(self, told: ToldCut, done: Callable[[Outside | OutsideError], None]) -> None:
        self._sealing_since = time.monotonic()
        try:
            packed = told.packed
            if told.given is not None:
                packed = pack_payload(run_returned(self._cell, ON_SNAPSHOT, told.given), self._runner.name)
            files = told.cut.place.seal() if told.cut.has_files and told.cut.place is not None else ()
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything: the snapshot is given up
            done(error if isinstance(error, OutsideConflict) else failed_outside(self._cell, ON_SNAPSHOT, error))
            return
        finally:
            told.given = self._sealing_since = None  # what was given may hold a copy of the state
        told.cut.payload = json.loads(packed)
        failpoint("before_outside_sealed")
        done(Outside(packed, files, self._terms.root if files else None))

    def forget(self, snapshot: SnapshotId) -> None:
        """The snapshot has ended here: nobody waits for its function any more. It runs all the same, as it may undo."""
        if (told := self._told.get(snapshot)) is not None:
            told.cut.cancelled.set()
            if told.given is not None and not told.is_sealed:
                self.seal(snapshot, lambda _outcome: None)

    def _cut(self, snapshot: SnapshotId, place: "ActorFolder | None", no_place: str) -> ActorCut:
        identity = self._runner.identity
        token = FencingToken(self._terms.run, identity.incarnation, self._terms.owner)
        terms = self._terms
        holds = terms.is_as_restored or not self._is_loaded
        return ActorCut(
            identity.system,
            self._runner.name,
            token,
            str(snapshot),
            deadline_s=identity.snapshot_timeout_s,
            again=terms.mark if terms.mode == "again" and holds else "",
            takeover=terms.takeover and holds,
            place=place,
            no_place=no_place,
        )

    def _folder(self, snapshot: SnapshotId) -> "ActorFolder | None":
        from rayshot.snapshots.outside import ActorFolder  # noqa: PLC0415 - late: most actors need no storage

        identity, specification = self._runner.identity, self._cell.specification
        assert specification is not None
        if self._terms.encrypted and not specification.has_plain_files:
            return None
        return ActorFolder(self._terms.root or identity.storage, identity.system, snapshot, self._runner.name)

    @property
    def hooks_s(self) -> float:
        """`on_restore` may take so many seconds."""
        return HOOKS_S if self._cell.specification is None else self._cell.specification.hooks_s

    @property
    def back_cut(self) -> ActorCut | None:
        """What `on_restore` is told; None where this life may touch nothing outside."""
        return None if self.back is None or self._terms.mode == "leave" else self.back.cut

    # Commits -------------------------------------------------------------------------------------------------

    def goes_on_from(self, snapshot: SnapshotId, outside: Outside | None, storage: str, folder: str) -> None:
        """The actor has its state from this snapshot, in that folder of a storage. Without the lock: it looks at files.

        Raises Damaged, StoreError if files are not there as they were.
        """
        from rayshot.snapshots.outside import ActorFolder, place_of  # noqa: PLC0415 - as below

        self.born()
        self._is_loaded, place = True, None
        self._lost_hooks = outside is not None and not has_outside(type(self._cell.instance))
        if outside is not None and self._lost_hooks:
            log.warning(
                "%s: in snapshot %s its class had something outside, with payload %s, and it has no %s or %s any more: "
                "nothing is done with that",
                *(self._runner.name, snapshot, outside.payload, ON_SNAPSHOT, ON_COMMIT),
            )
        if outside is not None and outside.files:
            where = place_of(outside, storage, is_copy="/" in folder)
            place = ActorFolder(where, folder, snapshot, self._runner.name, outside.files)
            if self.is_there:
                place.check()
        self.back = ToldCut(snapshot, self._cut(snapshot, place, "the snapshot has no files of it"))
        self.back.cut.payload = None if outside is None else json.loads(outside.payload)

    def resumed(self) -> None:
        """All actors are loaded: the snapshot from which this one goes on counts as committed."""
        if self.back is not None and (self.is_there or self._lost_hooks):
            self.back.due_since = self.back.due_since or time.monotonic()
            self._told.owe(self.back)
            self._wake()

    def committed(self, snapshot: SnapshotId) -> None:
        """The snapshot is durable, and advances."""
        if self.settles and self._told.committed(snapshot):
            self._failures, self._again_at = 0, 0.0
            self._told.owed[-1].due_since = time.monotonic()
            self._wake()

    def still_due(self) -> OutsideDue | None:
        """What follows from commits and is not done; None if nothing ever does."""
        if not self.settles:
            return None
        owed = [self.back] if self._runner.loading and self.back is not None else self._told.owed
        now, told = time.monotonic(), tuple(one.snapshot for one in self._told.all())
        since = {one.snapshot: now - (one.due_since or now) for one in owed}
        return OutsideDue(told, since, self._trouble)

    def _wake(self) -> None:
        self._runner.interrupted = True
        self._runner.notify()

    @property
    def is_due(self) -> bool:
        """Whether `on_commit` is to be called."""
        return (due_at := self.due_at()) is not None and time.monotonic() >= due_at

    def due_at(self) -> float | None:
        """When `on_commit` is to be called, by time.monotonic; None if no commit is due."""
        return None if self._told.due is None or self._runner.loading else self._again_at

    def tell_of_commit(self) -> None:
        """Call `on_commit` for the newest snapshot that is due. On the worker, between two handlers, without the lock.

        If it raises, it is called again; an OutsideConflict stops the system.
        """
        with self._runner.lock:
            told = self._told.take_due()
        if told is None:
            return
        try:
            told.cut.cancelled = threading.Event()  # that of the snapshot says nothing about its commit
            with self._in(ON_COMMIT):
                work = tell_of_commit(self._cell, told.cut)
        except Interruption:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything; the actor goes on
            if not self._failed(told, error):
                with self._runner.lock:
                    self._told.failed(told)
                    if self._told.due is told:
                        self._failures += 1
                        self._again_at = time.monotonic() + self._pause_s(self._failures)
            return
        failpoint("after_on_commit")
        with self._runner.lock:
            starts, is_settled = self._told.returned(told, work), self._told.publishing is None
            if is_settled:
                self._settled(told)
        self._news.set()
        if starts:
            self._beside[1].put(self._publish)

    def _publish(self) -> None:
        """Run the newest function of `on_commit`, again and again until one succeeds or the life is over."""
        failures, failed = 0, None
        while (newest := self._newest()) is not None and not self._over.is_set():
            told, work = newest
            try:
                failpoint("before_publish")
                run_returned(self._cell, ON_COMMIT, work)
                failpoint("after_publish")
            except BaseException as error:  # noqa: BLE001 - a database may raise anything
                if self._failed(told, error):
                    return
                failures, failed = failures + 1 if newest is failed else 1, newest
                self._news.wait(self._pause_s(failures))
                continue
            with self._runner.lock:
                self._told.published(newest)
                if not self._over.is_set():
                    self._settled(told)

    def _newest(self) -> tuple[ToldCut, Work] | None:
        self._news.clear()  # first: what comes from now on ends the next pause
        return self._told.publishing

    def _pause_s(self, failures: int) -> float:
        pause_s = PAUSES_S[min(failures, len(PAUSES_S)) - 1]
        return min(pause_s, STOPPING_S) if self._runner.participant.paused else pause_s

    def _settled(self, told: ToldCut) -> None:
        """All is done that follows from this commit."""
        self._trouble = ""
        self._say(told, "")
        self._wake()  # it may have room again, or may end

    def _failed(self, told: ToldCut, error: BaseException) -> bool:
        """`on_commit` or its function raised: say so. Returns whether it must not be tried again. Takes the lock."""
        why = error if isinstance(error, OutsideConflict) else failed_outside(self._cell, ON_COMMIT, error)
        with self._runner.lock:
            if self._over.is_set():
                return True
            if isinstance(why, OutsideConflict):
                self.conflict(why)
                return True
            if why.message != self._trouble:
                self._trouble = why.message
                log.warning("%s. It is tried again", why.message)
            self._say(told, why.message)
        return False

    def _say(self, told: ToldCut, trouble: str) -> None:
        identity = self._runner.identity
        identity.coordinator.settled.remote(identity.name, told.snapshot, trouble, identity.incarnation)

    def conflict(self, error: RayshotError) -> None:
        """What is outside does not fit the state: the system stops."""
        log.error("%s: %s", self._runner.name, error)
        identity = self._runner.identity
        identity.coordinator.conflicts.remote(identity.name, error.message, identity.incarnation)

    # Between handlers ------------------------------------------------------------------------------------------

    def look_for_room(self) -> None:
        """Ask the class whether it has room. On the worker, between two handlers, without the lock."""
        try:
            with self._in(HAS_ROOM):
                self.is_full = not self._cell.instance.has_room()
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the actor goes on
            log.warning("%s. Messages are taken all the same", failed_outside(self._cell, HAS_ROOM, error).message)
            self.is_full = False

    def may_end(self) -> bool:
        """Whether an actor that handles no more messages may go: behind a commit that holds all that it took."""
        return not self.settles or self._told.is_over

    def asks(self) -> bool:
        """Whether the actor, which ends, is to ask for a snapshot now, as none is under way."""
        now = time.monotonic()
        if self.may_end() or self._told.due or self._told.publishing or now < self._ask_at:
            return False
        self._asked += 1
        self._ask_at = now + min(ASK_S * 2.0 ** (self._asked - 1), ASK_S_MAX)
        return True

    def shut(self) -> None:
        """This life is over: what runs beside the handlers is not tried again."""
        self._over.set()
        self._news.set()
        self._told.cancel()


class Beside:
    """Runs functions one after the other, on a thread that is there while there are some."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._runs = False

    def put(self, work: Callable[[], None]) -> None:
        """Run this behind all others. It must not raise."""
        with self._lock:
            self._waiting.append(work)
            if self._runs:
                return
            self._runs = True
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._runs = False
                    return
                work = self._waiting.popleft()
            with survived("a function beside the handlers failed, a defect of rayshot"):
                work()
