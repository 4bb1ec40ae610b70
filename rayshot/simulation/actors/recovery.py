"""Simulated actors that survive faults: they crash, their coordinator is replaced, deadlines of snapshots pass."""

from collections.abc import Callable, Collection

from rayshot.errors import CodeMismatch, OutsideConflict, SnapshotNotFound
from rayshot.format.entries import OutsideMode
from rayshot.format.slots import OBJECT, Slot, SlottedMessage, StoredValue
from rayshot.model.port import swap_port
from rayshot.model.recasting import Recasting
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import AbortWanted, ProcessJoined
from rayshot.protocol.events import DeadlinePassed
from rayshot.protocol.identity import Mode, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.protocol.recovery_events import Began, LoadProcess, ProcessLoaded
from rayshot.simulation.actors.network import ActorNetwork
from rayshot.simulation.actors.snapshot_loading import load_cell
from rayshot.simulation.bodies.actor_driver import NAME as DRIVER
from rayshot.simulation.bodies.actor_process import SimulatedActor
from rayshot.simulation.bodies.world_snapshot import WorldSnapshot
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.coordinator import WorldCoordinator
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.networks import Traffic
from rayshot.simulation.world.packets import Load
from rayshot.simulation.world.process import Process
from rayshot.simulation.world.rollback import POLICY, Decider, WorldLife


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
        self.origin: WorldSnapshot | None = None
        self.late: set[tuple[SimulatedActor, SnapshotId]] = set()
        self.overdue: set[tuple[SimulatedActor, SnapshotId]] = set()

    # Rollback --------------------------------------------------------------------------------------------------

    def begin_from(self, snapshot: WorldSnapshot, outside: OutsideMode, *, takeover: bool) -> None:
        """Load the contents of a snapshot into this world. Raises OutsideConflict."""
        self.origin = snapshot
        self.outside.begin_from(snapshot.id, outside, takeover=takeover)
        self.now = snapshot.taken_at
        self.dead_letters.extend(snapshot.dead_letters)
        number = snapshot.id.incarnation + 1
        self.begin_life(number)
        self.marked.add(number)
        self.decider = Decider(self.machines.recovery(number, POLICY))
        self.on_decide(self.decider, Began(number))
        self.reasons = _ended_before(snapshot)
        for name in snapshot.actors:
            process = self.processes[name] = self.bring_back(name, self.machines.participant(name, number), number)
            process.generation = self.generation
            self.dead_letters.extend(process.cell.dead_letters.all())
        for name in snapshot.actors:
            self.coordinator.tell(ProcessJoined(name))
        for process in tuple(self.processes.values()):
            self.on_resume(process)
        self.begin_driver(_sent_by_driver(snapshot), frozenset(snapshot.ended))

    def log(self) -> list[tuple[SnapshotId, Collection[str]]]:
        """See CoordinatedNetwork."""
        before = [] if self.origin is None else [self.origin]
        return [(snapshot.id, snapshot.ended) for snapshot in (*before, *self.snapshots)]

    def target(self) -> WorldSnapshot | None:
        """See RollingBackNetwork."""
        return next((snapshot for snapshot in reversed(self.snapshots) if snapshot.advances), self.origin)

    def members(self, target: WorldSnapshot | None) -> tuple[frozenset[str], Collection[str]]:
        """See RollingBackNetwork."""
        assert target is not None, "nobody crashes before there is a snapshot"
        return frozenset(target.actors), target.ended

    @property
    def rollbacks(self) -> int:
        """How many times all went back to a snapshot."""
        return self.counts["rollbacks"]

    def lose_actor(self) -> bool:
        """Let one actor die, which is seen later. Returns whether this was possible: there must be a snapshot."""
        living = [process for process in self.processes.values() if self.is_current(process) and not process.ended]
        if not living or self.target() is None:
            return False
        process = living[self.choose(len(living))]
        self.counts["crashes in a restore"] += not self.is_whole
        self.note(f"{process.name} dies")
        process.alive = False
        self.push(self.on_detect, process)
        return True

    def roll_back(self) -> None:
        """Let all actors crash and come back from the last snapshot. Raises SnapshotNotFound if there is none."""
        if self.target() is None:
            raise SnapshotNotFound("there is no snapshot to roll back to: call world.snapshot() before", exists=[])
        self.finish_rollback()
        self.note("all crash")
        for process in self.processes.values():
            process.alive = False
            self.push(self.on_detect, process)
        self.finish_rollback()

    def finish_rollback(self) -> None:
        """If an actor died or all go back, let happen what is left of this, and nothing else."""
        way = {self.on_detect, self.on_decide, self.on_stop_handlers, self.on_begin_life, self.on_load, self.on_loaded}
        way |= {self.on_mark, self.on_resume, self.on_roll_back_driver}

        def is_on_the_way(method: Callable[..., None], _: object) -> bool:
            return method in way or method == self.on_find  # a coordinator that finds actors sees no deaths yet

        def is_left() -> bool:
            finds_losses = self.coordinator.finding and (self.missing() or self.incarnation not in self.marked)
            return bool(finds_losses) or any(method in way for method, *_ in self.pending)

        while is_left():
            event = self.take_first(is_on_the_way)
            assert event is not None, "there is one"
            self.hurry_one(event)

    def on_detect(self, process: SimulatedActor) -> None:
        """See RollingBackNetwork."""
        if process.incarnation == self.incarnation and not self.coordinator.finding:
            self.note(f"the death of {process.name} is seen")
        super().on_detect(process)

    def life_began(self, life: WorldLife[WorldSnapshot]) -> None:
        """See RollingBackNetwork. Actors that the snapshot does not hold are gone at once."""
        assert life.origin is not None, "nobody crashes before there is a snapshot"
        self.note(f"all go back to {life.origin.id}: life {self.incarnation} begins")
        self.close_loops()
        for name in self.processes.keys() - life.processes:
            self.processes.pop(name).alive = False
        self.reasons = _ended_before(life.origin)

    def on_load(self, decider: Decider, order: LoadProcess) -> None:
        """See RollingBackNetwork; an order of an earlier life may be for an actor that there is not in this one.

        Raises OutsideConflict: a life of the past is only kept out of what it does not have any more.
        """
        try:
            if order.process in self.lives[self.incarnation].processes:
                super().on_load(decider, order)
        except OutsideConflict:
            if order.life == self.incarnation:
                raise

    def on_resume(self, process: SimulatedActor) -> None:
        """See RollingBackNetwork."""
        super().on_resume(process)
        process.resumed()

    def on_loaded(self, decider: Decider, event: ProcessLoaded) -> None:
        """See RollingBackNetwork."""
        self.note(f"{event.process} is loaded")
        super().on_loaded(decider, event)

    def bring_back(self, name: str, machine: Participant, number: int) -> SimulatedActor:
        """See RollingBackNetwork."""
        snapshot = self.lives[number].origin
        assert snapshot is not None, "nobody crashes before there is a snapshot"
        process = SimulatedActor(name, machine, self)
        before = swap_port(lambda: process)  # handles in the state bind to it
        try:
            _fill(process, snapshot, number)
            load_cell(process.cell, snapshot.actors[name], snapshot.names)
            if process.cell.born:
                process.outside.goes_on_from(snapshot.id, snapshot.actors[name])
            process.tell_of_restore()
        finally:
            swap_port(before)
        return process

    def on_roll_back_driver(self, driver: SimulatedDriver, number: int) -> None:
        """See RollingBackNetwork. The test makes its actors again that the snapshot does not hold."""
        if number != self.incarnation or driver.machine.incarnation >= number:
            return
        life = self.lives[number]
        assert life.origin is not None, "nobody crashes before there is a snapshot"
        of_driver = [channel for of, channel in life.origin.channels.items() if of.sender == DRIVER]
        received = {one.channel.receiver: one.received for one in of_driver}
        owed = {one.channel.receiver: one.owed for one in of_driver}
        again = [name for name in driver.creations if name not in life.processes and name not in self.reasons]
        for name in again:
            there = self.processes.get(name)
            if there is None or not self.is_current(there):
                self.come_up(name)
        numbers = _sent_by_driver(life.origin), received, owed
        self.driver.roll_back(number, *numbers, frozenset(life.origin.ended))
        for name in again:
            self.created(name)
        for name in self.reasons:
            self.driver.receiver_ended(name)  # this life may have told before the driver knew of it

    # Take-over -------------------------------------------------------------------------------------------------

    @property
    def takeovers(self) -> int:
        """How many times a coordinator was lost."""
        return self.counts["coordinators replaced"]

    def lose_coordinator(self, mode: Mode) -> bool:
        """Replace the coordinator. If it was only thought dead, it begins one more snapshot of this mode, as a rival.

        It does not if all were on their way back: then it takes no snapshots.

        Returns whether this was possible: not before there is an actor, and not while a new one finds the actors.
        """
        if self.coordinator.finding or not self.processes:
            return False
        self.note(f"coordinator {self.generation} is lost")
        took_snapshots = self.is_whole
        self.counts["coordinators replaced in a rollback"] += not took_snapshots
        old = self.replace_coordinator()
        if old.alive and took_snapshots:
            self.push(self.on_rival, old, mode)
        return True

    def on_rival(self, coordinator: WorldCoordinator, mode: Mode) -> None:
        """Let a coordinator that was replaced begin a snapshot."""
        self.note(f"coordinator {coordinator.generation} lives, and does not know that it was replaced")
        self.begin_snapshot(coordinator, mode)

    def on_find(self, name: str, generation: int) -> None:
        """See CoordinatedNetwork."""
        self.note(f"coordinator {generation} finds {name}")
        super().on_find(name, generation)

    # Deadlines -------------------------------------------------------------------------------------------------

    def deadlines(self) -> list[tuple[SimulatedActor, SnapshotId]]:
        """See CoordinatedNetwork. Actors record as soon as they learn of a snapshot: so they are late before."""
        working = [process for process in self.processes.values() if self.is_current(process) and not process.ended]
        unheard = [
            (process, snapshot)
            for snapshot in self.coordinator.collector.open_snapshots
            for process in working
            if snapshot not in process.machine.open_snapshots and (process, snapshot) not in self.late
        ]
        return [*super().deadlines(), *unheard]

    def give_up(self, process: SimulatedActor, snapshot: SnapshotId) -> None:
        """See CoordinatedNetwork. An actor that has not learned of the snapshot gives it up when it does."""
        if snapshot in process.machine.open_snapshots:
            self.note(f"{process.name} gives {snapshot} up: the deadline has passed")
            if process.outside.is_sealing(snapshot):
                self.given_up.add(snapshot)
            super().give_up(process, snapshot)
        else:
            self.note(f"{process.name} will be too late for {snapshot}")
            self.late.add((process, snapshot))
            self.given_up.add(snapshot)

    def is_late(self, process: Process, snapshot: SnapshotId) -> bool:
        """See ActorSurroundings."""
        return (process, snapshot) in self.late

    def pass_overdue(self) -> bool:
        """Let the deadlines pass of snapshots for which nobody can do anything more; returns whether there were any."""
        for process, snapshot in self._held_up():
            self.give_up(process, snapshot)
        overdue = [one for one in self.left_open() if one not in self.overdue]
        for process, snapshot in overdue:
            self.overdue.add((process, snapshot))
            self.note(f"{process.name} gives {snapshot} up, of which nobody knows any more")
            process.tell(DeadlinePassed(snapshot))
        hopeless = self.hopeless()
        for snapshot in hopeless:
            self.coordinator.tell(AbortWanted(snapshot, AbortReason.TIMEOUT, "an actor gave it up"))
        return bool(overdue or hopeless) or self._let_expire()

    def _held_up(self) -> list[tuple[SimulatedActor, SnapshotId]]:
        """The snapshots that wait for the end of handlers which cannot go on."""
        working = [process for process in self.processes.values() if self.is_at_work(process)]
        return [
            (process, snapshot)
            for process in working
            if process.interleaving.is_open
            for snapshot in (*process.captures, *process.pauses)
        ]

    def _let_expire(self) -> bool:
        """Nothing else can happen: a call expires that an earlier life answered and this one owes the driver."""
        receiver, number = self.driver.machine.awaits or ("", 0)
        process = self.processes.get(receiver)
        owed = {} if process is None else process.cell.owed.numbers
        keys = [key for key, of_message in owed.items() if key[0] == DRIVER and of_message == number]
        for key in keys:
            assert process is not None
            self.note(f"the driver waits in vain for {receiver} to answer message {number} again")
            process.expire(key)
        return bool(keys)


def _recast(process: SimulatedActor, recasting: Recasting, number: int, recorded: bytes) -> bytes:
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


def _fill(process: SimulatedActor, snapshot: WorldSnapshot, number: int) -> None:
    """Load the counters of all channels, and put messages that were in flight into the mailbox."""
    name = process.name
    recorded = snapshot.actors[name]
    unborn = recorded.specification if recorded.state is None else None
    recasting = Recasting(process.codec, name, snapshot.names, unborn and unborn.recast(snapshot.names))
    into = {of.sender: channel for of, channel in snapshot.channels.items() if of.receiver == name}
    process.load(
        Load(
            number,
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


def _ended_before(snapshot: WorldSnapshot) -> dict[str, str]:
    return dict.fromkeys(snapshot.ended, "it ended before the snapshot")


def _sent_by_driver(snapshot: WorldSnapshot) -> dict[str, int]:
    return {of.receiver: channel.sent for of, channel in snapshot.channels.items() if of.sender == DRIVER}
