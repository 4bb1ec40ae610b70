"""Simulated actors, what is on its way between them, and the snapshots that are taken of them.

One thread. Whatever may happen next stands in the agenda; whoever runs the world picks. Reports to the coordinator are
heard at once, what it says to the actors is under way like everything else. Packets of one channel may overtake each
other: the machines put them in order.
"""

from collections.abc import Callable, Sequence
from typing import Any

from rayshot.errors import NameTaken
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.collecting import (
    AnnounceEnd,
    CaptureRefused,
    CollectorEvent,
    ProcessEnded,
    ProcessJoined,
    ProcessQuiet,
    RecordArrived,
    SnapshotAnnounced,
    SnapshotWanted,
)
from rayshot.protocol.cut import Record
from rayshot.protocol.effects import AnnounceSnapshot, Effect, ReportEnd, ReportFailure, ReportQuiet, ReportRecord
from rayshot.protocol.events import BatchAcknowledged, Begun, Event, EverybodyRecorded, SnapshotEnded
from rayshot.protocol.identity import SnapshotId, check_actor_name
from rayshot.protocol.topology import forward_inputs
from rayshot.simulation.actor_coordinator import ActorCoordinator
from rayshot.simulation.actor_driver import NAME as DRIVER
from rayshot.simulation.actor_driver import ActorDriver
from rayshot.simulation.actor_machine import ActorMachine
from rayshot.simulation.actor_packet import ActorPacket, RecordContent
from rayshot.simulation.actor_process import ActorProcess
from rayshot.simulation.agenda import Agenda
from rayshot.simulation.choices import Choices
from rayshot.simulation.virtual_loop import VirtualLoop
from rayshot.simulation.wording import words
from rayshot.simulation.world_snapshot import WorldSnapshot

DEAD_LETTERS_MAX = 1000


