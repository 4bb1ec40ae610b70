"""A door for outside data: the token-passing exercises of distributed-systems courses, run by the project's machines.

An exercise is a topology, a script and a list of delays; the answer is what each snapshot recorded. Here is only what
such an exercise fixes: the clock, the queues of the channels and who delivers when. Processes and coordinator are those
of the simulation, so that Participant and Collector decide everything else.

Theory of operation. Time starts at 0. What is queued on a channel, a message of tokens or the marker of one process
that recorded, becomes due at `time + 1 + the next delay`; markers are queued in the order of the receivers' names. A
tick advances time by one; then each process, in the order of names, delivers at most one due packet: that of its first
channel, in the order of the receivers' names, whose head is due. A head that is not due blocks what stands behind it. A
command with all that follows from it at once is one step, and so is a delivery. After the last command time goes on
until all snapshots are complete. Names are ordered as texts: N10 stands before N2.

The way back. Acknowledgements take no part in an exercise, but they exist, and one that names snapshots that its reader
has not recorded brings the news of these: the reader would record without a marker, earlier than the exercise has it. A
network may be as slow as it likes, so acknowledgements wait until their reader has recorded what they name.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from examples.exercises.script import (
    ExerciseEvent,
    RecordedSnapshot,
    SendTokens,
    TakeSnapshot,
    Tick,
    Topology,
    check_count,
    check_event,
    placed,
)
from rayshot.errors import ConfigError
from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import (
    AnnounceEnd,
    CollectorEvent,
    ProcessJoined,
    SnapshotStored,
)
from rayshot.protocol.effects import AnnounceSnapshot, Effect
from rayshot.protocol.events import Begun, SnapshotEnded, SnapshotRequested
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.bodies.application import AccountMessage, HandlerSent, Received, SimulatedAccount, Step
from rayshot.simulation.world.coordinator import WorldCoordinator, reported
from rayshot.simulation.world.packets import Acknowledgement, Packet, StoredCut


def run_exercise(
    topology: Topology, events: Iterable[ExerciseEvent], delays: Iterable[int]
) -> tuple[RecordedSnapshot, ...]:
    """Run an exercise to the end of its snapshots (Chandy and Lamport 1985, section 3.2) and return them by number.

    `delays`, each 0 or more, in ticks, are taken in the order of queueing, one for each message and each marker; more
    than are needed do no harm, and an endless iterator is welcome.

    Raises ConfigError that names the event by its line, or where it was not read from a text by its position from 1:
    if it is malformed or names a process or channel that is not there, or if its markers would not reach everybody (the
    unreachable are named), before the first event and before a delay is taken; if more tokens are sent than there are,
    before this is done; and if the delays are used up or one is no delay. Then there is no answer at all.
    """
    script = tuple(events)
    receivers = topology.receivers
    for number, event in enumerate(script, 1):
        with placed(**_place(event, number)):
            check_event(event, receivers)
    exercise = _Exercise(topology, iter(delays))
    for number, event in enumerate(script, 1):
        with placed(**_place(event, number)):
            exercise.do(event)
    return exercise.finish()


def _place(event: object, number: int) -> dict[str, int]:
    line = getattr(event, "line", None)
    return {"event": number} if line is None else {"line": line}


# The run ----------------------------------------------------------------------------------------------------------


class _Queued(NamedTuple):
    """A packet on a channel, and the first time at which it may be delivered."""

    due: int
    packet: Packet


class _Exercise:
    """The surroundings of the processes and of the coordinator: see the module.

    `numbers` are those of all snapshots, `recorded` the snapshots that each process has recorded, `complete` the
    answers. `answers` holds per sender the acknowledgements that wait, `reports` what the coordinator is still to hear.
    """

    def __init__(self, topology: Topology, delays: Iterator[int]) -> None:
        self.time = 0
        self.delays = delays
        self.receivers = topology.receivers
        self.queues: dict[Channel, deque[_Queued]] = {
            Channel(sender, receiver): deque() for sender, known in self.receivers.items() for receiver in known
        }
        self.queued = 0
        self.answers: dict[str, list[Acknowledgement]] = {name: [] for name in self.receivers}
        self.reports: list[tuple[CollectorEvent, Any]] = []
        self.numbers: dict[SnapshotId, int] = {}
        self.recorded: dict[str, set[SnapshotId]] = {name: set() for name in self.receivers}
        self.complete: dict[SnapshotId, RecordedSnapshot] = {}
        self.coordinator = WorldCoordinator(1, Collector(1), self)
        self.processes = {
            name: AccountProcess(name, Participant(name), self, SimulatedAccount(name, topology.processes[name], known))
            for name, known in self.receivers.items()
        }
        for name, known in self.receivers.items():
            self.coordinator.tell(ProcessJoined(name))
            for receiver in known:  # in the order of names: a participant sends its markers in the order of the hellos
                self.processes[name].connected(receiver)

    # The script ------------------------------------------------------------------------------------

    def do(self, event: ExerciseEvent) -> None:
        """Do what a checked event says; raises ConfigError if tokens are missing, before anything is changed."""
        match event:
            case SendTokens(sender, receiver, tokens):
                self._send(self.processes[sender], receiver, tokens)
            case TakeSnapshot(initiator):
                process = self.processes[initiator]
                process.tell(SnapshotRequested())
                self._settle(process)
            case Tick(count):
                self._pass_time(count)

    def finish(self) -> tuple[RecordedSnapshot, ...]:
        """Let time go on until all snapshots are complete; return them by number."""
        while len(self.complete) < len(self.numbers):
            due = self._next_due()
            assert due is not None, f"all channels are empty and {self.coordinator.collector.open_snapshots} open"
            self._pass_time(due - self.time)
        return tuple(self.complete[snapshot] for snapshot in self.numbers)

    def _send(self, process: AccountProcess, receiver: str, tokens: int) -> None:
        assert process.account is not None, process.name
        balance = process.account.balance
        if tokens > balance:
            raise ConfigError(
                f"{process.name} cannot send {tokens} tokens at time {self.time}: it has {balance}",
                process=process.name,
                tokens=tokens,
                balance=balance,
            )
        process.step(HandlerSent(receiver, tokens))
        process.take(receiver, 1)

    # Time ------------------------------------------------------------------------------------------

    def _next_due(self) -> int | None:
        """The next tick with something to deliver; None if the channels are empty."""
        heads = [queue[0].due for queue in self.queues.values() if queue]
        return max(self.time + 1, min(heads)) if heads else None

    def _pass_time(self, ticks: int) -> None:
        """Let time go on; ticks that deliver nothing are not counted one by one, as a script may ask for many."""
        end = self.time + ticks
        while (due := self._next_due()) is not None and due <= end:
            self.time = due
            for sender in self.receivers:
                self._deliver_one(sender)
        self.time = end

    def _deliver_one(self, sender: str) -> None:
        for receiver in self.receivers[sender]:
            queue = self.queues[Channel(sender, receiver)]
            if queue and queue[0].due <= self.time:
                process = self.processes[receiver]
                process.arrive(queue.popleft().packet)
                self._settle(process)
                return

    def _settle(self, process: AccountProcess) -> None:
        """Do what follows at once: record, before anything that came is processed, then process it, then report."""
        while (snapshot := process.next_capture()) is not None:
            process.capture(snapshot)
        for sender in process.next_senders():
            process.begin_handler(sender)
        waiting, self.answers[process.name] = self.answers[process.name], []
        for acknowledgement in waiting:
            self.acknowledge(acknowledgement)
        while self.reports:
            self.coordinator.hear(*self.reports.pop(0))

    # What a process asks for: see Surroundings ---------------------------------------------------------

    def transmit(self, packet: Packet) -> None:
        """Queue a packet; this takes a delay."""
        try:
            delay = next(self.delays)
        except StopIteration:
            raise ConfigError(
                f"the delays are used up: after {self.queued} of them {packet.sender} -> {packet.receiver} needs one "
                f"more at time {self.time}; give more, or an endless iterator",
                taken=self.queued,
                time=self.time,
            ) from None
        self.queued += 1
        check_count(delay, f"{delay!r}, number {self.queued} of the delays, is none")
        self.queues[Channel(packet.sender, packet.receiver)].append(_Queued(self.time + 1 + delay, packet))

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Let an acknowledgement through, or make it wait while it would bring news."""
        sender = acknowledgement.sender
        if self.recorded[sender].issuperset(acknowledgement.recorded):
            self.processes[sender].acknowledged(acknowledgement)
        else:
            self.answers[sender].append(acknowledgement)

    def report(self, process: AccountProcess, effect: Effect, content: Any) -> None:
        """Keep it for the coordinator; a snapshot that begins gets its number, and nobody is told of it."""
        if isinstance(effect, AnnounceSnapshot):
            self.numbers[effect.snapshot] = len(self.numbers)
        self.reports.append((reported(process.name, effect, helpers=frozenset()), content))

    def captured(self, process: AccountProcess, snapshot: SnapshotId) -> None:
        """Note who has recorded what."""
        self.recorded[process.name].add(snapshot)

    def plan(self, process: AccountProcess, cause: Received) -> list[Step | str]:
        """Nothing: what a handler does is to take the tokens of its cause."""
        del process, cause
        return []

    def capture_fails(self) -> bool:
        """No capture fails."""
        return False

    def find(self, process: AccountProcess, receiver: str) -> None:
        """All channels are open from the start."""
        raise AssertionError(f"{process.name} looks for {receiver}")

    def wake(self, process: AccountProcess) -> None:
        """Nothing waits for a later moment: `_settle` leaves nothing."""

    def happened(self, process: AccountProcess, step: Step, emitted: tuple[str, AccountMessage] | None) -> None:
        """Nobody watches."""

    def answer(self, process: AccountProcess, driver: str) -> None:
        """There are no drivers."""
        raise AssertionError(f"{process.name} answers {driver}")

    def refuse(self, sender: str, receiver: str, incarnation: int) -> None:
        """No process ends."""
        raise AssertionError(f"{receiver} refuses {sender} in life {incarnation}")

    def dropped(self, why: str) -> None:
        """Channels neither double nor lose anything."""
        raise AssertionError(f"a batch was dropped: {why}")

    # What the coordinator asks for: see its Surroundings -------------------------------------------------

    def begin(self, coordinator: WorldCoordinator, process: str, begun: Begun) -> None:
        """No snapshot of a process has helpers: its markers bring the news."""
        raise AssertionError(f"{coordinator} tells {process} of {begun}")

    def everybody_recorded(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """Nobody was stopped."""

    def opened(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """It has its number already."""

    def store(self, coordinator: WorldCoordinator, stored: StoredCut) -> None:
        """Read the answer off the cut."""
        snapshot = stored.cut.snapshot
        tokens = {name: state.balance for name, state in sorted(stored.states.items()) if state is not None}
        messages = {
            channel: tuple(message.amount for message in stored.messages.get(channel, ())) for channel in self.queues
        }
        self.complete[snapshot] = RecordedSnapshot(self.numbers[snapshot], snapshot.initiator, tokens, messages)
        coordinator.tell(SnapshotStored(snapshot))

    def announce(self, coordinator: WorldCoordinator, end: AnnounceEnd, stored: StoredCut | None) -> None:
        """Tell all processes that a snapshot ended."""
        assert stored is not None, f"{coordinator}: {end.snapshot} ended without a commit: {end.reason}: {end.detail}"
        for process in self.processes.values():
            process.tell(SnapshotEnded(end.snapshot, end.floor))
