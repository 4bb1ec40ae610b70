"""A closed world that is small enough for all its runs: what may happen next follows from what is there.

Processes, coordinator, truth and oracles are those of the seeded worlds, so the machines are the real ones. There are
no drivers, no crashes and no births. The case says what each process sends; the choices say when. Packets,
acknowledgements, reports to the coordinator and its orders may arrive at any time and in any order.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import (
    AbortWanted,
    AnnounceEnd,
    CollectorEvent,
    ProcessJoined,
    SnapshotStored,
    SnapshotWanted,
)
from rayshot.protocol.effects import Effect
from rayshot.protocol.events import (
    AlignmentTimedOut,
    Begun,
    Event,
    EverybodyRecorded,
    SnapshotEnded,
    SnapshotRequested,
)
from rayshot.protocol.identity import ALIGNED, MODES, STOP_THE_WORLD, SnapshotId
from rayshot.protocol.topology import forward_inputs
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.bodies.application import AccountMessage, HandlerSent, Received, SimulatedAccount, Step
from rayshot.simulation.world.coordinator import WorldCoordinator, reported
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.packets import Acknowledgement, Packet, StoredCut
from tests.simulate.enumeration import Enumeration, Odometer, enumerate_runs, frozen
from tests.simulate.oracles import judge_cut, judge_rest
from tests.simulate.small_case import Found, Happening, SmallCase
from tests.simulate.truth import Truth

REAL = Machines()
BALANCE = 100


def enumerate_case(
    case: SmallCase, machines: Machines = REAL, *, runs_max: int = 1_000_000, merge_states: bool = True
) -> tuple[Enumeration, Found]:
    """Run every interleaving of a small case, each judged by the oracles; see enumerate_runs and Found.

    Judged are each snapshot that is stored (theorem 1, exact channel states, conservation, the cut equation), each end
    of a run (nothing waits any more, all was taken once and in order), and that every snapshot that is not given up
    is committed.
    """
    found = Found()

    def run(source: Odometer) -> None:
        SmallWorld(case, source, machines, found).run()

    return enumerate_runs(run, runs_max=runs_max, merge_states=merge_states), found


class SmallWorld:
    """One run of a case. `left` counts what may still go wrong, by kind.

    `packets`, `acknowledgements`, `reports` to the coordinator and `orders` of it are under way.
    """

    def __init__(self, case: SmallCase, source: Odometer, machines: Machines, found: Found) -> None:
        self.case, self.source, self.found = case, source, found
        self.left = {"duplicate": case.duplicated, "abort": case.aborts, "timeout": case.timeouts}
        self.sends = {name: list(receivers) for name, receivers in case.sends.items()}
        self.wishes = list(case.snapshots)
        self.packets: list[Packet] = []
        self.acknowledgements: list[Acknowledgement] = []
        self.reports: list[tuple[CollectorEvent, Any]] = []
        self.orders: list[tuple[str, Event]] = []
        self.inputs: dict[tuple[SnapshotId, str], frozenset[str]] = {}
        accounts = {name: SimulatedAccount(name, BALANCE, ()) for name in case.sends}
        self.truth = Truth(accounts)
        self.coordinator = WorldCoordinator(1, machines.collector(1), self)
        self.processes = {
            name: AccountProcess(name, machines.participant(name, 1), self, account.copy())
            for name, account in accounts.items()
        }
        self.channels = {
            name: sorted({*case.sends[name], *case.relays.get(name, ()), *case.idle.get(name, ())} - {name})
            for name in self.processes
        }
        for name, process in self.processes.items():
            self.coordinator.tell(ProcessJoined(name))
            for receiver in self.channels[name]:
                process.connected(receiver)

    # Running ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let things happen until nothing can any more; then all must be over."""
        while happenings := list(self.happenings()):
            self.source.reached(self.state)
            happening = happenings[self.source.choose(len(happenings))]
            happening.method(*happening.args)
            self._do_what_does_not_wait()
        self._judge_end()

    def happenings(self) -> Iterator[Happening]:
        """All that may happen next."""
        if self.wishes:
            yield Happening(self.on_begin, ())
        for name, process in self.processes.items():
            yield from self._of_process(name, process)
        for place, packet in enumerate(self.packets):
            if packet not in self.packets[:place]:
                yield Happening(self.on_deliver, (packet,))
                if self.left["duplicate"]:
                    yield Happening(self.on_duplicate, (packet,))
        yield from (Happening(self.on_acknowledge, (place,)) for place in range(len(self.acknowledgements)))
        yield from (Happening(self.on_report, (place,)) for place in range(len(self.reports)))
        yield from (Happening(self.on_order, (place,)) for place in range(len(self.orders)))
        if self.left["abort"]:
            yield from (Happening(self.on_abort, (snapshot,)) for snapshot in self.coordinator.collector.open_snapshots)

    def _of_process(self, name: str, process: AccountProcess) -> Iterator[Happening]:
        if self.sends[name] and not process.machine.paused:
            yield Happening(self.on_send, (process,))
        for receiver in process.transportable():
            yield Happening(self.on_transport, (process, receiver))
        for sender in process.next_senders():
            yield Happening(self.on_take, (process, sender))
        if process.next_capture() is not None:
            yield Happening(self.on_capture, (process,))
        if process.pauses:
            yield Happening(self.on_pause, (process,))
        if self.left["timeout"]:
            for snapshot in process.machine.open_snapshots:
                if snapshot.mode == ALIGNED and snapshot not in process.machine.recorded_snapshots:
                    yield Happening(self.on_timeout, (process, snapshot))

    def _do_what_does_not_wait(self) -> None:
        at_once = self.case.at_once
        while True:
            waiting = [p for p in self.processes.values() if p.transportable()] if "transport" in at_once else []
            if waiting:
                self.on_transport(waiting[0], waiting[0].transportable()[0])
            elif self.reports and "report" in at_once:
                self.on_report(0)
            elif self.acknowledgements and "acknowledge" in at_once:
                self.on_acknowledge(0)
            else:
                return

    def state(self) -> object:
        """All that the future of this run and its judges depend on: not the order in which things happened."""
        processes = [
            (
                name,
                frozen(vars(p.machine)),
                frozen((p.account, p.sent, p.received, p.captures, p.pauses, p.todo)),
                [frozen(_filled(queue)) for queue in (p.outbox, p.flight, p.mailbox, p.early)],
            )
            for name, p in self.processes.items()
        ]
        coordinator = self.coordinator
        kept = (coordinator.states, coordinator.outboxes, coordinator.mailboxes, coordinator.over, coordinator.known)
        queues = (self.packets, self.acknowledgements, self.reports, self.orders)
        in_flight = [sorted([repr(frozen(item)) for item in queue]) for queue in queues]
        histories = {name: list(steps) for name, steps in self.truth.histories.items()}
        truth = (histories, self.truth.recorded, self.truth.begun_with)
        return (
            processes,
            frozen(vars(coordinator.collector)),
            frozen(kept),
            in_flight,
            frozen(truth),
            (self.sends, self.wishes, self.left, frozen(self.inputs)),
        )

    # What happens ----------------------------------------------------------------------------------

    def on_send(self, process: AccountProcess) -> None:
        """A process sends its next message."""
        receiver = self.sends[process.name].pop(0)
        process.step(HandlerSent(receiver, 1 + process.sent.get(receiver, 0)))

    def on_transport(self, process: AccountProcess, receiver: str) -> None:
        """The transport takes one message."""
        process.take(receiver, 1)

    def on_take(self, process: AccountProcess, sender: str) -> None:
        """A process takes a message from its mailbox; the handler is one event."""
        process.begin_handler(sender)
        while process.todo:
            process.go_on()

    def on_capture(self, process: AccountProcess) -> None:
        """A process records."""
        snapshot = process.next_capture()
        assert snapshot is not None, process.name
        process.capture(snapshot)

    def on_pause(self, process: AccountProcess) -> None:
        """A process stands still."""
        process.pause()

    def on_timeout(self, process: AccountProcess, snapshot: SnapshotId) -> None:
        """A process has waited long enough to be aligned."""
        self.left["timeout"] -= 1
        self.inputs[snapshot, process.name] = frozenset()
        process.tell(AlignmentTimedOut(snapshot))

    def on_deliver(self, packet: Packet) -> None:
        """A packet arrives."""
        self.packets.remove(packet)
        if any(p.sender == packet.sender and p.receiver == packet.receiver for p in self.packets):
            self.found.facts.add("packets of one channel in transit together")
        self.processes[packet.receiver].arrive(packet)

    def on_duplicate(self, packet: Packet) -> None:
        """The network makes two of one."""
        self.left["duplicate"] -= 1
        self.packets.append(packet)

    def on_acknowledge(self, place: int) -> None:
        """An acknowledgement arrives."""
        acknowledgement = self.acknowledgements.pop(place)
        process = self.processes[acknowledgement.sender]
        known = process.machine.open_snapshots
        process.acknowledged(acknowledgement)
        if len(process.machine.open_snapshots) > len(known):
            self.found.facts.add("an acknowledgement brings the news")

    def on_report(self, place: int) -> None:
        """The coordinator hears what a process reports."""
        self.coordinator.hear(*self.reports.pop(place))

    def on_order(self, place: int) -> None:
        """A process hears what the coordinator says."""
        name, event = self.orders.pop(place)
        self.processes[name].tell(event)

    def on_begin(self) -> None:
        """The next snapshot begins."""
        who = self.wishes.pop(0)
        if who in self.processes:
            self.processes[who].tell(SnapshotRequested())
        elif who != ALIGNED:
            self.coordinator.tell(SnapshotWanted(next(mode for mode in MODES if mode == who)))
        elif not self.coordinator.collector.is_aligning:
            self.coordinator.tell(SnapshotWanted(ALIGNED, forward_inputs(self.channels)))

    def on_abort(self, snapshot: SnapshotId) -> None:
        """Somebody gives a snapshot up."""
        self.left["abort"] -= 1
        self.coordinator.tell(AbortWanted(snapshot, AbortReason.REQUESTED, "enumerated"))

    # Judging ---------------------------------------------------------------------------------------

    def _judge_end(self) -> None:
        if self.coordinator.collector.open_snapshots:
            raise OracleFailure(
                "termination", f"{self.coordinator.collector.open_snapshots} are open and nothing waits"
            )
        for process in self.processes.values():
            left = [_filled(q) for q in (process.outbox, process.flight, process.early, process.mailbox)]
            if any(left) or process.machine.open_snapshots:
                raise OracleFailure("rest", f"{process.name} still has {left}, {process.machine.open_snapshots}")
        judge_rest(self.truth, {name: p.account for name, p in self.processes.items() if p.account is not None})

    # What processes ask for: see their Surroundings ------------------------------------------------

    def transmit(self, packet: Packet) -> None:
        """See Surroundings."""
        self.packets.append(packet)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """See Surroundings."""
        self.acknowledgements.append(acknowledgement)

    def report(self, process: AccountProcess, effect: Effect, content: Any) -> None:
        """See Surroundings."""
        self.reports.append((reported(process.name, effect, helpers=frozenset()), content))

    def plan(self, process: AccountProcess, cause: Received) -> list[Step | str]:
        """One message to each to whom it relays."""
        del cause
        receivers = self.case.relays.get(process.name, ())
        return [HandlerSent(receiver, 1 + process.sent.get(receiver, 0)) for receiver in receivers]

    def happened(self, process: AccountProcess, step: Step, emitted: tuple[str, AccountMessage] | None) -> None:
        """See Surroundings."""
        self.truth.happened(process.name, 1, step, emitted)

    def captured(self, process: AccountProcess, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        self.truth.captured(process.name, snapshot)

    def capture_fails(self) -> bool:
        """None fails."""
        return False

    def find(self, process: AccountProcess, receiver: str) -> None:
        """All have found each other."""

    def wake(self, process: AccountProcess) -> None:
        """What may happen follows from what is there."""

    def answer(self, process: AccountProcess, driver: str) -> None:
        """There are no drivers."""
        raise AssertionError(f"{process.name} answers {driver}")

    def refuse(self, sender: str, receiver: str, incarnation: int) -> None:
        """No process ends."""
        raise AssertionError(f"{receiver} refuses {sender} in life {incarnation}")

    def dropped(self, why: str) -> None:
        """See Surroundings."""
        self.found.facts.add(f"a batch is dropped: {why}")

    # What the coordinator asks for: see its Surroundings ---------------------------------------------

    def begin(self, coordinator: WorldCoordinator, process: str, begun: Begun) -> None:
        """See Surroundings."""
        del coordinator
        self.inputs.setdefault((begun.snapshot, process), begun.inputs)
        self.orders.append((process, begun))

    def everybody_recorded(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        del coordinator
        self.orders += [(name, EverybodyRecorded(snapshot)) for name in self.processes]

    def opened(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        self.truth.begun_with.setdefault(snapshot, coordinator.collector.processes)
        if len(coordinator.collector.open_snapshots) > 1:
            self.found.facts.add("snapshots overlap")

    def store(self, coordinator: WorldCoordinator, stored: StoredCut) -> None:
        """Judge it; the log takes it at once."""
        live = {name: p.account for name, p in self.processes.items() if p.account is not None}
        judge_cut(stored, self.truth, live)
        if stored.cut.snapshot.mode == STOP_THE_WORLD and any(c.arrived < c.sent for c in stored.cut.channels):
            raise OracleFailure("stop", f"in {stored.cut.channels} not all has arrived")
        for name, record in stored.cut.records.items():
            if missing := self.inputs.get((stored.cut.snapshot, name), frozenset()) - set(record.aligned):
                raise OracleFailure("alignment", f"{name} was not aligned with {sorted(missing)}")
        states = ", ".join(f"{name} {state.balance}" for name, state in stored.states.items() if state)
        channels = "; ".join(
            f"{c.channel} {c.received}..{c.sent} {[m.amount for m in stored.messages.get(c.channel, ())]}"
            for c in stored.cut.channels
        )
        self.found.cuts.add(f"{stored.cut.snapshot}: {states}; {channels}")
        if any(stored.messages.values()):
            self.found.facts.add("messages in flight are recorded")
        if not stored.cut.advances:
            self.found.facts.add("a cut does not advance")
        coordinator.tell(SnapshotStored(stored.cut.snapshot))

    def announce(self, coordinator: WorldCoordinator, end: AnnounceEnd, stored: StoredCut | None) -> None:
        """Tell all processes that a snapshot ended."""
        del coordinator, stored
        if end.reason is not None:
            self.found.facts.add(f"a snapshot ends: {end.reason.value}")
            if end.reason is not AbortReason.REQUESTED:
                raise OracleFailure("inconsistent", f"{end.snapshot}: {end.reason.value}: {end.detail}")
        for name, process in self.processes.items():
            if "end" in self.case.at_once:
                process.tell(SnapshotEnded(end.snapshot, end.floor))
            else:
                self.orders.append((name, SnapshotEnded(end.snapshot, end.floor)))


def _filled(queues: Mapping[str, Any]) -> Mapping[str, Any]:
    """An empty queue is none."""
    return {name: queue for name, queue in queues.items() if queue}
