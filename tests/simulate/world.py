"""The simulated world: processes at work, and the coordinator that takes their snapshots."""

from collections.abc import Callable, Collection
from typing import Any

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import (
    AbortWanted,
    AnnounceEnd,
    CollectorEvent,
    ProcessEnded,
    ProcessJoined,
    SnapshotAnnounced,
    SnapshotStored,
)
from rayshot.protocol.cut import Cut
from rayshot.protocol.driver_events import CutCommitted
from rayshot.protocol.effects import Effect
from rayshot.protocol.events import Begun, SnapshotEnded
from rayshot.protocol.identity import STOP_THE_WORLD, SnapshotId
from rayshot.simulation.bodies.account_process import SNAPSHOT, AccountProcess
from rayshot.simulation.bodies.application import (
    AccountMessage,
    Created,
    HandlerEnded,
    HandlerSent,
    Received,
    Step,
    TimerSet,
)
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.coordination import News
from rayshot.simulation.world.coordinator import WorldCoordinator, reported
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.packets import StoredCut
from rayshot.simulation.world.story import show
from tests.simulate.commit import Commit
from tests.simulate.driving import DrivenWorld
from tests.simulate.oracles import judge_advance, judge_cut
from tests.simulate.settings import PROCESSES_MAX, Settings, Slow


