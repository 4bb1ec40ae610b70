"""How far the lives of a world may go outside, what they hear of commits, and where files of their snapshots are."""

import shutil
import weakref
from collections.abc import Callable, Iterator
from tempfile import mkdtemp
from typing import Any, Protocol

from rayshot.errors import OutsideConflict, OutsideFailed
from rayshot.format.entries import OutsideMode
from rayshot.model.outside import ActorCut, FencingToken
from rayshot.protocol.events import SnapshotRequested
from rayshot.protocol.identity import SnapshotId
from rayshot.simulation.bodies.actor_process import SimulatedActor
from rayshot.simulation.bodies.actor_surroundings import HookedActor
from rayshot.snapshots.outside import ActorFolder

DEADLINE_S = 60.0
"""What hooks are told. No clock runs: the deadlines of snapshots pass at chosen moments."""


class HookedWorld(Protocol):
    """What is asked of the world; see ActorNetwork."""

    system: str
    incarnation: int

    def push(self, method: Any, *args: Any) -> None:
        """Add an event that may happen from now on."""

    def push_once(self, method: Any, *args: Any) -> None:
        """The same, unless it is there."""

    def choose(self, count: int, /) -> int:
        """See Choices."""

    def is_current(self, process: Any) -> bool:
        """Whether it lives, and is of the present life."""

    def note(self, line: str) -> None:
        """Write a line of the story."""


class _Disk:
    """A folder for the files of a world; it goes when neither the world nor one of its snapshots needs it."""

    def __init__(self) -> None:
        self.path = mkdtemp(prefix="rayshot-world-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class WorldFolder(ActorFolder):
    """The folder of an actor's files for one snapshot of a world."""

    def __init__(self, disk: _Disk, system: str, snapshot: SnapshotId, actor: str) -> None:
        super().__init__(disk.path, system, snapshot, actor)
        self._disk = disk


class WorldOutside:
    """See the module. `origin` is the snapshot of another world from which a person made this one, in `mode`.

    Each world is a run of its own. `functions` counts what ran beside handlers, and `troubles` says what the hooks of
    an actor raised last.
    """

    def __init__(self, world: HookedWorld) -> None:
        self.mode: OutsideMode = "refuse"
        self.takeover = False
        self.functions = 0
        self.troubles: dict[str, str] = {}
        self._world = world
        self._origin: SnapshotId | None = None
        self._disk: _Disk | None = None

    def begin_from(self, origin: SnapshotId, mode: OutsideMode, *, takeover: bool) -> None:
        """A person makes this world of a snapshot."""
        self._origin, self.mode, self.takeover = origin, mode, takeover

    # What actors ask; see OutsideOfWorld ---------------------------------------------------------------------------

    @property
    def is_left(self) -> bool:
        """See OutsideOfWorld."""
        return self.mode == "leave"

    def cut(self, process: HookedActor, snapshot: SnapshotId, loaded: SnapshotId | None) -> ActorCut:
        """See OutsideOfWorld."""
        world = self._world
        self._disk = self._disk or _Disk()
        run = world.system if self._origin is None else f"{world.system} from {self._origin}"
        holds = loaded in (None, self._origin)
        return ActorCut(
            world.system,
            process.name,
            FencingToken(run, process.machine.incarnation, run),
            str(snapshot),
            deadline_s=DEADLINE_S,
            again=run if self.mode == "again" and holds else "",
            takeover=self.takeover and holds,
            place=WorldFolder(self._disk, world.system, snapshot, process.name),
        )

    def beside(self, process: HookedActor, what: str, work: Callable[[], None]) -> None:
        """See OutsideOfWorld."""
        self._world.push(self.on_beside, process, what, work)

    def ask(self, process: HookedActor) -> None:
        """See OutsideOfWorld."""
        self._world.push_once(self.on_ask, process)

    def failed(self, process: HookedActor, why: OutsideFailed | OutsideConflict) -> None:
        """See OutsideOfWorld."""
        self._world.note(f"  {why.message}")
        self.troubles[process.name] = why.message
        if isinstance(why, OutsideConflict) and self._world.is_current(process):
            raise why

    # Events --------------------------------------------------------------------------------------------------------

    def on_beside(self, process: SimulatedActor, what: str, work: Callable[[], None]) -> None:
        """A function runs beside the handlers. Where its process counts as dead, it may run all the same."""
        if process.alive or self._world.choose(2):
            zombie = "" if self._world.is_current(process) else f", of life {process.incarnation}"
            self._world.note(f"{process.name}{zombie} does {what}")
            self.functions += 1
            work()

    def on_ask(self, process: SimulatedActor) -> None:
        """An actor that waits for a commit, to end, asks for a snapshot, unless one is under way."""
        if self._world.is_current(process) and not process.is_quiet and not process.machine.open_snapshots:
            process.tell(SnapshotRequested())

    def advanced(self, processes: Iterator[SimulatedActor], generation: int, snapshot: SnapshotId) -> None:
        """A snapshot is durable, and advances: tell these actors."""
        for process in processes:
            if process.outside.settles:
                self._world.push(self.on_advanced, process, generation, snapshot)

    def on_advanced(self, process: SimulatedActor, generation: int, snapshot: SnapshotId) -> None:
        """An actor hears that a snapshot is durable and advances, unless it knows a newer coordinator."""
        if self._world.is_current(process) and generation >= process.generation:
            process.outside.committed(snapshot)
            process.wake()