class ActorNetwork:
    """See the module. `running` is the actor whose handler runs. `ended` maps every actor that has ended to the reason.

    Public for its users here: the processes by name, the driver, the agenda, the snapshots committed so far.
    """

    def __init__(
        self, choices: Choices, system: str, run_until: Callable[[Callable[[], bool], str], None], *, tell: bool
    ) -> None:
        self.system = system
        self.run_until = run_until
        self.incarnation = 1
        self.agenda = Agenda(choices)
        self.now = 0.0
        self.events = 0
        self.story: list[str] | None = [] if tell else None
        self.processes: dict[str, ActorProcess] = {}
        self.ended: dict[str, str] = {}
        self.snapshots: list[WorldSnapshot] = []
        self.dead_letters: list[DeadLetter] = []
        self.running: str | None = None
        self.coordinator = ActorCoordinator(self, 1)
        self.driver = ActorDriver(self, 1, {}, frozenset())
        self.over: list[SnapshotEnded] = []
        self.aborted: dict[SnapshotId, str] = {}
        self._joining: str | None = None
        self._loop: VirtualLoop | None = None
        self._made: dict[str, int] = {}

    def clock(self) -> float:
        """Virtual time in seconds."""
        return self.now

    def event_loop(self) -> VirtualLoop:
        """The loop of all actors, of which one runs at a time; it is made when the first one asks."""
        if self._loop is None:
            self._loop = VirtualLoop()
        return self._loop

    def close_loop(self) -> None:
        """Nothing that was opened on the loop goes on."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def note(self, line: str) -> None:
        """Write a line of the story."""
        if self.story is not None:
            self.story.append(f"{self.events:5}  {line}")

    # Events ----------------------------------------------------------------------------------------------------

    def happen(self, kind: str, args: tuple[Any, ...]) -> None:
        """Let one event of the agenda happen."""
        getattr(self, f"on_{kind}")(*args)

    def on_handle(self, name: str) -> None:
        """An actor handles the next message of one of its senders."""
        process = self.processes[name]
        senders = process.next_senders()
        if senders:
            self.handle(process, senders[self.agenda.choose(len(senders))] if len(senders) > 1 else senders[0])

    def handle(self, process: ActorProcess, sender: str) -> str:
        """Let an actor handle the next message of `sender`; returns the traceback where the handler raised."""
        if self.story is not None:
            number = process.received.get(sender, 0) + 1
            self.note(f"{process.name} handles {words(process.mailbox[sender][0])}, number {number} from {sender}")
        self.running = process.name
        try:
            report = process.handle_next(sender)
        finally:
            self.running = None
        if report:
            self.note(f"  it raised {report.strip().splitlines()[-1]}")
        return report

    def on_fire(self, name: str) -> None:
        """The next timer of an actor fires, and time goes on to when it was due."""
        process = self.processes[name]
        due = process.cell.next_due()
        if due is not None:
            self.now = max(self.now, due)
            self.note(f"a timer of {name} fires at {self.now:g} s")
            process.fire()

    def on_take(self, name: str, receiver: str) -> None:
        """The transport takes some of what waits for a receiver."""
        process = self.processes[name]
        count = process.transportable(receiver)
        if count:
            process.transport(receiver, self._some(count))
            if process.transportable(receiver):
                self.agenda.push("take", name, receiver)

    def on_take_from_driver(self, receiver: str) -> None:
        """The transport takes some of what the driver wrote."""
        count = self.driver.waiting(receiver)
        if count:
            self.driver.transport(receiver, self._some(count))
            if self.driver.waiting(receiver):
                self.agenda.push("take_from_driver", receiver)

    def _some(self, count: int) -> int:
        return 1 + self.agenda.choose(count) if count > 1 else 1

    def on_deliver(self, packet: ActorPacket) -> None:
        """A packet comes to the end of its way."""
        if self.story is not None:
            self.note(f"arrives: {packet}")
        self.processes[packet.receiver].arrive(packet)

    def on_acknowledge(self, sender: str, answer: BatchAcknowledged) -> None:
        """A sender hears that a packet arrived."""
        if sender == DRIVER:
            self.driver.tell(answer)
        elif (process := self.processes.get(sender)) is not None:  # else it was a driver before this world
            process.acknowledged(answer)

    def on_refuse(self, sender: str, receiver: str) -> None:
        """A sender hears that a receiver has ended."""
        if sender == DRIVER:
            self.driver.receiver_ended(receiver)
        elif (process := self.processes.get(sender)) is not None:
            process.receiver_ended(receiver)

    def on_tell(self, name: str, event: Event) -> None:
        """An actor hears something of the coordinator."""
        process = self.processes[name]
        if not process.ended:
            process.tell(event)
            process.settle()

    # What processes and the driver ask -------------------------------------------------------------------------

    def wake(self, process: ActorMachine) -> None:
        """There may be something to handle."""
        if process.next_senders():
            self.agenda.push("handle", process.name)

    def has_to_send(self, process: ActorMachine, receiver: str) -> None:
        """Something waits to be transported."""
        self.agenda.push("take", process.name, receiver)

    def driver_has_to_send(self, receiver: str) -> None:
        """Something waits to be transported."""
        self.agenda.push("take_from_driver", receiver)

    def transmit(self, packet: ActorPacket) -> None:
        """A packet is on its way."""
        self.agenda.push("deliver", packet)

    def acknowledge(self, sender: str, answer: BatchAcknowledged) -> None:
        """An acknowledgement is on its way."""
        self.agenda.push("acknowledge", sender, answer)

    def is_there(self, name: str) -> bool | None:
        """Whether an actor is there; None where nobody of that name ever was, False where it has ended."""
        return False if name in self.ended else True if name in self.processes else None

    def refuse(self, sender: str, receiver: str) -> None:
        """A sender is to hear that a receiver has ended."""
        self.agenda.push("refuse", sender, receiver)

    def answer(self, process: ActorMachine, driver: str, call_id: int, value: object, *, ok: bool) -> None:
        """A driver's call is answered."""
        if driver == DRIVER:
            self.driver.settle(call_id, value, process.machine.open_snapshots, ok=ok)

    def lose(self, letter: DeadLetter, message: bytes | None) -> None:
        """A message has no effect."""
        self.dead_letters.append(letter)
        del self.dead_letters[:-DEAD_LETTERS_MAX]
        if message is not None and letter.sender == DRIVER:
            self.driver.lost(letter.receiver, message)

    def spawn(self, specification: ActorSpecification, name: str | None) -> str:
        """A process comes up for a new actor; returns its name."""
        if name is None:
            name = self._free_name(specification.class_name.rpartition(".")[2].lower())
        check_actor_name(name)
        if name in self.processes or name in self.ended:
            raise NameTaken(f"there is an actor {name!r} already, or there was: give another name", actor=name)
        self.come_up(name)
        return name

    def _free_name(self, stem: str) -> str:
        while True:
            count = self._made[stem] = self._made.get(stem, 0) + 1
            name = f"{stem}-{count}"
            if name not in self.processes and name not in self.ended:
                return name

    def come_up(self, name: str) -> ActorProcess:
        """A process joins, and hears of the snapshots before anything else: of those that are open, and of those over.

        On Ray a late marker of one that is over is forgotten at its deadline; here is no clock.
        """
        process = self.processes[name] = ActorProcess(name, self.incarnation, self)
        for over in self.over:
            process.tell(over)
        self._joining = name
        self.coordinator.tell(ProcessJoined(name))
        self._joining = None
        return process

    def created(self, name: str) -> None:
        """The driver made an actor: its constructor's call arrives before anything that mentions the actor is sent."""
        if self.driver.waiting(name):
            self.driver.transport(name, self.driver.waiting(name))
        self.deliver_all(lambda packet: packet.receiver == name and packet.batch.sender == DRIVER)

    def deliver_all(self, wanted: Callable[[ActorPacket], bool]) -> None:
        """Let all packets of a kind arrive now, in the order in which they were sent."""
        while True:
            event = self.agenda.take_first(lambda event: event.kind == "deliver" and wanted(event.args[0]))
            if event is None:
                return
            self.on_deliver(*event.args)

    def failed_to_start(self, names: Sequence[str]) -> None:
        """The constructor of the last one raised: it never was an actor of the system, nor were those that it made."""
        for name in names:
            self.processes[name].ended = True
            nothing = Record(SnapshotId(self.incarnation, name, 0), name, born=False, ended=True)
            self._end(ProcessEnded(nothing), "its constructor failed")

    # The coordinator -------------------------------------------------------------------------------------------

    def want_snapshot(self, mode: str) -> bool:
        """Somebody wants a snapshot. Whether it could be begun: no aligned one can while another one is under way."""
        if mode != "aligned":
            self.note("somebody asks for a snapshot")
            self.coordinator.tell(SnapshotWanted(stopped=mode == "stop-the-world"))
            return True
        if self.coordinator.collector.is_aligning:
            return False
        living = {name: process for name, process in self.processes.items() if not process.ended}
        channels = {name: sorted(process.sent.keys() & living.keys()) for name, process in living.items()}
        self.note("somebody asks for an aligned snapshot")
        self.coordinator.tell(SnapshotWanted(forward_inputs(channels)))
        return True

    def report(self, process: ActorMachine, effect: Effect, content: RecordContent | None) -> None:
        """The coordinator hears something of a process, at once."""
        match effect:
            case ReportRecord(record):
                assert content is not None
                self.coordinator.keep(record, content)
                event: CollectorEvent = RecordArrived(record)
            case ReportFailure(snapshot, detail):
                event = CaptureRefused(snapshot, process.name, detail)
            case ReportQuiet(snapshot):
                event = ProcessQuiet(snapshot, process.name)
            case AnnounceSnapshot(snapshot, floor):
                self.note(f"{process.name} begins {snapshot}")
                event = SnapshotAnnounced(snapshot, process.name, floor)
            case ReportEnd(record, unfinished):
                self._end(ProcessEnded(record, unfinished), "it ended by its own wish")
                return
            case _:
                raise AssertionError(effect)
        self.coordinator.tell(event)

    def _end(self, end: ProcessEnded, reason: str) -> None:
        name = end.record.process
        self.ended[name] = reason
        self.coordinator.tell(end)
        for other in (*self.processes, DRIVER):
            if other != name:
                self.agenda.push("refuse", other, name)

    def begin(self, process: str, begun: Begun) -> None:
        """A process is to hear that a snapshot began; one that joins hears it before anything else."""
        if process == self._joining:
            self.processes[process].tell(begun)
        else:
            self.agenda.push("tell", process, begun)

    def everybody_recorded(self, snapshot: SnapshotId) -> None:
        """All processes are to hear so."""
        for name in self.processes:
            self.agenda.push("tell", name, EverybodyRecorded(snapshot))

    def committed(self, snapshot: WorldSnapshot) -> None:
        """A snapshot is complete."""
        self.note(f"snapshot {snapshot.id} is complete, with {snapshot.in_flight} messages in flight")
        self.snapshots.append(snapshot)

    def announce(self, end: AnnounceEnd) -> None:
        """Everybody is to hear that a snapshot ended."""
        if end.reason is not None:
            self.aborted[end.snapshot] = f"{end.reason.value}: {end.detail}"
            self.note(f"snapshot {end.snapshot} was given up: {end.detail}")
        ended = SnapshotEnded(end.snapshot, end.floor)
        self.over.append(ended)
        self.driver.tell(ended)
        for name in self.processes:
            self.agenda.push("tell", name, ended)
