"""A network that goes back to its last snapshot: the machine of recovery decides, and what it orders takes time."""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never

from rayshot.protocol.collector_events import ProcessDied, ProcessJoined
from rayshot.protocol.participant import Participant
from rayshot.protocol.recovery import Phase, Recovery
from rayshot.protocol.recovery_events import (
    Began,
    BeginLife,
    LifeBegan,
    LifeMarked,
    LoadProcess,
    LoadRefused,
    LogRefused,
    MarkLife,
    MarkRefused,
    NoRollback,
    Past,
    Pause,
    PauseOver,
    ProcessLoaded,
    ProcessLost,
    RecoveryEffect,
    RecoveryEvent,
    RecoveryPolicy,
    ResumeLife,
    StopHandlers,
    StopSystem,
    TookOver,
    WatchForPoison,
)
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.coordination import CoordinatedNetwork
from rayshot.simulation.world.coordinator import WorldCoordinator
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.network import P
from rayshot.simulation.world.networks import Traffic

POLICY = RecoveryPolicy(fruitless_max=10_000)
"""A schedule crashes as often as it wants to; when a system gives up has tests of its own."""

S = TypeVar("S")
"""A snapshot in the log, as this world keeps it."""


@dataclass(eq=False)
class Decider:
    """The machine of one coordinator. `alive` is true too for one that was only thought dead."""

    machine: Recovery
    alive: bool = True

    def __str__(self) -> str:
        return f"the decider in life {self.machine.life}"


@dataclass(frozen=True)
class WorldLife(Generic[S]):
    """A life in the log: the coordinator of its snapshots, its processes, and the snapshot that it goes on from."""

    coordinator: WorldCoordinator
    origin: S | None
    processes: frozenset[str]


