"""Simulated actors that survive faults: they crash, their coordinator is replaced, deadlines of snapshots pass."""

from collections.abc import Callable, Collection

from rayshot.errors import CodeMismatch, SnapshotNotFound
from rayshot.format.slots import OBJECT, Slot, SlottedMessage, StoredValue
from rayshot.model.port import swap_port
from rayshot.model.recasting import Recasting
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import AbortWanted, ProcessJoined
from rayshot.protocol.events import DeadlinePassed
from rayshot.protocol.identity import SnapshotId
from rayshot.simulation.actors.network import ActorNetwork
from rayshot.simulation.actors.snapshot_loading import load_cell
from rayshot.simulation.bodies.actor_driver import NAME as DRIVER
from rayshot.simulation.bodies.actor_process import ActorProcess
from rayshot.simulation.bodies.world_snapshot import WorldSnapshot
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.coordinator import Coordinator
from rayshot.simulation.world.networks import Traffic
from rayshot.simulation.world.packets import Load


class RecoverableActors(ActorNetwork):
    """See the module. `origin` is the snapshot from which the world was made.

    `late` are the snapshots whose deadline passes before an actor records; `overdue` those that an actor gave up when
    nothing else was left to do.
    """

    def __init__(
        self,
        choices: Choices,
        system: str,
        run_until: Callable[[Callable[[], bool], str], None],
        traffic: Traffic,
        *,
        story: bool,
    ) -> None:
        super().__init__(choices, system, run_until, traffic, story=story)
        self.rollbacks = 0
        self.origin: WorldSnapshot | None = None
        self.late: set[tuple[ActorProcess, SnapshotId]] = set()
        self.overdue: set[tuple[ActorProcess, SnapshotId]] = set()

    # Rollback --------------------------------------------------------------------------------------------------

    def begin_from(self, snapshot: WorldSnapshot) -> None:
        """Load the contents of a snapshot into this world."""
        self.origin = snapshot
        self.now = snapshot.taken_at
        self.dead_letters.extend(snapshot.dead_letters)
        self._load(snapshot, snapshot.id.incarnation + 1)
        self.begin_driver(_sent_by_driver(snapshot), frozenset(snapshot.ended))

    def log(self) -> list[tuple[SnapshotId, Collection[str]]]:
        """See CoordinatedNetwork."""
        before = [] if self.origin is None else [self.origin]
        return [(snapshot.id, snapshot.ended) for snapshot in (*before, *self.snapshots)]

    def target(self) -> WorldSnapshot | None:
        """The snapshot to which a rollback would go."""
        return next((snapshot for snapshot in reversed(self.snapshots) if snapshot.advances), self.origin)

    def roll_back(self) -> None:
        """Let all actors crash and come back from the last snapshot. Raises SnapshotNotFound if there is none."""
        snapshot = self.target()
        if snapshot is None:
            raise SnapshotNotFound("there is no snapshot to roll back to: call world.snapshot() before", exists=[])
        self.rollbacks += 1
        self.close_loop()
        self._load(snapshot, self.incarnation + 1)
        self.note(f"all crash, and come back from {snapshot.id}, as life {self.incarnation}")
        again = [name for name in self.driver.creations if name not in self.processes and name not in self.reasons]
        for name in again:
            self.come_up(name)
        received = {of.receiver: channel.received for of, channel in snapshot.channels.items() if of.sender == DRIVER}
        self.driver.roll_back(self.incarnation, _sent_by_driver(snapshot), received, frozenset(snapshot.ended))
        for name in again:
            self.created(name)

    def _load(self, snapshot: WorldSnapshot, incarnation: int) -> None:
        self.incarnation = incarnation
        for gone in (self.pending, self.scheduled, self.wires, self.over, self.coordinators):
            gone.clear()
        collector = self.machines.collector(incarnation, 0, snapshot.ended)
        self.install(Coordinator(self.generation + 1, collector, self))
        self.reasons = dict.fromkeys(snapshot.ended, "it ended before the snapshot")
        self.ended = set(snapshot.ended)
        machines = {name: self.machines.participant(name, incarnation) for name in snapshot.actors}
        self.processes = {name: ActorProcess(name, machine, self) for name, machine in machines.items()}
        for name, recorded in snapshot.actors.items():
            process = self.processes[name]
            process.generation = self.generation
            before = swap_port(lambda process=process: process)  # type: ignore[misc]  # handles in the state bind to it
            try:
                _fill(process, snapshot)
                load_cell(process.cell, recorded, snapshot.names)
            finally:
                swap_port(before)
        for process in self.processes.values():
            self.coordinator.tell(ProcessJoined(process.name))
        for process in tuple(self.processes.values()):
            process.loading = False
            self.wake(process)

    # Take-over -------------------------------------------------------------------------------------------------

    @property
    def takeovers(self) -> int:
        """How many times a coordinator was lost."""
        return self.counts["coordinators replaced"]

    def lose_coordinator(self, mode: str) -> bool:
        """Replace the coordinator. If it was only thought dead, it begins one more snapshot of this mode, as a rival.

        Returns whether this was possible: not before there is an actor, and not while a new one finds the actors.
        """
        if self.coordinator.finding or not self.processes:
            return False
        self.note(f"coordinator {self.generation} is lost")
        old = self.replace_coordinator()
        if old.alive:
            self.push(self.on_rival, old, mode)
        return True

    def on_rival(self, coordinator: Coordinator, mode: str) -> None:
        """Let a coordinator that was replaced begin a snapshot."""
        self.note(f"coordinator {coordinator.generation} lives, and does not know that it was replaced")
        self.begin_snapshot(coordinator, mode)

    def on_find(self, name: str, generation: int) -> None:
        """See CoordinatedNetwork."""
        self.note(f"coordinator {generation} finds {name}")
        super().on_find(name, generation)

    # Deadlines -------------------------------------------------------------------------------------------------

    def deadlines(self) -> list[tuple[ActorProcess, SnapshotId]]:
        """See CoordinatedNetwork. Actors record as soon as they learn of a snapshot: so they are late before."""
        working = [process for process in self.processes.values() if not process.ended]
        unheard = [
            (process, snapshot)
            for snapshot in self.coordinator.collector.open_snapshots
            for process in working
            if snapshot not in process.machine.open_snapshots and (process, snapshot) not in self.late
        ]
        return [*super().deadlines(), *unheard]

    def give_up(self, process: ActorProcess, snapshot: SnapshotId) -> None:
        """See CoordinatedNetwork. An actor that has not learned of the snapshot gives it up when it does."""
        if snapshot in process.machine.open_snapshots:
            self.note(f"{process.name} gives {snapshot} up: the deadline has passed")
            super().give_up(process, snapshot)
        else:
            self.note(f"{process.name} will be too late for {snapshot}")
            self.late.add((process, snapshot))
            self.given_up.add(snapshot)

    def is_late(self, process: ActorProcess, snapshot: SnapshotId) -> bool:
        """See ActorSurroundings."""
        return (process, snapshot) in self.late

    def pass_overdue(self) -> bool:
        """Let the deadlines pass of snapshots for which nobody can do anything more; returns whether there were any."""
        overdue = [one for one in self.left_open() if one not in self.overdue]
        for process, snapshot in overdue:
            self.overdue.add((process, snapshot))
            self.note(f"{process.name} gives {snapshot} up, of which nobody knows any more")
            process.tell(DeadlinePassed(snapshot))
        hopeless = self.hopeless()
        for snapshot in hopeless:
            self.coordinator.tell(AbortWanted(snapshot, AbortReason.TIMEOUT, "an actor gave it up"))
        return bool(overdue or hopeless)


