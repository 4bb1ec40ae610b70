"""A world in which processes and coordinators crash, and rollback, which brings it back."""

from collections.abc import Callable

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collecting import (
    AbortWanted,
    ProcessDied,
    ProcessJoined,
    SnapshotWanted,
)
from rayshot.protocol.driver import RolledBack
from rayshot.protocol.events import AlignmentTimedOut, SnapshotRequested
from rayshot.protocol.identity import ALIGNED, STOP_THE_WORLD
from rayshot.protocol.topology import forward_inputs, reached_from
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.world.coordinator import Coordinator
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.packets import Load
from tests.simulate.settings import Slow
from tests.simulate.world import Commit, World


class RecoveringWorld(World):
    """See the module. An epoch in the log comes first; only then is the snapshot chosen."""

    def slowed(self) -> dict[Slow, Callable[..., None]]:
        """See World."""
        return {**super().slowed(), Slow.RESUME: self.on_resume}

    # Faults ----------------------------------------------------------------------------------------

    def fault(self, fault: Callable[["RecoveringWorld"], None]) -> None:
        """Let one fault, or one wish for a snapshot, happen now."""
        self.note(f"now: {fault.__name__.removeprefix('fault_')}")
        fault(self)

    def fault_snapshot(self) -> None:
        """Somebody wants a snapshot; now and then it is a replaced coordinator that begins it."""
        if self.loading or self.coordinator.finding:
            self.push(self.on_want)
            return
        old = [c for c in self.coordinators.values() if c.alive and c is not self.coordinator]
        zombie = old and self.choose(3) == 0
        (old[0] if zombie else self.coordinator).tell(SnapshotWanted())

    def fault_lone_snapshot(self) -> None:
        """Processes begin a snapshot, as one, and nobody but its markers tells the others: so many that these can."""
        if self.incarnation > 1 or not self.settings.has_fixed_membership:
            self.fault_snapshot()  # in later lives, and for who comes later, nobody has opened the idle channels
            return
        contacts = self.settings.contacts
        names = self._some_processes(len(contacts))
        count = self.settings.initiators
        while lost := contacts.keys() - reached_from(names[:count], contacts):
            self.counts["initiators refused"] += 1
            self.note(f"markers of {', '.join(names[:count])} do not reach {', '.join(sorted(lost))}")
            count += 1
        self.counts["snapshots by markers alone"] += 1
        self.counts["snapshots with several initiators"] += count > 1
        self.helpers = frozenset(names[1:count])
        self.processes[names[0]].tell(SnapshotRequested())
        self.helpers = None

    def fault_rivals(self) -> None:
        """Several processes begin a snapshot each, of which none of the others knows."""
        if not self.loading:
            names = [name for name in self._some_processes(2 + (self.choose(4) == 0)) if self._may_ask(name)]
            self.counts["rival initiators"] += len(names) if len(names) > 1 else 0
            for name in names:
                self.processes[name].tell(SnapshotRequested())

    def _some_processes(self, count: int) -> list[str]:
        names = list(self.settings.contacts)
        return [names.pop(self.choose(len(names))) for _ in range(min(count, len(names)))]

    def _may_ask(self, name: str) -> bool:
        process = self.processes[name]
        return self.is_current(process) and not process.is_quiet and process.account is not None

    def fault_aligned_snapshot(self) -> None:
        """Somebody wants an aligned snapshot; the topology is what the traffic until now shows."""
        if self.loading or self.coordinator.finding or self.coordinator.collector.is_aligning:
            return
        living = {p.name: p for p in self.processes.values() if self.is_current(p) and not p.ended}
        channels = {name: sorted(p.sent.keys() & living.keys()) for name, p in living.items()}
        self.counts["aligned snapshots"] += 1
        self.coordinator.tell(SnapshotWanted(ALIGNED, forward_inputs(channels)))

    def fault_stop(self) -> None:
        """Somebody wants a snapshot for which the world stops."""
        if not (self.loading or self.coordinator.finding):
            self.counts["stop-the-world snapshots"] += 1
            self.coordinator.tell(SnapshotWanted(STOP_THE_WORLD))

    def fault_alignment(self) -> None:
        """A process has waited long enough for markers of an aligned snapshot."""
        waiting = [
            (p, k)
            for p in self.processes.values()
            if self.is_current(p)
            for k in p.machine.open_snapshots
            if k.mode == ALIGNED and k not in p.machine.recorded_snapshots
        ]
        if waiting:
            process, snapshot = waiting[self.choose(len(waiting))]
            self.counts["alignments timed out"] += 1
            self.unaligned.add((snapshot, process.name))
            process.tell(AlignmentTimedOut(snapshot))

    def on_want(self) -> None:
        """A snapshot was asked for while the system was not whole."""
        self.fault_snapshot()

    def fault_crash(self) -> None:
        """A process dies; its packets are still on their way."""
        living = [process for process in self.processes.values() if self.is_current(process) and not process.ended]
        if living:
            process = living[self.choose(len(living))]
            process.alive = False
            self.counts["crashes"] += 1
            self.counts["crashes in a restore"] += bool(self.loading)
            self.note(f"{process.name} crashed")
            self.push(self.on_detect, process.name, self.incarnation)

    def fault_coordinator(self) -> None:
        """The coordinator is replaced: because it died, or because it was only thought to have died."""
        if not (self.loading or self.coordinator.finding):
            self.replace_coordinator()

    def fault_driver(self) -> None:
        """A driver dies."""
        living = [driver for driver in self.drivers.values() if driver.alive]
        if living:
            self.driver_dies(living[self.choose(len(living))])

    def fault_abort(self) -> None:
        """Somebody wants a snapshot to end."""
        if snapshots := self.coordinator.collector.open_snapshots:
            snapshot = snapshots[self.choose(len(snapshots))]
            self.coordinator.tell(AbortWanted(snapshot, AbortReason.REQUESTED, "simulated"))

    def fault_deadline(self) -> None:
        """The deadline of a snapshot passes at one process, long before the coordinator's."""
        self.pass_deadline()

    # Rollback --------------------------------------------------------------------------------------

    def on_detect(self, name: str, incarnation: int) -> None:
        """The death of a process is seen."""
        if incarnation == self.incarnation:
            if not self.coordinator.finding:
                self.coordinator.tell(ProcessDied(name, "simulated"))
            self.roll_back()

    def roll_back(self) -> None:
        """Begin a new life: all processes go back to the newest snapshot that advances, or to the start."""
        self.counts["rollbacks"] += 1
        self.coordinator.alive = self.choose(4) == 0
        self.incarnation += 1
        commit = self.newest_commit()
        ended = set(commit.stored.cut.ended) if commit else set()
        self.ended = set(ended)
        collector = self.machines.collector(self.incarnation, 0, ended)
        self.install(Coordinator(self.generation + 1, collector, self))
        self.truth.rolled_back(self.incarnation, commit.positions if commit else {}, ended)
        cut = commit.stored.cut if commit else None
        self.loading = {*cut.records, *cut.unborn} if cut else set(self.truth.initial)
        self.note(f"life {self.incarnation} begins from {cut.snapshot if cut else 'the start'}")
        for name in sorted(self.loading):
            self.push(self.on_load, name, self.incarnation, commit)
        for process in self.processes.values():
            if process.name not in self.loading:
                self.push(self.on_kill, process)

    def on_kill(self, process: AccountProcess) -> None:
        """A process outside of the restored snapshot ends."""
        process.alive = False

    def on_load(self, name: str, incarnation: int, commit: Commit | None) -> None:
        """A process is loaded; the last one that is makes all go on."""
        if incarnation != self.incarnation:
            return
        old = self.processes.get(name)
        machine = old.machine if old and old.alive and self.choose(2) else self.machines.participant(name, incarnation)
        if old:
            old.alive = False
        process = self.processes[name] = AccountProcess(name, machine, self)
        process.generation = self.generation
        state = commit.stored.states.get(name) if commit else self.truth.initial[name]
        process.account = state.copy() if state else None
        process.load(_load_of(name, incarnation, commit))
        self.loading.discard(name)
        self.arrived(name)
        if not self.loading:
            self._resume_all(commit)

    def _resume_all(self, commit: Commit | None) -> None:
        for process in self.processes.values():
            if process.incarnation == self.incarnation:  # also one that died since it was loaded: that will be seen
                self.coordinator.tell(ProcessJoined(process.name))
                self.tell_of_dead_drivers(process)
                self.push(self.on_resume, process)
        for driver in self.drivers.values():
            self.push(self.on_roll_back_driver, driver, self.incarnation, commit)

    def on_resume(self, process: AccountProcess) -> None:
        """A loaded process goes on."""
        process.loading = False
        self.wake(process)

    def on_roll_back_driver(self, driver: SimulatedDriver, incarnation: int, commit: Commit | None) -> None:
        """A driver is refused with the new incarnation, and creates again what the snapshot does not hold."""
        if incarnation != self.incarnation:
            return
        cuts = commit.stored.cut.channels if commit else ()
        sent = {c.channel.receiver: c.sent for c in cuts if c.channel.sender == driver.name}
        ended = frozenset(commit.stored.cut.ended) if commit else frozenset[str]()
        received = {c.channel.receiver: c.received for c in cuts if c.channel.sender == driver.name}
        driver.tell(RolledBack(incarnation, sent, ended, received))
        if driver.alive:
            driver.ended.update(ended)
            for name in driver.creations:
                self.push(self.on_spawn, name, incarnation)
            for receiver in driver.waiting():
                self.push_once(self.on_take_driver, driver, receiver)


def _load_of(name: str, incarnation: int, commit: Commit | None) -> Load:
    """What a snapshot holds for one process."""
    if commit is None:
        return Load(incarnation, {}, {}, {}, {}, frozenset())
    cut, messages = commit.stored.cut, commit.stored.messages
    into = [c for c in cut.channels if c.channel.receiver == name]
    return Load(
        incarnation,
        sent={c.channel.receiver: c.sent for c in cut.channels if c.channel.sender == name},
        arrived={c.channel.sender: c.sent for c in into},
        received={c.channel.sender: c.received for c in into},
        mailbox={c.channel.sender: messages[c.channel] for c in into},
        ended=frozenset(c.channel.sender for c in into) & frozenset(cut.ended),
    )
