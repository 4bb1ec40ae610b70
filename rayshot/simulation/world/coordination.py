"""A network with coordinators: what they hear and say, and how a new one takes over from one that was lost.

A lost coordinator may only have been thought dead. Then it goes on as a rival: processes that the new one has not found
yet listen to it, but the log refuses its snapshots. The new coordinator asks each process, which gives up the snapshots
of the old one; when all are found it knows who is there, which counters are used, and which snapshots have ended.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import AbortWanted, AnnounceEnd, CollectorEvent, ProcessEnded, ProcessJoined
from rayshot.protocol.events import Begun, DeadlinePassed, EverybodyRecorded, SnapshotEnded
from rayshot.protocol.identity import SnapshotId
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.coordinator import WorldCoordinator
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.network import Network, P
from rayshot.simulation.world.networks import Traffic
from rayshot.simulation.world.packets import StoredCut

News = Begun | EverybodyRecorded | SnapshotEnded
"""What a coordinator tells a process."""


class CoordinatedNetwork(Network[P], ABC):
    """See the module. `coordinators` holds all by generation: a report goes to the one that its process knows.

    `over` are the ends of snapshots that were announced. `given_up` are snapshots for which the deadline passed at a
    process that had not recorded: they cannot become complete.
    """

    def __init__(
        self,
        choices: Choices,
        traffic: Traffic,
        machines: Machines,
        *,
        story: bool = False,
    ) -> None:
        super().__init__(choices, traffic, machines, story=story)
        self.over: dict[SnapshotId, SnapshotEnded] = {}
        self.given_up: set[SnapshotId] = set()
        self._begun_at_join: list[Begun] | None = None
        self.coordinators: dict[int, WorldCoordinator] = {}
        self.install(WorldCoordinator(1, machines.collector(1), self))

    # What a world says -----------------------------------------------------------------------------

    @abstractmethod
    def opened(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """See Surroundings of a coordinator."""

    @abstractmethod
    def store(self, coordinator: WorldCoordinator, stored: StoredCut) -> None:
        """See Surroundings of a coordinator."""

    @abstractmethod
    def announce(self, coordinator: WorldCoordinator, end: AnnounceEnd, stored: StoredCut | None) -> None:
        """See Surroundings of a coordinator."""

    @abstractmethod
    def log(self) -> Sequence[tuple[SnapshotId, Collection[str]]]:
        """The committed snapshots, the oldest first, each with the processes that had ended."""

    @abstractmethod
    def joined(self, process: P, news: tuple[News, ...]) -> None:
        """Answer a process that said hello: call `on_joined`, at once or later."""

    @abstractmethod
    def wake(self, process: P) -> None:
        """See Surroundings of a process."""

    # Hearing ---------------------------------------------------------------------------------------

    def on_tell_coordinator(self, generation: int, event: CollectorEvent, content: Any) -> None:
        """Let the coordinator that was addressed hear a report, dead or alive."""
        coordinator = self.coordinators[generation]
        if not coordinator.alive:
            return
        if coordinator.finding:
            coordinator.waiting.append((event, content))
        elif isinstance(event, ProcessJoined):
            self._answer_join(coordinator, event)
        else:
            self.hear(coordinator, event, content)

    def hear(self, coordinator: WorldCoordinator, event: CollectorEvent, content: Any) -> None:
        """Let a coordinator hear a report."""
        coordinator.hear(event, content)

    def _answer_join(self, coordinator: WorldCoordinator, event: ProcessJoined) -> None:
        """Answer a hello with the news of the snapshots that have ended, and of those that are open."""
        self._begun_at_join = []
        coordinator.tell(event)
        begun, self._begun_at_join = tuple(self._begun_at_join), None
        process = self.processes.get(event.process)
        if process is not None and self.is_current(process) and process.generation == coordinator.generation:
            ended = (end for end in self.over.values() if end.snapshot.incarnation == process.incarnation)
            self.joined(process, (*ended, *begun))

    def on_joined(self, process: P, news: tuple[News, ...]) -> None:
        """Let a process hear that the coordinator knows it, and which snapshots have ended and which are open."""
        if process.joining:
            for event in news:
                self.tell(process, event)
            process.joining = False
            self.wake(process)

    # Saying ----------------------------------------------------------------------------------------

    def begin(self, coordinator: WorldCoordinator, process: str, begun: Begun) -> None:
        """See Surroundings of a coordinator."""
        if self._begun_at_join is not None:
            self._begun_at_join.append(begun)
        else:
            self.order(process, coordinator.generation, begun)

    def order(self, name: str, generation: int, begun: Begun) -> None:
        """Put a coordinator's order on its way."""
        self.push(self.on_tell_process, name, generation, begun)

    def everybody_recorded(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> None:
        """See Surroundings of a coordinator."""
        for name in self.processes:
            self.push(self.on_tell_process, name, coordinator.generation, EverybodyRecorded(snapshot))

    def on_tell_process(self, name: str, generation: int, event: News) -> None:
        """Let a process hear from a coordinator, unless it knows a newer one."""
        process = self.processes.get(name)
        replaced = process is not None and generation < process.generation
        if process is None or not process.alive or (replaced and event.snapshot.incarnation == process.incarnation):
            return  # news of an older life reach the machine, which must know them for what they are
        if event.snapshot.by_coordinator and event.snapshot.incarnation == process.incarnation:
            process.highest_heard = max(process.highest_heard, event.snapshot.counter)
        self.tell(process, event)

    def tell(self, process: P, event: News) -> None:
        """Let a process hear news of a snapshot."""
        process.tell(event)

    # Taking over -----------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The number of the newest coordinator. The log holds its epoch, and refuses all others."""
        return self.coordinator.generation

    def install(self, coordinator: WorldCoordinator) -> None:
        """Let a coordinator be the newest."""
        self.coordinator = self.coordinators[coordinator.generation] = coordinator

    def replace_coordinator(self) -> WorldCoordinator:
        """Begin a new coordinator, because the old one died or was thought to have died; returns the old one."""
        old = self.coordinator
        self.counts["coordinators replaced"] += 1
        old.alive = self.choose(3) > 0
        self.counts["coordinators racing"] += old.alive
        self.install(WorldCoordinator(self.generation + 1, self.machines.collector(self.incarnation), self))
        self.coordinator.finding = {p.name for p in self.processes.values() if p.incarnation == self.incarnation}
        for name in sorted(self.coordinator.finding):
            self.push(self.on_find, name, self.generation)
        if not self.coordinator.finding:
            self.found_all(self.coordinator)
        return old

    def on_find(self, name: str, generation: int) -> None:
        """Let a new coordinator ask a process, which gives up the snapshots of the old one if it lives."""
        coordinator = self.coordinators[generation]
        if coordinator is not self.coordinator:
            return
        process = self.processes[name]
        if process.alive:
            self.find_one(coordinator, process)
        coordinator.finding.discard(name)
        if not coordinator.finding:
            self.found_all(coordinator)

    def find_one(self, coordinator: WorldCoordinator, process: P) -> None:
        """Let a process listen to this coordinator from now on, which learns what the process knows of older ones."""
        process.generation = coordinator.generation
        coordinator.highest = max(coordinator.highest, process.highest_heard)
        coordinator.lost[process.name] = process.machine.open_snapshots
        for snapshot in process.machine.open_snapshots:
            process.tell(DeadlinePassed(snapshot))

    def found_all(self, coordinator: WorldCoordinator) -> None:
        """Let a new coordinator take over, since it has asked all processes."""
        found = [process for process in self.processes.values() if process.incarnation == self.incarnation]
        ended = {name for process in found for name in process.machine.ended_peers}
        log = self.log()
        if log:
            ended |= set(log[-1][1]) & self.ended
        of_this_life = {snapshot for snapshot, _ in log if snapshot.incarnation == self.incarnation}
        coordinator.collector = self.machines.collector(self.incarnation, coordinator.highest, ended, of_this_life)
        for process in found:
            if process.last_record is not None:
                coordinator.tell(ProcessEnded(process.last_record.record, process.last_record.unfinished))
                self.ended.add(process.name)
            else:
                coordinator.tell(ProcessJoined(process.name, coordinator.lost.get(process.name, ())))
        for process in self.processes.values():
            process.joining = False
        for process in found:  # only now: what they report must find a coordinator that knows all
            if process.last_record is None:
                self.wake(process)
        waiting, coordinator.waiting = coordinator.waiting, []
        for event, content in waiting:
            self.push(self.on_tell_coordinator, coordinator.generation, event, content)

    def is_fenced(self, coordinator: WorldCoordinator, snapshot: SnapshotId) -> bool:
        """Whether the log refuses a complete snapshot, as its coordinator was replaced, which learns this."""
        if coordinator is self.coordinator:
            return False
        self.counts["commits fenced"] += 1
        coordinator.tell(AbortWanted(snapshot, AbortReason.FENCED, "another coordinator writes"))
        return True

    # Deadlines -------------------------------------------------------------------------------------

    def pass_deadline(self) -> bool:
        """Let the deadline of a snapshot pass at one process, long before the coordinator's; False if there is none."""
        waiting = self.deadlines()
        if not waiting:
            return False
        self.counts["deadlines passed"] += 1
        self.give_up(*waiting[self.choose(len(waiting))])
        return True

    def deadlines(self) -> list[tuple[P, SnapshotId]]:
        """The snapshots that a process has learned of, and whose end it does not know: their deadlines can pass."""
        living = (process for process in self.processes.values() if self.is_current(process))
        return [(process, snapshot) for process in living for snapshot in process.machine.open_snapshots]

    def give_up(self, process: P, snapshot: SnapshotId) -> None:
        """Let the deadline of a snapshot pass at a process."""
        if snapshot not in process.machine.recorded_snapshots:
            self.given_up.add(snapshot)
        process.tell(DeadlinePassed(snapshot))

    def hopeless(self) -> list[SnapshotId]:
        """The coordinator's open snapshots that only its own deadline can end."""
        return [snapshot for snapshot in self.coordinator.collector.open_snapshots if snapshot in self.given_up]

    def left_open(self) -> list[tuple[P, SnapshotId]]:
        """Snapshots that are open at a process and not at the coordinator: only the process's deadline can end them."""
        working = [process for process in self.processes.values() if self.is_current(process) and not process.ended]
        known = self.coordinator.collector.open_snapshots
        return [(process, k) for process in working for k in process.machine.open_snapshots if k not in known]