class World(DrivenWorld):
    """One run without crashes."""

    def __init__(self, choices: Choices, settings: Settings, machines: Machines, *, story: bool = False) -> None:
        super().__init__(choices, settings, machines, story=story)
        self.woken: dict[AccountProcess, None] = {}
        self.activity = settings.activity
        self.told_of_end: set[tuple[str, SnapshotId]] = set()
        self.not_told_of_end: set[tuple[str, SnapshotId]] = set()
        self.commits: list[Commit] = []
        self.overlapping: set[SnapshotId] = set()
        self.overlapped_cuts: list[Cut] = []
        self.alone: set[SnapshotId] = set()
        self.helpers: frozenset[str] | None = None
        self.inputs: dict[tuple[SnapshotId, str], frozenset[str]] = {}
        self.unaligned: set[tuple[SnapshotId, str]] = set()
        for name, account in self.truth.initial.items():
            self.processes[name] = AccountProcess(name, machines.participant(name, 1), self, account.copy())
            self.coordinator.tell(ProcessJoined(name))
        slowed = self.slowed()
        self.slow = frozenset(slowed[slow] for slow in settings.slow)
        self.add_drivers()
        for process in self.processes.values():
            self.wake(process)
            for contact in settings.contacts[process.name] if settings.alone else ():
                if contact != process.name:
                    self.push_once(self.on_connect, process, contact)

    def slowed(self) -> dict[Slow, Callable[..., None]]:
        """The method of each event that may be slow."""
        return {
            Slow.TAKE: self.on_take,
            Slow.DELIVER: self.on_deliver,
            Slow.ACKNOWLEDGE: self.on_acknowledge,
            Slow.WORK: self.on_work,
            Slow.CONNECT: self.on_connect,
            Slow.FIRE: self.on_fire,
            Slow.TELL_COORDINATOR: self.on_tell_coordinator,
            Slow.TELL_PROCESS: self.on_tell_process,
            Slow.STORE: self.on_store,
        }

    # Processes at work -----------------------------------------------------------------------------

    def wake(self, process: AccountProcess) -> None:
        """See Surroundings."""
        self.woken[process] = None

    def happen(self) -> bool:
        """See EventList. First list what the processes can do that may have got work since the last event."""
        if self.woken:
            woken, self.woken = self.woken, {}
            for process in woken:
                self.list_work(process)
        return super().happen()

    def list_work(self, process: AccountProcess) -> None:
        """Add the events that a woken process can cause."""
        if process.is_quiet:
            return
        if process.has_work():
            self.push_once(self.on_work, process)
        account = process.account
        if account is not None:
            if account.ending:
                self.push_once(self.on_end, process)
            elif account.timers and not process.machine.paused:
                self.push_once(self.on_fire, process)
        for receiver, messages in process.outbox.items():
            if messages:
                self.push_once(self.on_take if receiver in process.ready else self.on_connect, process, receiver)

    def on_work(self, process: AccountProcess) -> None:
        """A process does the next thing: a part of its handler, a capture, or the next message."""
        if process.is_quiet:
            return
        if process.todo:
            process.go_on()
        elif process.pauses:
            process.pause()
        elif (capture := process.next_capture()) is not None:
            process.capture(capture)
        elif senders := process.next_senders():
            process.begin_handler(senders[self.choose(len(senders))])
        self.wake(process)

    def on_fire(self, process: AccountProcess) -> None:
        """A timer of a process fires."""
        if not process.is_quiet:
            process.fire()
            self.wake(process)

    def on_end(self, process: AccountProcess) -> None:
        """A process that wants to end looks whether it may."""
        if not process.is_quiet:
            process.try_to_end()
            if process.ended:
                self.counts["ends"] += 1
                self.truth.process_ended(process.name, process.incarnation)
                if process.incarnation == self.incarnation and self.coordinator.collector.open_snapshots:
                    self.counts["ends in mid-snapshot"] += 1

    def plan(self, process: AccountProcess, cause: Received) -> list[Step | str]:
        """See Surroundings."""
        account = process.account
        assert account is not None
        answer: list[Step | str] = [cause.sender] if cause.message.kind == "call" else []
        steps: list[Step | str] = []
        created = account.created
        for _ in range(self.choose(4) if self.activity > 0 and not self.calm else 0):
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
                steps.append(HandlerSent(receiver, self.choose(10), subject))
        if self.odds(self.settings.ends_one_in):
            heirs = [name for name in account.contacts if name != process.name]
            return [*steps, *answer, HandlerEnded(heirs[0] if heirs else "")]
        return steps + answer

    def happened(self, process: AccountProcess, step: Step, emitted: tuple[str, AccountMessage] | None) -> None:
        """See Surroundings."""
        self.truth.happened(process.name, process.incarnation, step, emitted)
        if isinstance(step, Received) and step.sender in self.drivers and process.incarnation == self.incarnation:
            self.judge_order(process, step)
        self.counts["steps"] += 1
        if self.story is not None:
            self.note(f"{process.name} {show(step)} {show(emitted[1]) if emitted else ''}".rstrip())
        if isinstance(step, Created):
            self.push(self.on_spawn, step.name, process.incarnation)

    def find(self, process: AccountProcess, receiver: str) -> None:
        """See Surroundings."""
        self.push_once(self.on_connect, process, receiver)

    def capture_fails(self) -> bool:
        """See Surroundings."""
        return self.odds(self.settings.capture_failures_one_in)

    def captured(self, process: AccountProcess, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        self.note(f"{process.name} records {snapshot} at step {self.truth.position(process.name)}")
        self.counts["records"] += 1
        if process.account is not None and process.account.ending:
            self.unaligned.add((snapshot, process.name))  # it processes nothing more
        self.counts["records with mailbox"] += any(process.mailbox.values())
        self.counts["records with outbox"] += any(process.outbox.values())
        self.truth.captured(process.name, snapshot)

    def on_spawn(self, name: str, incarnation: int) -> None:
        """A process that was created comes up and says hello."""
        there = self.processes.get(name)
        if incarnation != self.incarnation or name in self.ended or (there is not None and self.is_current(there)):
            return
        if there is not None:
            there.alive = False
        process = self.processes[name] = AccountProcess(name, self.machines.participant(name, incarnation), self)
        self.counts["creations"] += 1
        self.counts["creations in mid-snapshot"] += bool(self.coordinator.collector.open_snapshots)
        process.generation = self.generation
        process.joining = True
        self.push(self.on_tell_coordinator, self.generation, ProcessJoined(name), None)
        self.tell_of_dead_drivers(process)
        self.arrived(name)

    # The coordinator -------------------------------------------------------------------------------

    def report(self, process: AccountProcess, effect: Effect, content: Any) -> None:
        """See Surroundings."""
        event = reported(process.name, effect, self.helpers)
        if isinstance(event, SnapshotAnnounced):
            self.counts["snapshots of processes"] += 1
            if self.helpers is not None:
                self.alone.add(event.snapshot)
        self.push(self.on_tell_coordinator, process.generation, event, content)

    def hear(self, coordinator: WorldCoordinator, event: CollectorEvent, content: Any) -> None:
        """See CoordinatedNetwork. The coordinator knows then who ended, and tells all who send there."""
        super().hear(coordinator, event, content)
        if isinstance(event, ProcessEnded) and event.record.snapshot.incarnation == self.incarnation:
            self.ended.add(event.record.process)
            for name in (*self.processes, *self.drivers):
                self.push(self.on_receiver_ended, name, event.record.process, self.incarnation)
            self.arrived(event.record.process)

    def joined(self, process: AccountProcess, news: tuple[News, ...]) -> None:
        """See CoordinatedNetwork."""
        self.push(self.on_joined, process, news)

    def opened(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """See Surroundings."""
        self.counts["snapshots begun"] += 1
        together = coordinator.collector.open_snapshots
        if len(together) > 1:
            self.counts["snapshots overlapping"] += 1
            self.overlapping.update(together)
        self.truth.begun_with.setdefault(snapshot, coordinator.collector.processes)

    def begin(self, coordinator: WorldCoordinator, process: str, begun: Begun) -> None:
        """See Surroundings."""
        self.inputs.setdefault((begun.snapshot, process), begun.inputs)
        super().begin(coordinator, process, begun)

    def order(self, name: str, generation: int, begun: Begun) -> None:
        """See CoordinatedNetwork; now and then the order comes twice."""
        super().order(name, generation, begun)
        if self.odds(self.settings.duplicated_one_in):
            self.counts["orders told twice"] += 1
            super().order(name, generation, begun)

    def tell(self, process: AccountProcess, event: News) -> None:
        """See CoordinatedNetwork."""
        if isinstance(event, SnapshotEnded):
            self.told_of_end.add((process.name, event.snapshot))
        super().tell(process, event)

    def store(self, coordinator: WorldCoordinator, stored: StoredCut) -> None:
        """See Surroundings."""
        snapshot = stored.cut.snapshot
        if snapshot.incarnation != self.incarnation:
            return  # of a dead life: its coordinator is fenced
        if coordinator is not self.coordinator:
            # It was replaced, and does not hear any more of processes that end: only the log's refusal keeps it right.
            self.push(self.on_store, coordinator, Commit(stored, {}))
            return
        live = {p.name: p.account for p in self.processes.values() if self.is_current(p) and p.account is not None}
        positions = judge_cut(stored, self.truth, live)
        if snapshot.mode == STOP_THE_WORLD:
            self._judge_stop(stored.cut)
        for name, record in stored.cut.records.items():
            missing = self.inputs.get((snapshot, name), frozenset()) - {*record.aligned, *stored.cut.ended}
            if missing and (snapshot, name) not in self.unaligned:
                raise OracleFailure("alignment", f"{name} was not aligned with {sorted(missing)} in {snapshot}")
        self.note(f"{snapshot} is complete at {positions}")
        self._count_cut(stored)
        self.push(self.on_store, coordinator, Commit(stored, positions))

    def _count_cut(self, stored: StoredCut) -> None:
        cut, counts = stored.cut, self.counts
        records = cut.records.values()
        in_flight = sum(len(messages) for messages in stored.messages.values())
        mailbox = any(record.arrived for record in records)
        outbox = any(n > record.transported[q] for record in records for q, n in record.sent.items())
        overlap = cut.snapshot in self.overlapping
        counts["cuts checked"] += 1
        counts["messages recorded"] += in_flight
        counts["channels aligned"] += sum(len(record.aligned) for record in records)
        counts["cuts with messages in flight"] += in_flight > 0
        counts["cuts with mailbox, outbox and overlap"] += mailbox and outbox and overlap
        counts["cuts that do not advance"] += not cut.advances
        counts["cuts with unborn"] += bool(cut.unborn) or not all(record.born for record in records)
        if overlap:
            counts["cuts that share messages in flight"] += any(_share_messages(cut, o) for o in self.overlapped_cuts)
            self.overlapped_cuts.append(cut)
        if cut.ended:
            counts["cuts with messages of the ended"] += any(c.channel.sender in cut.ended for c in cut.channels)

    def _judge_stop(self, cut: Cut) -> None:
        """A world that stood still has nothing under way between those who had found each other when it stopped.

        Who joined while it came to rest was not waited for.
        """
        waited_for = self.truth.begun_with[cut.snapshot]
        for channel_cut in cut.channels:
            sender, receiver = channel_cut.channel
            process = self.processes.get(sender)
            found = process is not None and receiver in process.ready_at_pause.get(cut.snapshot, ())
            if found and sender in waited_for and channel_cut.arrived < channel_cut.sent:
                raise OracleFailure("stop", f"{channel_cut} in {cut.snapshot}")

    def on_store(self, coordinator: WorldCoordinator, commit: Commit) -> None:
        """The log takes a snapshot, refuses a coordinator that was replaced, or cannot be reached."""
        snapshot = commit.stored.cut.snapshot
        if self.is_fenced(coordinator, snapshot):
            return
        if self.odds(self.settings.store_failures_one_in):
            coordinator.tell(AbortWanted(snapshot, AbortReason.STORE_UNAVAILABLE, "simulated"))
        else:
            if any(other.stored.cut.snapshot == snapshot for other in self.commits):
                raise OracleFailure("commit", f"{snapshot} was committed twice")
            newest = self.newest_commit()
            if newest is not None:
                judge_advance(commit.stored.cut, commit.positions, newest.stored.cut, newest.positions, self.truth)
            self.commits.append(commit)
            self.counts["commits"] += 1
            self.counts[f"commits: {self._mode(snapshot)}"] += 1
            self.push(self.on_stored, coordinator, snapshot)

    def log(self) -> list[tuple[SnapshotId, Collection[str]]]:
        """See CoordinatedNetwork."""
        return [(commit.stored.cut.snapshot, commit.stored.cut.ended) for commit in self.commits]

    def newest_commit(self) -> Commit | None:
        """The newest snapshot that advances: where a rollback goes."""
        return next((commit for commit in reversed(self.commits) if commit.stored.cut.advances), None)

    def _mode(self, snapshot: SnapshotId) -> str:
        """How it was taken: one of MODES, or by a process that everybody helped."""
        if snapshot.by_coordinator:
            return snapshot.mode
        return "markers-alone" if snapshot in self.alone else "of a process"

    def on_stored(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """The coordinator hears that its snapshot is durable."""
        coordinator.tell(SnapshotStored(snapshot))

    def announce(self, coordinator: WorldCoordinator, end: AnnounceEnd, stored: StoredCut | None) -> None:
        """See Surroundings."""
        if end.reason is not None:
            self.counts[f"aborts: {end.reason.value}"] += 1
            if end.reason is AbortReason.INCONSISTENT and coordinator is self.coordinator:  # see `store` for others
                raise OracleFailure("inconsistent", f"{end.snapshot}: {end.detail}")
        committed = [commit.stored for commit in self.commits if commit.stored.cut.snapshot == end.snapshot]
        if (end.reason is None) != bool(committed) and coordinator is self.coordinator:
            raise OracleFailure("commit", f"{end.snapshot} was announced as {end.reason}, but committed: {committed}")
        stored = stored or (committed[0] if committed else None)
        ended = self.over[end.snapshot] = SnapshotEnded(end.snapshot, end.floor)
        for name in self.processes:
            if self.odds(self.settings.lost_ends_one_in):
                self.counts["ends of snapshots lost"] += 1
                self.not_told_of_end.add((name, end.snapshot))
            else:
                self.push(self.on_tell_process, name, coordinator.generation, ended)
                if name in end.past_drivers:
                    self.push(self.on_forget_drivers, name, end.snapshot.incarnation, end.past_drivers[name])
        for driver in self.drivers.values():
            self.push(self.on_tell_driver, driver, ended)
            if stored is not None and stored.cut.advances:
                cuts = stored.cut.channels
                sent = {c.channel.receiver: c.sent for c in cuts if c.channel.sender == driver.name}
                received = {c.channel.receiver: c.received for c in cuts if c.channel.sender == driver.name}
                event = CutCommitted(end.snapshot, sent, frozenset(stored.cut.ended), received)
                self.push(self.on_tell_driver, driver, event)


def _share_messages(one: Cut, other: Cut) -> bool:
    """Whether a message was in flight across both cuts, which lie in the same life of the system."""
    if one.snapshot.incarnation != other.snapshot.incarnation:
        return False
    there = {cut.channel: cut for cut in other.channels}
    pairs = ((cut, there[cut.channel]) for cut in one.channels if cut.channel in there)
    return any(max(a.received, b.received) < min(a.sent, b.sent) for a, b in pairs)
