"""The simulated world: the list of pending events, the network, the faults.

Each event is the name of a method and its arguments. Whoever wants something to happen puts it into the list; the
source of choices picks what happens next. Nothing else decides anything.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector import (
    AbortWanted,
    AnnounceEnd,
    CaptureRefused,
    ChannelArrived,
    Collector,
    CollectorEvent,
    ProcessEnded,
    ProcessJoined,
    RecordArrived,
    SnapshotAnnounced,
    SnapshotStored,
)
from rayshot.protocol.driver import AnswerArrived, CutCommitted, Driver
from rayshot.protocol.effects import AnnounceSnapshot, Effect, ReportChannel, ReportEnd, ReportFailure, ReportRecord
from rayshot.protocol.events import Begun, DriverDied, SnapshotEnded
from rayshot.protocol.identity import COORDINATOR, Channel, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.simulation.application import Account, Created, Ended, Message, Received, Sent, Step, TimerSet
from rayshot.simulation.choices import Choices
from rayshot.simulation.coordinator import Coordinator
from rayshot.simulation.driver import SimulatedDriver
from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.oracles import Stored, judge_cut
from rayshot.simulation.packets import Acknowledgement, Packet
from rayshot.simulation.process import SNAPSHOT, Process
from rayshot.simulation.settings import Settings
from rayshot.simulation.truth import Answer, Truth

STEPS_MAX = 50_000
PUT_OFF_ONE_IN = 4
PROCESSES_MAX = 9


@dataclass(frozen=True, slots=True)
class Machines:
    """Which machines a world runs: the real ones, or wrong versions of them."""

    participant: Callable[[str, int], Participant] = Participant
    collector: Callable[..., Collector] = Collector
    driver: Callable[[str, int], Driver] = Driver


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot in the log, and where it has each process."""

    stored: Stored
    positions: dict[str, int]


