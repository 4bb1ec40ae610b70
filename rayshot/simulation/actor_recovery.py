"""Simulated actors that begin a life from a snapshot: when a world is made from one, and when it rolls back to one."""

from collections import deque
from collections.abc import Callable

from rayshot.errors import CodeMismatch, SnapshotNotFound
from rayshot.format.slots import OBJECT, Slot, SlottedMessage, StoredValue
from rayshot.model.port import swap_port
from rayshot.model.recasting import Recasting
from rayshot.protocol.collecting import ProcessJoined
from rayshot.protocol.events import Restored
from rayshot.simulation.actor_coordinator import ActorCoordinator
from rayshot.simulation.actor_driver import NAME as DRIVER
from rayshot.simulation.actor_driver import ActorDriver
from rayshot.simulation.actor_network import ActorNetwork
from rayshot.simulation.actor_process import ActorProcess
from rayshot.simulation.choices import Choices
from rayshot.simulation.snapshot_loading import load_cell
from rayshot.simulation.world_snapshot import WorldSnapshot


class RecoverableActors(ActorNetwork):
    """See the module. `origin` is the snapshot that the world was made from."""

    def __init__(
        self, choices: Choices, system: str, run_until: Callable[[Callable[[], bool], str], None], *, tell: bool
    ) -> None:
        super().__init__(choices, system, run_until, tell=tell)
        self.rollbacks = 0
        self.origin: WorldSnapshot | None = None

    def begin_from(self, snapshot: WorldSnapshot) -> None:
        """Be what the snapshot holds."""
        self.origin = snapshot
        self.now = snapshot.taken_at
        self.dead_letters.extend(snapshot.dead_letters)
        self._load(snapshot, snapshot.id.incarnation + 1)
        self.driver = ActorDriver(self, self.incarnation, _sent_by_driver(snapshot), frozenset(snapshot.ended))

    def target(self) -> WorldSnapshot | None:
        """The snapshot that a rollback would go to."""
        return next((snapshot for snapshot in reversed(self.snapshots) if snapshot.advances), self.origin)

    def roll_back(self) -> None:
        """All actors are gone, and come back from the last snapshot. Raises SnapshotNotFound where there is none."""
        snapshot = self.target()
        if snapshot is None:
            raise SnapshotNotFound("there is no snapshot to roll back to: call world.snapshot() before", exists=[])
        self.rollbacks += 1
        self.close_loop()
        self._load(snapshot, self.incarnation + 1)
        self.note(f"all crash, and come back from {snapshot.id}, as life {self.incarnation}")
        again = [name for name in self.driver.creations if name not in self.processes and name not in self.ended]
        for name in again:
            self.come_up(name)
        self.driver.roll_back(self.incarnation, _sent_by_driver(snapshot), frozenset(snapshot.ended))
        for name in again:
            self.created(name)

    def _load(self, snapshot: WorldSnapshot, incarnation: int) -> None:
        self.incarnation = incarnation
        self.agenda.clear()
        self.over.clear()
        self.coordinator = ActorCoordinator(self, incarnation, snapshot.ended)
        self.ended = dict.fromkeys(snapshot.ended, "it ended before the snapshot")
        self.processes = {name: ActorProcess(name, incarnation, self) for name in snapshot.actors}
        for name, recorded in snapshot.actors.items():
            process = self.processes[name]
            before = swap_port(lambda process=process: process)  # type: ignore[misc]  # handles in the state are its own
            try:
                _fill(process, snapshot)
                load_cell(process.cell, recorded, snapshot.names)
            finally:
                swap_port(before)
        for process in self.processes.values():
            self.coordinator.tell(ProcessJoined(process.name))
        for process in tuple(self.processes.values()):
            process.settle()


def _recast(process: ActorProcess, recasting: Recasting, number: int, recorded: bytes) -> bytes:
    """A message as it is to be, with what lay beside it inside. Raises CodeMismatch."""
    message = recasting.message(number, recorded)
    if not isinstance(recorded, SlottedMessage):
        return message
    if any(slot.kind == OBJECT for slot in recorded.slots):
        raise CodeMismatch(
            f"message {number} in flight to {process.name!r} holds ObjectRefs, which exist on Ray only: restore it "
            "there",
            actor=process.name,
            number=number,
        )
    slots = [
        Slot(slot.kind, content=StoredValue(recasting.parts(number, slot.content.parts))) for slot in recorded.slots
    ]
    return process.codec.filled(message, slots)


def _fill(process: ActorProcess, snapshot: WorldSnapshot) -> None:
    """Counters of all channels, and what was in flight into the mailbox."""
    name = process.name
    arrived = {}
    recorded = snapshot.actors[name]
    unborn = recorded.specification if recorded.state is None else None
    recasting = Recasting(process.codec, name, snapshot.names, unborn and unborn.recast(snapshot.names))
    for channel in snapshot.channels.values():
        if channel.channel.sender == name:
            process.sent[channel.channel.receiver] = channel.sent
        if channel.channel.receiver == name:
            sender = channel.channel.sender
            arrived[sender] = channel.sent
            process.received[sender] = channel.received
            bodies = enumerate(channel.bodies, channel.received + 1)
            process.mailbox[sender] = deque(_recast(process, recasting, number, body) for number, body in bodies)
    ended = frozenset(snapshot.ended) & arrived.keys()
    effects = process.machine.handle(Restored(process.machine.incarnation, dict(process.sent), arrived, ended))
    assert not effects, "a fresh machine has nothing to forget"


def _sent_by_driver(snapshot: WorldSnapshot) -> dict[str, int]:
    return {of.receiver: channel.sent for of, channel in snapshot.channels.items() if of.sender == DRIVER}