class RollingBackNetwork(CoordinatedNetwork[P], Generic[P, S]):
    """See the module. `lives` are the lives that rollbacks began, by number; `marked` those that may run."""

    def __init__(
        self,
        choices: Choices,
        traffic: Traffic,
        machines: Machines,
        *,
        story: bool = False,
    ) -> None:
        super().__init__(choices, traffic, machines, story=story)
        self.decider = Decider(machines.recovery(1, POLICY))
        self.on_decide(self.decider, Began(1))
        self.lives: dict[int, WorldLife[S]] = {}
        self.marked = {1}
        self.past = Past()

    # What a world says -----------------------------------------------------------------------------

    @abstractmethod
    def target(self) -> S | None:
        """The snapshot to which a rollback would go; None: to the start."""

    @abstractmethod
    def members(self, target: S | None) -> tuple[frozenset[str], Collection[str]]:
        """The processes of a life that goes on from there, and those that had ended before."""

    @abstractmethod
    def life_began(self, life: WorldLife[S]) -> None:
        """Note that the log has the record of a rollback: this life is the present one now."""

    @abstractmethod
    def bring_back(self, name: str, machine: Participant, number: int) -> P:
        """A new process with what this life's snapshot holds of it; it is quiet until it is resumed."""

    @abstractmethod
    def on_roll_back_driver(self, driver: SimulatedDriver, number: int) -> None:
        """Let a driver hear of a life that runs."""

    def end_life(self) -> None:
        """Let the present life take no more snapshots: one that begins now would lack the process that was lost."""
        self.coordinator.alive = False

    def storage_refuses(self) -> bool:
        """Whether the storage cannot be reached now."""
        return False

    def order_is_lost(self) -> bool:
        """Whether an order to stop is lost on its way. Then what the process was works until it is loaded."""
        return False

    def welcome(self, process: P) -> None:
        """Tell a loaded process what it must hear before it goes on."""

    @property
    def is_whole(self) -> bool:
        """Whether the system runs, and its coordinator knows all of it."""
        return self.decider.machine.phase is Phase.RUNNING and not self.coordinator.finding

    # Deciding --------------------------------------------------------------------------------------

    def on_detect(self, process: P) -> None:
        """The death of a process is seen; a coordinator that is still finding processes waits with it."""
        if self.coordinator.finding:
            self.push(self.on_detect, process)
            return
        if process.incarnation == self.incarnation:
            self.coordinator.tell(ProcessDied(process.name, "it crashed"))
        lost = ProcessLost(process.incarnation, process.name, process.start, "simulated", float(self.steps))
        self.on_decide(self.decider, lost)

    def on_decide(self, decider: Decider, event: RecoveryEvent) -> None:
        """A coordinator that lives hears something about a rollback."""
        if decider.alive:
            effects = decider.machine.handle(event)
            decider.machine.validate()
            for effect in effects:
                self._carry_out_of(decider, effect)

    def _carry_out_of(self, decider: Decider, effect: RecoveryEffect) -> None:
        match effect:
            case StopHandlers(life):
                if decider is self.decider:
                    self.end_life()
                for process in self.processes.values():
                    self.push(self.on_stop_handlers, process, life)
            case BeginLife():
                self.push(self.on_begin_life, decider, effect)
            case WatchForPoison():
                pass  # no message of a world ends its process
            case LoadProcess():
                self.push(self.on_load, decider, effect)
            case MarkLife(life):
                self.push(self.on_mark, decider, life)
            case ResumeLife(life):
                self._resume(self.lives[life], life)
            case Pause(number):
                self.push(self.on_decide, decider, PauseOver(number))
            case StopSystem(detail=detail):
                decider.alive = False
                if decider is self.decider:
                    raise OracleFailure("termination", f"the system stopped: {detail}")
            case _:
                assert_never(effect)

    def on_stop_handlers(self, process: P, life: int) -> None:
        """What a process was in an old life does nothing any more."""
        if process.incarnation <= life and not self.order_is_lost():
            process.alive = False

    # Beginning a life ------------------------------------------------------------------------------

    def on_begin_life(self, decider: Decider, order: BeginLife) -> None:
        """The log takes the record of a new life, refuses it, or loses the answer."""
        if decider is not self.decider:
            self.counts["rollbacks fenced"] += 1
            self.on_decide(decider, NoRollback("another coordinator has the system"))
            return
        refused = self.storage_refuses()
        if not refused or self.choose(2):
            if self.incarnation == order.life:
                self._begin_life()
            began = LifeBegan(self.incarnation, tuple(sorted(self.lives[self.incarnation].processes)), self.past)
        self.counts["rollbacks refused by the log"] += refused
        self.on_decide(decider, LogRefused("simulated") if refused else began)

    def _begin_life(self) -> None:
        self.counts["rollbacks"] += 1
        self.past = self.past.rolled_back(float(self.steps), None)
        self.coordinator.alive = self.choose(4) == 0
        self.life_began(self.begin_life(self.incarnation + 1))

    def begin_life(self, number: int) -> WorldLife[S]:
        """Let this life be the present one, with a coordinator of its own."""
        self.incarnation = number
        origin = self.target()
        processes, ended = self.members(origin)
        self.ended = set(ended)
        collector = self.machines.collector(number, 0, set(ended))
        self.install(WorldCoordinator(self.generation + 1, collector, self))
        life = self.lives[number] = WorldLife(self.coordinator, origin, processes)
        return life

    # Loading ---------------------------------------------------------------------------------------

    def on_load(self, decider: Decider, order: LoadProcess) -> None:
        """A process is loaded, in its place or in a new start, unless it knows a later life."""
        name, old = order.process, self.processes.get(order.process)
        if old and (old.incarnation, old.start) >= (order.life, order.start):
            return
        if self.storage_refuses():
            self.counts["loads refused by the storage"] += 1
            self.on_decide(decider, LoadRefused(order.life, name, order.start, "simulated"))
            return
        life = self.lives[order.life]
        in_place = old and old.alive and old.incarnation < order.life and self.choose(2)
        machine = old.machine if old and in_place else self.machines.participant(name, order.life)
        if old:
            old.alive = False
        process = self.processes[name] = self.bring_back(name, machine, order.life)
        process.start = order.start
        process.generation = life.coordinator.generation
        self.counts["processes loaded again"] += order.start > 1
        if order.life == self.incarnation:
            self.arrived(name)
        self.push(self.on_loaded, decider, ProcessLoaded(order.life, name, order.start))

    def on_loaded(self, decider: Decider, event: ProcessLoaded) -> None:
        """The coordinator hears that a process is loaded; if it died meanwhile, the one that followed it does."""
        self.on_decide(decider if decider.alive else self.decider, event)

    def on_mark(self, decider: Decider, life: int) -> None:
        """The mark of a life is written, with the list of its processes, or cannot be written now."""
        if self.storage_refuses():
            self.on_decide(decider, MarkRefused(life, "simulated"))
            return
        self.marked.add(life)
        self.on_decide(decider, LifeMarked(life))

    # Going on --------------------------------------------------------------------------------------

    def _resume(self, life: WorldLife[S], number: int) -> None:
        for process in self.processes.values():
            if process.incarnation == number:  # also one that died since it was loaded: that will be seen
                life.coordinator.tell(ProcessJoined(process.name))
                self.welcome(process)
                self.push(self.on_resume, process)
        self._tell_drivers(number)

    def _tell_drivers(self, number: int) -> None:
        for driver in self.drivers.values():
            self.push(self.on_roll_back_driver, driver, number)

    def on_resume(self, process: P) -> None:
        """A loaded process goes on."""
        process.loading = False
        self.wake(process)

    # Taking over -----------------------------------------------------------------------------------

    def replace_coordinator(self) -> WorldCoordinator:
        """See CoordinatedNetwork. The new one decides from now on; one that was only thought dead does not know it."""
        before, self.decider = self.decider, Decider(self.machines.recovery(self.incarnation, POLICY))
        old = super().replace_coordinator()
        before.alive = old.alive
        return old

    def missing(self) -> tuple[str, ...]:
        """The processes that should run in the present life and do not, sorted."""
        number, life = self.incarnation, self.lives.get(self.incarnation)
        listed = life.processes if life and number in self.marked else frozenset[str]()
        members = {process.name for process in self.processes.values() if process.incarnation == number}
        return tuple(sorted(name for name in members | listed if not self._runs(name)))

    def found_all(self, coordinator: WorldCoordinator) -> None:
        """See CoordinatedNetwork. If anybody is missing, or the life may not run, all go back."""
        number, missing = self.incarnation, self.missing()
        there = {process.name for process in self.processes.values() if self.is_current(process)}
        lost = tuple(name for name in missing if name not in there)
        took_over = TookOver(
            number, number in self.marked, lost, float(self.steps), self.past, idle=len(lost) < len(missing)
        )
        self.on_decide(self.decider, took_over)
        if self.is_whole:
            for process in self.processes.values():
                if process.incarnation == number and process.generation < coordinator.generation:
                    self.find_one(coordinator, process)  # a coordinator that was replaced had it loaded meanwhile
            super().found_all(coordinator)
            if number > 1:
                self._tell_drivers(number)

    def _runs(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and self.is_current(process) and not process.loading
