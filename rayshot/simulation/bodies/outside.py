"""What a simulated actor's class fixes outside, in one life of the actor: its hooks, and the functions they return.

This corresponds to `rayshot.runtime.actor.outside`. A function is an event of the world: choices say when it runs. By
then its process may have died, or another life may have begun.
"""

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from rayshot.errors import OutsideConflict, OutsideFailed, SystemDown
from rayshot.model.calls import Interruption
from rayshot.model.hook_calls import failed_outside, run_returned, tell_of_commit, tell_of_snapshot
from rayshot.model.hooks import HAS_ROOM, ON_COMMIT, ON_SNAPSHOT, has_hook, has_outside
from rayshot.model.outside import ActorCut, ToldCut, ToldCuts, pack_payload
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.effects import ReportRecord
from rayshot.protocol.events import CaptureFailed
from rayshot.protocol.identity import SnapshotId
from rayshot.simulation.bodies.actor_surroundings import HookedActor, OutsideOfWorld
from rayshot.simulation.bodies.world_snapshot import RecordedActor
from rayshot.simulation.world.packets import RecordContents


class SimulatedOutside:
    """See the module. `is_there`: the class has something outside, and this life may touch it.

    `back` is the snapshot from which the actor goes on, None if it began in this life, or may not touch what is
    outside. `settles`: something follows from each commit.
    """

    def __init__(self, process: HookedActor, world: OutsideOfWorld) -> None:
        self.is_there = self.settles = self._bounds = False
        self.back: ActorCut | None = None
        self._loaded: SnapshotId | None = None
        self._process, self._cell, self._world = process, process.cell, world
        self._told = ToldCuts()
        self._sealing: deque[tuple[ToldCut, ReportRecord, RecordContents]] = deque()
        """Records that wait for the functions of `on_snapshot`."""

    def born(self) -> None:
        """The actor has its object."""
        user_class = type(self._cell.instance)
        self.is_there = has_outside(user_class) and not self._world.is_left
        self.settles = self.is_there and has_hook(user_class, ON_COMMIT)
        self._bounds = self.is_there and has_hook(user_class, HAS_ROOM)

    # Snapshots -------------------------------------------------------------------------------------------------

    def tell_of_snapshot(self, snapshot: SnapshotId) -> bool:
        """Call `on_snapshot`, between two handlers; returns whether the snapshot can be recorded."""
        if not self.is_there:
            return True
        cut = self._world.cut(self._process, snapshot, self._loaded)
        told = ToldCut(snapshot, cut, is_last=self._process.is_ending)
        given = self._outcome(ON_SNAPSHOT, lambda: self._given(told.cut))
        if isinstance(given, OutsideFailed):
            del self._process.captures[snapshot]
            self._process.tell(CaptureFailed(snapshot, given.message, AbortReason.OUTSIDE_FAILED))
            return False
        told.given, told.packed = (given, "") if callable(given) else (None, given)
        self._told.add(told)
        return True

    def _given(self, cut: ActorCut) -> Any:
        """The function that `on_snapshot` returned, or the payload, packed now as the state may change later."""
        given = tell_of_snapshot(self._cell, cut)
        return given if callable(given) else pack_payload(given, self._process.name)

    def report(self, effect: ReportRecord, content: RecordContents) -> None:
        """The snapshot is recorded: report it when the function of `on_snapshot` has ended."""
        snapshot = effect.record.snapshot
        told = self._told.get(snapshot)
        if told is None:
            self._process.report_sealed(effect, content)
        elif told.given is not None:
            self._sealing.append((told, effect, content))
            if len(self._sealing) == 1:
                self._seal_later()
        else:
            self._seal(told, effect, content)

    def _seal_later(self) -> None:
        what = f"what {ON_SNAPSHOT} of {self._sealing[0][0].cut.snapshot} returned"
        self._world.beside(self._process, what, self._seal_next)

    def _seal_next(self) -> None:
        """Run the oldest function of `on_snapshot`: they run one after the other."""
        self._seal(*self._sealing[0])
        self._sealing.popleft()
        if self._sealing:
            self._seal_later()

    def _seal(self, told: ToldCut, effect: ReportRecord, content: RecordContents) -> None:
        given, told.given, told.is_sealed = told.given, None, True
        sealed = self._outcome(ON_SNAPSHOT, lambda: self._sealed(told, given, content))
        if told.cut.cancelled.is_set() or not self._process.alive:
            return
        if isinstance(sealed, OutsideFailed):
            failed = CaptureFailed(effect.record.snapshot, sealed.message, AbortReason.OUTSIDE_FAILED)
            self._process.tell(failed)
        else:
            self._process.report_sealed(effect, sealed)

    def _sealed(self, told: ToldCut, given: Any, content: RecordContents) -> RecordContents:
        cut = told.cut
        packed = told.packed
        if given is not None:
            packed = pack_payload(run_returned(self._cell, ON_SNAPSHOT, given), self._process.name)
        if cut.has_files and cut.place is not None:
            cut.place.seal()
        cut.payload = json.loads(packed)
        return replace(content, state=replace(content.state, payload=packed, files=cut.place))

    def is_sealing(self, snapshot: SnapshotId) -> bool:
        """Whether the snapshot is recorded, and not reported yet."""
        return (told := self._told.get(snapshot)) is not None and not told.is_sealed

    def forget(self, snapshot: SnapshotId) -> None:
        """The snapshot has ended here: nobody waits for its function any more."""
        if (told := self._told.get(snapshot)) is not None:
            told.cut.cancelled.set()

    # Commits ---------------------------------------------------------------------------------------------------

    def goes_on_from(self, snapshot: SnapshotId, recorded: RecordedActor) -> None:
        """The actor has its state from this snapshot."""
        self.born()
        self._loaded = snapshot
        if not self._world.is_left:
            self.back = self._world.cut(self._process, snapshot, snapshot)
            self.back.payload = None if recorded.payload is None else json.loads(recorded.payload)
            self.back.place = recorded.files

    def resumed(self) -> None:
        """All actors are loaded: the snapshot from which this one goes on counts as committed."""
        if self.settles and self.back is not None and self._loaded is not None:
            self._told.owe(ToldCut(self._loaded, self.back))

    def committed(self, snapshot: SnapshotId) -> None:
        """The snapshot is durable, and advances."""
        if self.settles:
            self._told.committed(snapshot)

    def tell_of_commit(self) -> None:
        """Call `on_commit` for the newest snapshot that is due, if there is one. Between two handlers.

        If it raises, it is called again, later.
        """
        if (told := self._told.take_due()) is None:
            return
        told.cut.cancelled = threading.Event()  # that of the snapshot says nothing about its commit
        work = self._outcome(ON_COMMIT, lambda: tell_of_commit(self._cell, told.cut))
        if isinstance(work, OutsideFailed):
            self._world.beside(self._process, f"{ON_COMMIT} of {told.cut.snapshot} again", partial(self._again, told))
        elif self._told.returned(told, work):
            self._publish_later(told)

    def _again(self, told: ToldCut) -> None:
        self._told.failed(told)
        self._process.wake()

    def _publish_later(self, told: ToldCut) -> None:
        what = f"what {ON_COMMIT} of {told.cut.snapshot} returned"
        self._world.beside(self._process, what, self._publish)

    def _publish(self) -> None:
        """Run the newest function of `on_commit`; if it fails, it runs again later."""
        newest = self._told.publishing
        assert newest is not None, "each function is put beside the handlers once"
        told, work = newest
        if not isinstance(self._outcome(ON_COMMIT, lambda: run_returned(self._cell, ON_COMMIT, work)), OutsideFailed):
            self._told.published(newest)
            self._process.wake()  # it may have room again, or may end
        elif self._process.alive:
            self._publish_later(told)

    def _outcome(self, hook: str, call: Callable[[], Any]) -> Any:
        """What the hook or its function returns; the error if it raised one.

        Raises a conflict with what is outside, if the actor is of the present life.
        """
        try:
            return self._process.call_hook(call)
        except (Interruption, SystemDown, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything; the actor lives on
            failed = failed_outside(self._cell, hook, error)
            self._world.failed(self._process, error if isinstance(error, OutsideConflict) else failed)
            return failed

    # Between handlers ------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether the class has no room for messages; a snapshot that is not recorded may wait for some."""
        machine = self._process.machine
        is_recorded = {*machine.open_snapshots} <= {*machine.recorded_snapshots}
        return self._bounds and is_recorded and not self._cell.instance.has_room()

    @property
    def may_end(self) -> bool:
        """Whether an actor that handles no more messages may go: behind a commit that holds all that it took."""
        return not self.settles or self._told.is_over

    def wait_for_end(self) -> None:
        """The actor waits for that commit: if nothing is under way that leads there, it asks for a snapshot."""
        if self._told.publishing is None and not self._process.machine.open_snapshots:
            self._world.ask(self._process)

    def shut(self) -> None:
        """This life is over."""
        self._told.cancel()