def _recast(process: ActorProcess, recasting: Recasting, number: int, recorded: bytes) -> bytes:
    """A message rewritten for this program, with the values beside it moved inside. Raises CodeMismatch."""
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
    """Load the counters of all channels, and put messages that were in flight into the mailbox."""
    name = process.name
    recorded = snapshot.actors[name]
    unborn = recorded.specification if recorded.state is None else None
    recasting = Recasting(process.codec, name, snapshot.names, unborn and unborn.recast(snapshot.names))
    into = {of.sender: channel for of, channel in snapshot.channels.items() if of.receiver == name}
    process.load(
        Load(
            process.incarnation,
            {of.receiver: channel.sent for of, channel in snapshot.channels.items() if of.sender == name},
            {sender: channel.sent for sender, channel in into.items()},
            {sender: channel.received for sender, channel in into.items()},
            {
                sender: tuple(
                    _recast(process, recasting, *one) for one in enumerate(channel.bodies, channel.received + 1)
                )
                for sender, channel in into.items()
            },
            frozenset(snapshot.ended) & into.keys(),
        )
    )


def _sent_by_driver(snapshot: WorldSnapshot) -> dict[str, int]:
    return {of.receiver: channel.sent for of, channel in snapshot.channels.items() if of.sender == DRIVER}
