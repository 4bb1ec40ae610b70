"""What a simulated actor asks of its world."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rayshot.errors import OutsideConflict, OutsideFailed
from rayshot.model.cell import Cell
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.outside import ActorCut
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.effects import ReportRecord
from rayshot.protocol.events import Event
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.virtual_loop import VirtualLoop
from rayshot.simulation.world.packets import RecordContents
from rayshot.simulation.world.process import Process, Surroundings


class HookedActor(Protocol):
    """The actor whose class has hooks; see SimulatedActor."""

    name: str
    cell: Cell
    machine: Participant
    alive: bool
    captures: dict[SnapshotId, Mapping[str, int]]

    @property
    def is_ending(self) -> bool:
        """Whether it handles no more messages."""

    def tell(self, event: Event) -> None:
        """Give the machine an event."""

    def call_hook(self, call: Callable[[], Any]) -> Any:
        """Call code of the class that is no handler."""

    def report_sealed(self, effect: ReportRecord, content: RecordContents) -> None:
        """Report a record."""

    def wake(self) -> None:
        """There is work between two handlers."""


class OutsideOfWorld(Protocol):
    """How far the lives of a world may go outside; see `rayshot.simulation.actors.outside`."""

    @property
    def is_left(self) -> bool:
        """Whether no hook of a class with something outside is called."""

    def cut(self, process: HookedActor, snapshot: SnapshotId, loaded: SnapshotId | None) -> ActorCut:
        """What the hooks of this actor are told of a snapshot; it has been loaded from another one, or was born."""

    def beside(self, process: HookedActor, what: str, work: Callable[[], None]) -> None:
        """Let this run beside the handlers, later. `what` says it in words."""

    def ask(self, process: HookedActor) -> None:
        """Let an actor that ends ask for a snapshot, later."""

    def failed(self, process: HookedActor, why: OutsideFailed | OutsideConflict) -> None:
        """Note what a hook raised, or its function. Raises a conflict of the present life: the system stops."""


class ActorSurroundings(Surroundings, Protocol):
    """What an actor asks of its world, besides what every process asks."""

    system: str

    @property
    def outside(self) -> OutsideOfWorld:
        """How far its lives may go outside."""

    def clock(self) -> float:
        """Virtual time in seconds."""

    def event_loop(self) -> VirtualLoop:
        """The loop on which coroutines run."""

    def own_event_loop(self, idle: Callable[[float | None], bool]) -> VirtualLoop:
        """A loop for the handlers of one actor that run at once."""

    def others_go_on(self) -> bool:
        """Whether the rest of the world goes on between two turns of such a loop."""

    def note(self, line: str) -> None:
        """Write a line of the story."""

    def is_there(self, name: str) -> bool | None:
        """Whether the actor exists; None if there never was one of that name, False if it has ended."""

    def failed_to_start(self, names: Sequence[str]) -> None:
        """Note that the last one's constructor raised: it and the actors that it made never belonged to the system."""

    def suspended(self, process: Process, timeout_s: float | None) -> None:
        """Note that a handler waits for answers, and that its time may be up."""

    def at_top(self, process: Process, *, is_timed: bool) -> None:
        """Note that a method has come to the top of a pass of its loop, maybe to wait for a time."""

    def begins_loops_anew(self) -> bool:
        """Whether the frame of a method is thrown away that has come to the top of a pass of its loop."""

    def is_late(self, process: Process, snapshot: SnapshotId) -> bool:
        """Whether the deadline of the snapshot passes before the actor records."""

    def is_taken(self, name: str) -> bool:
        """Whether there is or was such an actor, or will be again."""

    def spawn(self, specification: ActorSpecification, name: str | None) -> str:
        """Start a process for a new actor; returns its name."""

    def answer_driver(self, process: Process, driver: str, call_id: int, value: object, *, ok: bool) -> None:
        """Answer a driver's call."""

    def takes_answers(self, driver: str) -> bool:
        """Whether this driver takes answers."""

    def lose(self, letter: DeadLetter, message: bytes | None) -> None:
        """Note that a message has no effect."""
