"""A world in which everything fails: processes, coordinators, drivers, deadlines."""

from collections.abc import Callable

from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import (
    AbortWanted,
    SnapshotWanted,
)
from rayshot.protocol.events import AlignmentTimedOut, SnapshotRequested
from rayshot.protocol.identity import ALIGNED, STOP_THE_WORLD
from rayshot.protocol.topology import forward_inputs, reached_from
from tests.simulate.rollback import RollingBackWorld


class RecoveringWorld(RollingBackWorld):
    """See the module."""

    # Faults ----------------------------------------------------------------------------------------

    def fault(self, fault: Callable[["RecoveringWorld"], None]) -> None:
        """Let one fault, or one wish for a snapshot, happen now."""
        self.note(f"now: {fault.__name__.removeprefix('fault_')}")
        fault(self)

    def fault_snapshot(self) -> None:
        """Somebody wants a snapshot; now and then it is a replaced coordinator that begins it."""
        if not self.is_whole:
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
        if self.is_whole:
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
        if not self.is_whole or self.coordinator.collector.is_aligning:
            return
        living = {p.name: p for p in self.processes.values() if self.is_current(p) and not p.ended}
        channels = {name: sorted(p.sent.keys() & living.keys()) for name, p in living.items()}
        self.counts["aligned snapshots"] += 1
        self.coordinator.tell(SnapshotWanted(ALIGNED, forward_inputs(channels)))

    def fault_stop(self) -> None:
        """Somebody wants a snapshot for which the world stops."""
        if self.is_whole:
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
            self.counts["crashes in a restore"] += not self.is_whole
            self.note(f"{process.name} crashed")
            self.push(self.on_detect, process)

    def fault_coordinator(self) -> None:
        """The coordinator is replaced: because it died, or because it was only thought to have died."""
        if not self.coordinator.finding:
            self.counts["coordinators replaced in a rollback"] += not self.is_whole
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
