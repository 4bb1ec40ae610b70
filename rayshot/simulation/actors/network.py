"""Simulated actors, the messages between them, and their snapshots.

There is one thread. The list of events holds everything that may happen next; the code that runs the world picks. A
coordinator gets reports at once; what it says to the actors is under way like everything else.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rayshot.errors import InconsistentCut, NameTaken, StateNotSerializable
from rayshot.model.configuration import ANEW, CHOSEN, LoopsOfWorld
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import (
    AbortWanted,
    AnnounceEnd,
    ProcessJoined,
    SnapshotStored,
    SnapshotWanted,
)
from rayshot.protocol.effects import AnnounceSnapshot, Effect, ReportEnd
from rayshot.protocol.events import SnapshotEnded
from rayshot.protocol.identity import ALIGNED, Channel, Mode, SnapshotId, check_actor_name
from rayshot.protocol.record import Record
from rayshot.protocol.topology import forward_inputs
from rayshot.simulation.actors.outside import WorldOutside
from rayshot.simulation.actors.stepping import message_words
from rayshot.simulation.actors.trials import Trials
from rayshot.simulation.bodies.actor_driver import NAME as DRIVER
from rayshot.simulation.bodies.actor_driver import ActorDriver
from rayshot.simulation.bodies.actor_process import SimulatedActor, let_world_go_on
from rayshot.simulation.bodies.virtual_loop import VirtualLoop
from rayshot.simulation.bodies.world_snapshot import RecordedActor, RecordedChannel, WorldSnapshot
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.coordination import News
from rayshot.simulation.world.coordinator import WorldCoordinator, reported
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.networks import Traffic
from rayshot.simulation.world.packets import Packet, StoredCut
from rayshot.simulation.world.process import Process
from rayshot.simulation.world.rollback import RollingBackNetwork

DEAD_LETTERS_MAX = 1000
TURNS_APART_ONE_IN = 4
"""Where handlers run at once, others go on between two turns of the loop, once in so many times."""


class ActorNetwork(RollingBackNetwork[SimulatedActor, WorldSnapshot]):
    """See the module. `running` is the actor whose handler runs. `reasons` gives the reason for each ended actor's end.

    `loops` says what becomes of the frame of a method at the top of a pass of its loop.
    `refused` is the error of a state that does not load, until a user has it.
    Public for its users here: the processes by name, the driver, the events, the snapshots committed so far.
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
        super().__init__(choices, traffic, Machines(), story=story)
        self.choose = lambda count: choices.choose(count) if count > 1 else 0
        self.system = system
        self.run_until = run_until
        self.now = 0.0
        self.reasons: dict[str, str] = {}
        self.snapshots: list[WorldSnapshot] = []
        self.dead_letters: list[DeadLetter] = []
        self.running: str | None = None
        self.loops: LoopsOfWorld = CHOSEN
        self.outside = WorldOutside(self)
        self.begin_driver({}, frozenset())
        self.aborted: dict[SnapshotId, str] = {}
        self.refused: StateNotSerializable | None = None
        self._loops: list[VirtualLoop] = []
        self._made: dict[str, int] = {}
        self._trials = Trials()

    def begin_driver(self, sent: Mapping[str, int], gone: frozenset[str]) -> None:
        """Make the test a new driver; `sent` are the numbers, by receiver, that the world's snapshot has for it."""
        self.driver = ActorDriver(self, self.machines.driver(DRIVER, self.incarnation), sent, gone)
        self.drivers[DRIVER] = self.driver

    def odds(self, one_in: int) -> bool:
        """See EventList. Here 0, which is the simplest choice, means that nothing goes wrong."""
        return one_in > 0 and self.choose(one_in) == one_in - 1

    def clock(self) -> float:
        """Virtual time in seconds."""
        return self.now

    def event_loop(self) -> VirtualLoop:
        """A loop on which no handler waits, made at first use; all actors share it."""
        free = next((loop for loop in self._loops if loop.is_shared and not loop.is_running()), None)
        if free is None:
            free = VirtualLoop(let_world_go_on, is_shared=True)
            self._loops.append(free)
        return free

    def own_event_loop(self, idle: Callable[[float | None], bool]) -> VirtualLoop:
        """See ActorSurroundings."""
        loop = VirtualLoop(idle, is_shared=False)
        self._loops.append(loop)
        return loop

    def close_loops(self) -> None:
        """End the handlers that wait, and close the loops with everything that was opened on them."""
        for process in self.processes.values():
            process.abandon()
        for loop in self._loops:
            loop.close()
        self._loops.clear()

    def note(self, line: str) -> None:
        """Write a line of the story."""
        if self.story is not None:
            self.story.append(f"{self.steps:5}  {line}")

    def is_at_work(self, process: SimulatedActor) -> bool:
        """Whether an actor may handle messages: it lives, is of the present life, and waits for nobody."""
        return self.is_current(process) and not process.is_quiet

    # Events ----------------------------------------------------------------------------------------------------

    def on_handle(self, process: SimulatedActor) -> None:
        """Let an actor handle the next message of one of its senders."""
        if self.is_at_work(process) and (senders := process.next_senders()):
            self.handle(process, senders[self.choose(len(senders))])

    def handle(self, process: SimulatedActor, sender: str) -> str:
        """Let an actor handle the next message of `sender`; returns the traceback if the handler raised."""
        if self.story is not None:
            number = process.received.get(sender, 0) + 1
            self.note(
                f"{process.name} handles {message_words(process.mailbox[sender][0])}, number {number} from {sender}"
            )
        return self._go_on(process, lambda: process.handle_next(sender))

    @property
    def waiting(self) -> dict[str, list[str]]:
        """The actors whose handlers wait, with those for which they do."""
        processes = self.processes.values()
        return {one.name: one.suspension.waits_for for one in processes if one.suspension.is_suspended and one.alive}

    def on_answered(self, process: SimulatedActor) -> None:
        """Let a handler go on that waits, if what it waits for is there."""
        if self.is_current(process) and process.suspension.may_end:
            self.note(f"{process.name} goes on")
            self._go_on(process, lambda: process.go_on(has_time=True))
        elif self.is_current(process) and (answered := process.suspension.answered_questions()):
            question = answered[self.choose(len(answered))]
            self.note(f"{process.name} goes on with the answer of {question.callee}")
            process.suspension.give(question)
            self._go_on(process, process.serve)

    def on_time_up(self, process: SimulatedActor, wait: int) -> None:
        """Let a handler go on whose time is up, if it has not gone on before."""
        if self.is_current(process) and process.suspension.is_on and process.suspension.count == wait:
            self.note(f"{process.name} waits no longer")
            self._go_on(process, lambda: process.go_on(has_time=False))

    def on_pass(self, process: SimulatedActor) -> None:
        """Let a method go on that is at the top of its loop; after a restore, let it begin anew."""
        if self.is_at_work(process) and (passes := process.interleaving.passes()):
            goes_on = passes[self.choose(len(passes))]
            self.note(f"{process.name} {'begins a handler anew' if goes_on is None else 'goes on with a pass'}")
            process.interleaving.go_on(goes_on)
            self._go_on(process, process.serve)
        if not self.is_at_work(process) or process.cell.now.loop is None:
            return
        if not process.is_in_handler:
            self.note(f"{process.name} begins its loop anew")
            self._go_on(process, process.begin_loop_anew)
        elif process.suspension.may_pass:
            self.note(f"{process.name} goes on with a pass")
            self._go_on(process, lambda: process.go_on(has_time=True))

    def on_turn(self, process: SimulatedActor) -> None:
        """Let the loop of an actor turn whose handlers run at once: it stood still, or time passes there."""
        if self.is_at_work(process) and process.interleaving.may_turn:
            self.note(f"{process.name} goes on")
            process.interleaving.turn()
            self._go_on(process, process.serve)

    def others_go_on(self) -> bool:
        """See ActorSurroundings."""
        return self.odds(TURNS_APART_ONE_IN)

    def begins_loops_anew(self) -> bool:
        """See ActorSurroundings."""
        return self.loops == ANEW or (self.loops == CHOSEN and self.choose(2) == 1)

    def on_pass_due(self, process: SimulatedActor, due: float) -> None:
        """The time between two passes of a loop is over."""
        loop = process.cell.now.loop
        if self.is_at_work(process) and due in (loop and loop.due, *process.interleaving.due_passes()):
            self.now = max(self.now, due)
            self.wake(process)

    def at_top(self, process: Process, *, is_timed: bool) -> None:
        """See ActorSurroundings."""
        assert isinstance(process, SimulatedActor)
        assert process.cell.now.loop is not None
        if is_timed and (due := process.cell.now.loop.due) is not None:
            self.push(self.on_pass_due, process, due)

    def suspended(self, process: Process, timeout_s: float | None) -> None:
        """See ActorSurroundings."""
        assert isinstance(process, SimulatedActor)
        callees = ", ".join(process.suspension.waits_for)
        self.note(f"{process.name} waits for {callees}")
        if timeout_s is not None:
            self.push(self.on_time_up, process, process.suspension.count)
        self.wake(process)

    def _go_on(self, process: SimulatedActor, go_on: Callable[[], str]) -> str:
        before, self.running = self.running, process.name
        try:
            report = go_on()
        finally:
            self.running = before
        if report:
            self.note(f"  it raised {report.strip().splitlines()[-1]}")
        return report

    def on_fire(self, process: SimulatedActor) -> None:
        """Fire the next timer of an actor; time moves to the moment when it was due."""
        due = process.cell.timers.next_due()
        if due is not None:
            self.now = max(self.now, due)
            self.note(f"a timer of {process.name} fires at {self.now:g} s")
            process.fire()

    def deliver(self, packet: Packet) -> None:
        """See Network."""
        if self.story is not None:
            self.note(f"arrives: {_packet_words(packet)}")
        super().deliver(packet)

    def lost(self, packet: Packet) -> None:
        """See Network."""
        super().lost(packet)
        self.note(f"is lost: {_packet_words(packet)}")

    def doubled(self, packet: Packet) -> None:
        """See Network."""
        super().doubled(packet)
        self.note(f"will come again: {_packet_words(packet)}")

    def tell(self, process: SimulatedActor, event: News) -> None:
        """See CoordinatedNetwork."""
        if not process.ended:
            super().tell(process, event)

    # What processes and the driver ask -------------------------------------------------------------------------

    def wake(self, process: Process) -> None:
        """See Surroundings; work that need not wait is done at once, and what is of an earlier life does none."""
        assert isinstance(process, SimulatedActor)
        if not self.is_current(process):
            return
        waits = process.suspension.is_suspended and not process.is_quiet
        if waits:
            process.refuse_snapshots()
            if process.suspension.may_end or process.suspension.answered_questions():
                self.push_once(self.on_answered, process)
        if waits or process.settle() or process.interleaving.is_open:
            if process.next_senders():
                self.push_once(self.on_handle, process)
            if process.runs_at_once:
                self._wake_at_once(process)
            elif process.cell.now.loop is not None and (process.suspension.may_pass or not process.is_in_handler):
                self.push_once(self.on_pass, process)
            for receiver in process.transportable():
                self.push_once(self.on_take, process, receiver)

    def _wake_at_once(self, process: SimulatedActor) -> None:
        if not process.is_quiet:
            process.suspension.stop_aligning()
        if process.interleaving.may_turn:
            self.push_once(self.on_turn, process)
        if process.interleaving.passes():
            self.push_once(self.on_pass, process)

    def find(self, process: Process, receiver: str) -> None:
        """See Surroundings. The receiver exists, has ended, or belongs to a snapshot that this world does not hold."""
        there = self.is_there(receiver)
        if there is False:
            process.receiver_ended(receiver)
        elif there:
            process.connected(receiver)

    def captured(self, process: Process, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        self.note(f"{process.name} records {snapshot}")

    @abstractmethod
    def is_late(self, process: Process, snapshot: SnapshotId) -> bool:
        """See Surroundings."""

    def capture_fails(self) -> bool:
        """See Surroundings: a state that cannot be captured raises here."""
        return False

    def driver_has_to_send(self, receiver: str) -> None:
        """Note that something waits to be transported."""
        self.push_once(self.on_take_driver, self.driver, receiver)

    def is_there(self, name: str) -> bool | None:
        """Whether the actor exists; None if there never was one of that name, False if it has ended."""
        return False if name in self.reasons else True if name in self.processes else None

    def answer_driver(self, process: Process, driver: str, call_id: int, value: object, *, ok: bool) -> None:
        """Answer a driver's call."""
        assert isinstance(process, SimulatedActor)
        if self.takes_answers(driver):
            late = process.cell.answers_late or (driver, call_id) in process.cell.owed.numbers
            given = process.machine.open_snapshots, process.incarnation
            self.driver.settle(call_id, value, *given, late=late, ok=ok)

    def takes_answers(self, driver: str) -> bool:
        """See ActorSurroundings."""
        return driver == DRIVER

    def lose(self, letter: DeadLetter, message: bytes | None) -> None:
        """Note that a message has no effect."""
        self.dead_letters.append(letter)
        del self.dead_letters[:-DEAD_LETTERS_MAX]
        if message is not None and letter.sender == DRIVER:
            self.driver.lost(letter.receiver, message)

    def spawn(self, specification: ActorSpecification, name: str | None) -> str:
        """Start a process for a new actor; returns its name."""
        if name is None:
            name = self._free_name(specification.class_name.rpartition(".")[2].lower())
        check_actor_name(name)
        if self.is_taken(name):
            raise NameTaken(f"there is an actor {name!r} already, or there was: give another name", actor=name)
        self.come_up(name)
        return name

    def _free_name(self, stem: str) -> str:
        while True:
            count = self._made[stem] = self._made.get(stem, 0) + 1
            name = f"{stem}-{count}"
            if not self.is_taken(name):
                return name

    def is_taken(self, name: str) -> bool:
        """Whether there is or was such an actor, or will be again: the test's are made again after a rollback."""
        return name in self.processes or name in self.reasons or name in self.driver.creations

    def come_up(self, name: str) -> SimulatedActor:
        """Let a process join. It first gets the events of the snapshots that are over and of those that are open.

        If a new coordinator is still finding processes, it finds this one too, which waits until then.
        """
        process = self.processes[name] = SimulatedActor(name, self.machines.participant(name, self.incarnation), self)
        process.generation = self.generation
        process.joining = True
        self.on_tell_coordinator(self.generation, ProcessJoined(name), None)
        return process

    def joined(self, process: SimulatedActor, news: tuple[News, ...]) -> None:
        """See CoordinatedNetwork."""
        self.on_joined(process, news)

    def created(self, name: str) -> None:
        """Note that the driver made an actor: the constructor's call arrives before messages that name the actor."""
        if count := self.driver.unsent(name):
            self.driver.take(name, count)
        self.hurry(lambda sender, receiver: receiver == name and sender == DRIVER)

    def failed_to_start(self, names: Sequence[str]) -> None:
        """Note that the last one's constructor raised: it and the actors that it made never belonged to the system."""
        for name in names:
            process = self.processes[name]
            process.ended = True
            nothing = Record(SnapshotId(self.incarnation, name, 0), name, born=False, ended=True)
            process.last_record = ReportEnd(nothing, ())
            self._end(process, process.last_record, "its constructor failed")

    # The coordinator -------------------------------------------------------------------------------------------

    def want_snapshot(self, mode: Mode) -> bool:
        """Begin a snapshot. Returns whether this was possible.

        It is not if all go back, if a new coordinator is finding processes, or if another aligned one is open and this
        one is aligned.
        """
        return self.is_whole and self.begin_snapshot(self.coordinator, mode)

    def begin_snapshot(self, coordinator: WorldCoordinator, mode: Mode) -> bool:
        """Let a coordinator begin a snapshot, unless it would be its second aligned one; returns whether it did."""
        if mode != ALIGNED:
            self.note("somebody asks for a snapshot")
            coordinator.tell(SnapshotWanted(mode))
            return True
        if coordinator.collector.is_aligning:
            return False
        living = {name: process for name, process in self.processes.items() if not process.ended}
        channels = {name: sorted(process.sent.keys() & living.keys()) for name, process in living.items()}
        self.note("somebody asks for an aligned snapshot")
        coordinator.tell(SnapshotWanted(ALIGNED, forward_inputs(channels)))
        return True

    def report(self, process: Process, effect: Effect, content: Any) -> None:
        """See Surroundings; the coordinator gets it at once."""
        if isinstance(effect, ReportEnd):
            self._end(process, effect, "it ended by its own wish")
            return
        if isinstance(effect, AnnounceSnapshot):
            self.note(f"{process.name} begins {effect.snapshot}")
        self.on_tell_coordinator(process.generation, reported(process.name, effect), content)

    def _end(self, process: Process, end: ReportEnd, reason: str) -> None:
        name = process.name
        self.reasons[name] = reason
        self.ended.add(name)
        self.on_tell_coordinator(process.generation, reported(name, end), None)
        for other in (*self.processes, DRIVER):
            if other != name:
                self.refuse(other, name, self.incarnation)

    def opened(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """See CoordinatorSurroundings."""

    def store(self, coordinator: WorldCoordinator, stored: StoredCut) -> None:
        """See CoordinatorSurroundings; a complete snapshot fails only here, if a state of it does not load."""
        cut = stored.cut
        if self.is_fenced(coordinator, cut.snapshot):
            return
        try:
            self._trials.check(cut.snapshot.incarnation, stored.states)
        except StateNotSerializable as error:
            self.refused = error
            coordinator.tell(AbortWanted(cut.snapshot, AbortReason.DOES_NOT_LOAD, error.message))
            return
        actors = {**stored.states, **dict.fromkeys(cut.unborn, RecordedActor(None, None))}
        channels = {
            of.channel: RecordedChannel(of.channel, of.sent, of.received, stored.messages[of.channel], of.owed)
            for of in cut.channels
        }
        snapshot = WorldSnapshot(
            cut.snapshot, self.system, actors, dict(sorted(channels.items())), cut.ended, cut.advances, self.now
        )
        self.note(f"snapshot {snapshot.id} is complete, with {snapshot.in_flight} messages in flight")
        self.snapshots.append(snapshot)
        if self.has_outside and self.odds(self.traffic.lost_one_in):
            lost = "the storage's answer was lost, and the commit is found later"
            coordinator.tell(AbortWanted(snapshot.id, AbortReason.STORE_UNAVAILABLE, lost))
            return
        if cut.advances:
            self.outside.advanced(iter(self.processes.values()), coordinator.generation, snapshot.id)
            of_driver = [of for of in cut.channels if of.channel.sender == DRIVER]
            received = {of.channel.receiver: of.received for of in of_driver}
            owed = {of.channel.receiver: of.owed for of in of_driver}
            self.driver.covered(cut.snapshot.incarnation, received, owed, frozenset(cut.ended))
        coordinator.tell(SnapshotStored(snapshot.id))

    @property
    def has_outside(self) -> bool:
        """Whether an actor fixes something outside."""
        return any(process.outside.is_there for process in self.processes.values())

    def found_all(self, coordinator: WorldCoordinator) -> None:
        """See CoordinatedNetwork; who takes over tells the last commit again, as the news of it may be lost."""
        super().found_all(coordinator)
        newest = (one.id for one in reversed(self.snapshots) if one.advances and one.id.incarnation == self.incarnation)
        if self.is_whole and (snapshot := next(newest, None)) is not None:
            self.outside.advanced(iter(self.processes.values()), coordinator.generation, snapshot)

    def announce(self, coordinator: WorldCoordinator, end: AnnounceEnd, stored: StoredCut | None) -> None:
        """See CoordinatorSurroundings."""
        del stored
        if end.reason is AbortReason.INCONSISTENT:
            raise InconsistentCut(f"{end.snapshot}: {end.detail}", snapshot=str(end.snapshot))
        if end.reason is not None:
            self.aborted[end.snapshot] = f"{end.reason.value}: {end.detail}"
            self.note(f"snapshot {end.snapshot} was given up: {end.detail}")
        ended = self.over[end.snapshot] = SnapshotEnded(end.snapshot, end.floor)
        self.driver.tell(ended)
        for name in self.processes:
            self.push(self.on_tell_process, name, coordinator.generation, ended)


def _packet_words(packet: Packet) -> str:
    count, first = len(packet.messages), packet.first
    what = "a marker" if count == 0 else f"message {first}" if count == 1 else f"messages {first} .. {packet.last}"
    return f"{Channel(packet.sender, packet.receiver)}: {'its end' if packet.closing else what}"
