"""What a simulated actor asks of its world."""

from collections.abc import Callable, Sequence
from typing import Protocol

from rayshot.model.dead_letter import DeadLetter
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import SnapshotId
from rayshot.simulation.bodies.virtual_loop import VirtualLoop
from rayshot.simulation.world.process import Process, Surroundings


class ActorSurroundings(Surroundings, Protocol):
    """What an actor asks of its world, besides what every process asks."""

    system: str

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