class World:
    """One run. `counts` says what happened how often; `story`, if it is kept, has one line per event."""

    def __init__(self, choices: Choices, settings: Settings, machines: Machines, *, tell: bool = False) -> None:
        self.choose = choices.choose
        self.settings = settings
        self.machines = machines
        self.counts: Counter[str] = Counter()
        self.story: list[str] | None = [] if tell else None
        self.pending: list[tuple[str, tuple[Any, ...]]] = []
        self.scheduled: set[tuple[Any, ...]] = set()
        self.steps = 0
        self.calm = False
        self.may_hang = False
        self.activity = settings.activity
        self.incarnation = 1
        self.generation = 1
        self.loading: set[str] = set()
        self.ended: set[str] = set()
        self.commits: list[Commit] = []
        self.writer = 1
        self.parked: dict[str, list[Packet]] = defaultdict(list)
        self.connecting: dict[str, list[Process]] = defaultdict(list)
        initial = {name: Account(name, 100, known, settings.timers) for name, known in settings.contacts.items()}
        self.truth = Truth(initial)
        self.coordinator = Coordinator(1, machines.collector(1), self)
        self.coordinators = {1: self.coordinator}
        self.processes: dict[str, Process] = {}
        for name, account in initial.items():
            self.processes[name] = Process(name, machines.participant(name, 1), self, account.copy())
            self.coordinator.tell(ProcessJoined(name))
        self.drivers: dict[str, SimulatedDriver] = {}
        for index in range(settings.drivers):
            name = f"driver:{index}"
            driver = self.drivers[name] = SimulatedDriver(name, machines.driver(name, 1), self.transmit)
            driver.contacts = list(settings.contacts)
            self.push("drive", driver, settings.activity // 3)
        for process in self.processes.values():
            self.wake(process)

    # Events ----------------------------------------------------------------------------------------

    def push(self, kind: str, *args: Any) -> None:
        """Something may happen from now on."""
        self.pending.append((kind, args))

    def push_once(self, kind: str, *args: Any) -> None:
        """As `push`, unless it is in the list already."""
        key = (kind, *args)
        if key not in self.scheduled:
            self.scheduled.add(key)
            self.pending.append((kind, args))

    def happen(self) -> None:
        """Let one pending event happen."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise OracleFailure("termination", f"{STEPS_MAX} events and no end")
        index = self.choose(len(self.pending))
        kind, args = self.pending[index]
        if not self.calm and kind in self.settings.slow and self.choose(PUT_OFF_ONE_IN):
            return
        last = self.pending.pop()
        if index < len(self.pending):
            self.pending[index] = last
        if kind in ONCE:
            self.scheduled.discard((kind, *args))
        if self.story is not None:
            self.story.append(f"{self.steps:5} {kind} {', '.join(map(_show, args))}")
        getattr(self, f"on_{kind}")(*args)

    def note(self, line: str) -> None:
        """Write a line of the story that is no event."""
        if self.story is not None:
            self.story.append(f"      | {line}")

    def odds(self, one_in: int) -> bool:
        """Whether something that happens once in so many times happens now; never when all is calm."""
        return one_in > 0 and not self.calm and self.choose(one_in) == 0

    def is_current(self, process: Process) -> bool:
        """Whether this process is alive, and of the present life of the system."""
        return process.alive and process.incarnation == self.incarnation

    # Processes at work -----------------------------------------------------------------------------

    def wake(self, process: Process) -> None:
        """See Surroundings."""
        if not process.alive or process.loading or process.ended:
            return
        if process.captures or process.todo or process.next_senders():
            self.push_once("work", process)
        if process.account is not None:
            if process.account.ending:
                self.push_once("end", process)
            elif process.account.timers:
                self.push_once("fire", process)
        for receiver, messages in process.outbox.items():
            if messages:
                self.push_once("take" if receiver in process.ready else "connect", process, receiver)

    def on_work(self, process: Process) -> None:
        """A process does the next thing: a part of its handler, a capture, or the next message."""
        if not process.alive or process.loading or process.ended:
            return
        senders = process.next_senders()
        if process.todo:
            process.go_on()
        elif process.captures:
            process.capture()
        elif senders:
            process.begin_handler(senders[self.choose(len(senders))])
        self.wake(process)

    def on_fire(self, process: Process) -> None:
        """A timer of a process fires."""
        if process.alive and not process.loading and not process.ended:
            process.fire()
            self.wake(process)

    def on_end(self, process: Process) -> None:
        """A process that wants to end looks whether it may."""
        if process.alive and not process.loading:
            process.try_to_end()
            if process.ended:
                self.counts["ends"] += 1
                self.truth.process_ended(process.name, process.incarnation)
                if process.incarnation == self.incarnation and self.coordinator.collector.open_snapshots:
                    self.counts["ends in mid-snapshot"] += 1

    def plan(self, process: Process, cause: Received) -> list[Step | str]:
        """See Surroundings."""
        account = process.account
        assert account is not None
        answer: list[Step | str] = [cause.sender] if cause.message.kind == "call" else []
        steps: list[Step | str] = []
        created = account.created
        for _ in range(self.choose(4) if self.activity > 0 else 0):
            self.activity -= 1
            if self.odds(self.settings.creations_one_in) and len(self.processes) < PROCESSES_MAX:
                created += 1
                steps.append(Created(f"{process.name}.{created}", self.choose(20)))
            elif self.odds(self.settings.own_snapshots_one_in):
                steps.append(SNAPSHOT)
            elif not account.contacts or self.choose(6) == 0:
                steps.append(TimerSet())
            else:
                receiver = account.contacts[self.choose(len(account.contacts))]
                subject = account.contacts[self.choose(len(account.contacts))] if self.choose(6) == 0 else ""
                steps.append(Sent(receiver, self.choose(10), subject))
        if self.odds(self.settings.ends_one_in):
            heirs = [name for name in account.contacts if name != process.name]
            return [*steps, *answer, Ended(heirs[0] if heirs else "")]
        return steps + answer

    def happened(self, process: Process, step: Step, emitted: tuple[str, Message] | None) -> None:
        """See Surroundings."""
        self.truth.happened(process.name, process.incarnation, step, emitted)
        self.counts["steps"] += 1
        if self.story is not None:
            self.note(f"{process.name} {step} {emitted[1] if emitted else ''}")
        if isinstance(step, Created):
            self.push("spawn", step.name, process.incarnation)

    def capture_fails(self) -> bool:
        """See Surroundings."""
        return self.odds(self.settings.capture_failures_one_in)

    def captured(self, process: Process, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        self.note(f"{process.name} records {snapshot} at step {self.truth.position(process.name)}")
        self.counts["records"] += 1
        self.counts["records with mailbox"] += any(process.mailbox.values())
        self.counts["records with outbox"] += any(process.outbox.values())
        self.truth.captured(process.name, snapshot)

    # The network -----------------------------------------------------------------------------------

    def transmit(self, packet: Packet) -> None:
        """See Surroundings."""
        self.push("deliver", packet)

    def on_deliver(self, packet: Packet) -> None:
        """A packet comes to the end of its way, or gets lost, or is doubled."""
        driver = self.drivers.get(packet.sender)
        if self.odds(self.settings.lost_one_in) or (driver and not driver.alive and self.choose(3)):
            self.counts["packets lost"] += 1
            self.push("resend", packet.sender, packet.receiver, packet.incarnation, packet.first)
            return
        if self.odds(self.settings.duplicated_one_in):
            self.counts["packets duplicated"] += 1
            self.transmit(packet)
        process = self.processes.get(packet.receiver)
        if process is None or process.incarnation < packet.incarnation:
            if packet.incarnation == self.incarnation:
                self.parked[packet.receiver].append(packet)
        elif process.alive:
            process.arrive(packet)

    def on_resend(self, sender: str, receiver: str, incarnation: int, first: int) -> None:
        """A sender missed an acknowledgement."""
        if driver := self.drivers.get(sender):
            driver.send_again(receiver, first, tagged_anew=self.choose(2) == 0)
            return
        process = self.processes.get(sender)
        if process is not None and process.alive and process.incarnation == incarnation:
            process.send_again(receiver, first)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """See Surroundings."""
        self.push("acknowledge", acknowledgement)

    def on_acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """An acknowledgement comes to the end of its way, or gets lost."""
        sender, receiver, incarnation = acknowledgement.sender, acknowledgement.receiver, acknowledgement.incarnation
        driver, process = self.drivers.get(sender), self.processes.get(sender)
        if self.odds(self.settings.lost_one_in):
            self.counts["acknowledgements lost"] += 1
            flight = driver.flight[receiver] if driver else process.flight[receiver] if process else ()
            for first in flight or (0,):
                self.push("resend", sender, receiver, incarnation, first)
        elif driver:
            if driver.alive:
                driver.acknowledged(acknowledgement)
        elif process is not None and process.alive:
            process.acknowledged(acknowledgement)

    def on_take(self, process: Process, receiver: str) -> None:
        """The transport takes some of what waits for a receiver."""
        if process.alive and not process.loading and receiver in process.ready and process.outbox[receiver]:
            process.take(receiver, 1 + self.choose(len(process.outbox[receiver])))

    def connect(self, process: Process, receiver: str) -> None:
        """See Surroundings."""
        self.push_once("connect", process, receiver)

    def on_connect(self, process: Process, receiver: str) -> None:
        """A process looks for a receiver: it is there, has ended, or is awaited."""
        if not self.is_current(process) or process.ended or receiver in process.ready:
            return
        there = self.processes.get(receiver)
        if receiver in self.ended or receiver in process.machine.ended_peers:
            process.receiver_ended(receiver)
        elif there is not None and self.is_current(there):
            process.connected(receiver)
        else:
            self.connecting[receiver].append(process)

    def refuse(self, sender: str, receiver: str, incarnation: int) -> None:
        """See Surroundings."""
        self.push("receiver_ended", sender, receiver, incarnation)

    def on_receiver_ended(self, sender: str, receiver: str, incarnation: int) -> None:
        """A sender hears that a receiver has ended."""
        if incarnation != self.incarnation:
            return
        if driver := self.drivers.get(sender):
            if driver.machine.incarnation == incarnation:
                driver.receiver_ended(receiver)
            return
        process = self.processes.get(sender)
        if process is not None and self.is_current(process) and not process.ended:
            process.receiver_ended(receiver)

    def dropped(self, why: str) -> None:
        """See Surroundings."""
        self.counts[f"batches dropped: {why}"] += 1

    def on_spawn(self, name: str, incarnation: int) -> None:
        """A process that was created comes up and says hello."""
        there = self.processes.get(name)
        if incarnation != self.incarnation or name in self.ended or (there is not None and self.is_current(there)):
            return
        if there is not None:
            there.alive = False
        process = self.processes[name] = Process(name, self.machines.participant(name, incarnation), self)
        self.counts["creations"] += 1
        self.counts["creations in mid-snapshot"] += bool(self.coordinator.collector.open_snapshots)
        process.generation = self.generation
        self.push("tell_coordinator", self.generation, ProcessJoined(name), None)
        self.arrived(name)

    def arrived(self, name: str) -> None:
        """A process is there: what waited for it goes on."""
        for packet in self.parked.pop(name, ()):
            self.transmit(packet)
        for waiting in self.connecting.pop(name, ()):
            self.push_once("connect", waiting, name)

    # Drivers ---------------------------------------------------------------------------------------

    def on_drive(self, driver: SimulatedDriver, moves: int) -> None:
        """A driver sends something, and goes on."""
        if not driver.alive or self.calm:
            return
        if self.odds(self.settings.creations_one_in) and len(self.processes) < PROCESSES_MAX:
            name = f"{driver.name.replace(':', '')}.{len(driver.creations) + 1}"
            driver.creations.append(name)
            driver.contacts.append(name)
            driver.write(name, "construct", self.choose(30))
            self.push("spawn", name, self.incarnation)
        else:
            receiver = driver.contacts[self.choose(len(driver.contacts))]
            driver.write(receiver, ("transfer", "call")[self.choose(2)], self.choose(10))
            self.truth_of(driver, receiver)
        for receiver in driver.waiting():
            self.truth_of(driver, receiver)
            self.push_once("take_driver", driver, receiver)
        if moves > 1:
            self.push("drive", driver, moves - 1)

    def truth_of(self, driver: SimulatedDriver, receiver: str) -> None:
        """Drivers' sent messages are the driver's own log: the truth shares it."""
        self.truth.sent[Channel(driver.name, receiver)] = driver.log[receiver]

    def on_take_driver(self, driver: SimulatedDriver, receiver: str) -> None:
        """The transport takes some of what a driver wrote."""
        count = len(driver.log[receiver]) - driver.taken[receiver]
        if driver.alive and count and receiver not in driver.ended:
            driver.take(receiver, 1 + self.choose(count))
            if receiver in driver.waiting():
                self.push_once("take_driver", driver, receiver)

    def answer(self, process: Process, driver: str) -> None:
        """See Surroundings."""
        answer = Answer(process.name, self.truth.position(process.name))
        self.push("answer", driver, process.machine.open_snapshots, process.incarnation, answer)

    def on_answer(self, name: str, tags: tuple[SnapshotId, ...], incarnation: int, answer: Answer) -> None:
        """A driver gets an answer."""
        driver = self.drivers[name]
        if not driver.alive:
            return
        self.counts["answers"] += 1
        self.counts["answers with tags"] += bool(tags)
        driver.tell(AnswerArrived(tags))
        self.truth.answered(name, incarnation, answer)
        process = self.processes.get(answer.process)
        if process and process.account:
            driver.contacts += [known for known in process.account.contacts if known not in driver.contacts]

    def on_tell_driver(self, driver: SimulatedDriver, event: Any) -> None:
        """A driver hears of the end of a snapshot, or of a rollback."""
        driver.tell(event)
        for receiver in driver.waiting():
            self.push_once("take_driver", driver, receiver)

    # The coordinator -------------------------------------------------------------------------------

    def report(self, process: Process, effect: Effect, content: Any) -> None:
        """See Surroundings."""
        match effect:
            case ReportRecord(record):
                event: CollectorEvent = RecordArrived(record)
            case ReportChannel(snapshot, sender, first, last):
                event = ChannelArrived(snapshot, Channel(sender, process.name), first, last)
            case ReportFailure(snapshot, detail):
                event = CaptureRefused(snapshot, process.name, detail)
            case ReportEnd(record, unfinished):
                event = ProcessEnded(record, unfinished)
            case AnnounceSnapshot(snapshot, floor):
                self.counts["snapshots of processes"] += 1
                event = SnapshotAnnounced(snapshot, floor)
            case _:
                raise AssertionError(effect)
        self.push("tell_coordinator", process.generation, event, content)

    def on_tell_coordinator(self, generation: int, event: CollectorEvent, content: Any) -> None:
        """A report comes to the coordinator it was addressed to, dead or alive."""
        coordinator = self.coordinators[generation]
        if not coordinator.alive:
            return
        if coordinator.finding:
            coordinator.waiting.append((event, content))
            return
        if isinstance(event, RecordArrived):
            coordinator.keep_record(event.record, content)
        elif isinstance(event, ChannelArrived):
            coordinator.keep_part(event.snapshot, event.channel, content)
        coordinator.tell(event)
        if isinstance(event, ProcessEnded) and event.record.snapshot.incarnation == self.incarnation:
            self.ended.add(event.record.process)
            for name in (*self.processes, *self.drivers):
                self.push("receiver_ended", name, event.record.process, self.incarnation)
            self.arrived(event.record.process)

    def opened(self, coordinator: Coordinator, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        self.counts["snapshots begun"] += 1
        self.counts["snapshots overlapping"] += len(coordinator.collector.open_snapshots) > 1
        self.truth.begun_with.setdefault(snapshot, coordinator.collector.processes)

    def begin(self, coordinator: Coordinator, process: str, snapshot: SnapshotId, floor: int) -> None:
        """See Surroundings."""
        self.push("tell_process", process, coordinator.generation, Begun(snapshot, floor))

    def on_tell_process(self, name: str, generation: int, event: Begun | SnapshotEnded) -> None:
        """A process hears from a coordinator, unless it knows a newer one."""
        process = self.processes.get(name)
        replaced = process is not None and generation < process.generation
        if process is None or not process.alive or (replaced and event.snapshot.incarnation == process.incarnation):
            return  # news of an older life reach the machine, which must know them for what they are
        if event.snapshot.initiator == COORDINATOR and event.snapshot.incarnation == process.incarnation:
            process.highest_heard = max(process.highest_heard, event.snapshot.counter)
        process.tell(event)

    def store(self, coordinator: Coordinator, stored: Stored) -> None:
        """See Surroundings."""
        snapshot = stored.cut.snapshot
        if snapshot.incarnation != self.incarnation:
            return  # of a dead life: its coordinator is fenced
        live = {p.name: p.account for p in self.processes.values() if self.is_current(p) and p.account is not None}
        positions = judge_cut(stored, self.truth, live)
        self.note(f"{snapshot} is complete at {positions}")
        in_flight = sum(len(messages) for messages in stored.messages.values())
        self.counts["cuts checked"] += 1
        self.counts["messages recorded"] += in_flight
        self.counts["cuts with messages in flight"] += in_flight > 0
        self.counts["cuts that do not advance"] += not stored.cut.advances
        self.counts["cuts with unborn"] += bool(stored.cut.unborn) or not all(
            r.born for r in stored.cut.records.values()
        )
        self.counts["cuts with messages of the ended"] += any(
            c.channel.sender in stored.cut.ended for c in stored.cut.channels
        )
        self.push("store", coordinator, Commit(stored, positions))

    def on_store(self, coordinator: Coordinator, commit: Commit) -> None:
        """The log takes a snapshot, refuses a coordinator that was replaced, or cannot be reached."""
        snapshot = commit.stored.cut.snapshot
        if self.writer != coordinator.generation:
            self.counts["commits fenced"] += 1
            coordinator.tell(AbortWanted(snapshot, AbortReason.FENCED, "another coordinator writes"))
        elif self.odds(self.settings.store_failures_one_in):
            coordinator.tell(AbortWanted(snapshot, AbortReason.STORE_UNAVAILABLE, "simulated"))
        else:
            if any(other.stored.cut.snapshot == snapshot for other in self.commits):
                raise OracleFailure("commit", f"{snapshot} was committed twice")
            self.commits.append(commit)
            self.counts["commits"] += 1
            self.push("stored", coordinator, snapshot)

    def on_stored(self, coordinator: Coordinator, snapshot: SnapshotId) -> None:
        """The coordinator hears that its snapshot is durable."""
        coordinator.tell(SnapshotStored(snapshot))

    def announce(self, coordinator: Coordinator, end: AnnounceEnd, stored: Stored | None) -> None:
        """See Surroundings."""
        if end.reason is not None:
            self.counts[f"aborts: {end.reason.value}"] += 1
            if end.reason is AbortReason.INCONSISTENT:
                raise OracleFailure("inconsistent", f"{end.snapshot}: {end.detail}")
        committed = [commit.stored for commit in self.commits if commit.stored.cut.snapshot == end.snapshot]
        if (end.reason is None) != bool(committed) and coordinator.generation == self.writer:
            raise OracleFailure("commit", f"{end.snapshot} was announced as {end.reason}, but committed: {committed}")
        stored = stored or (committed[0] if committed else None)
        ended = SnapshotEnded(end.snapshot, end.floor)
        for name in self.processes:
            if self.odds(self.settings.lost_ends_one_in):
                self.counts["ends of snapshots lost"] += 1
            else:
                self.push("tell_process", name, coordinator.generation, ended)
        for driver in self.drivers.values():
            self.push("tell_driver", driver, ended)
            if stored is not None and stored.cut.advances:
                cuts = stored.cut.channels
                sent = {c.channel.receiver: c.sent for c in cuts if c.channel.sender == driver.name}
                event = CutCommitted(end.snapshot, sent, frozenset(stored.cut.ended))
                self.push("tell_driver", driver, event)

    def driver_dies(self, driver: SimulatedDriver) -> None:
        """A driver is gone; what it has on its way may still arrive, or not."""
        driver.alive = False
        self.truth.dead_drivers.add(driver.name)
        self.counts["drivers died"] += 1
        for process in self.processes.values():
            self.push("driver_died", process, driver.name)

    def on_driver_died(self, process: Process, driver: str) -> None:
        """A process hears that a driver died."""
        if process.alive and not process.ended:
            process.tell(DriverDied(driver))


ONCE = frozenset({"work", "fire", "end", "take", "connect", "take_driver"})


def _show(value: object) -> str:
    return getattr(value, "name", None) or str(value)
