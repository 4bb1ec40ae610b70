"""A world that goes back to its last snapshot: the machine of recovery decides, and what it orders takes time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from rayshot.protocol.collecting import ProcessDied, ProcessJoined
from rayshot.protocol.driver import RolledBack
from rayshot.protocol.recovering import (
    BeginLife,
    LifeBegan,
    LifeMarked,
    LoadProcess,
    LoadRefused,
    LogRefused,
    MarkLife,
    MarkRefused,
    NoWayBack,
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
)
from rayshot.protocol.recovery import Phase, Recovery
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.choices import Choices
from rayshot.simulation.world.coordinator import Coordinator
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from rayshot.simulation.world.packets import Load
from tests.simulate.settings import Settings, Slow
from tests.simulate.world import Commit, World

POLICY = RecoveryPolicy(fruitless_max=10_000)
"""A schedule crashes as often as it wants to; when a system gives up has tests of its own."""


@dataclass(eq=False)
class Decider:
    """The machine of one coordinator. `alive` is true too for one that was only thought dead."""

    machine: Recovery
    alive: bool = True

    def __str__(self) -> str:
        return f"the decider in life {self.machine.life}"


@dataclass(frozen=True)
class Life:
    """A life in the log: who began it, the coordinator of its snapshots, and the snapshot that it goes on from."""

    decider: Decider
    coordinator: Coordinator
    commit: Commit | None
    processes: frozenset[str]


class RollingBackWorld(World):
    """See the module. `lives` are the lives that rollbacks began, by number; `marked` those that may run."""

    def __init__(self, choices: Choices, settings: Settings, machines: Machines, *, story: bool = False) -> None:
        super().__init__(choices, settings, machines, story=story)
        self.decider = Decider(machines.recovery(1, POLICY))
        self.lives: dict[int, Life] = {}
        self.marked = {1}
        self.past = Past()

    def slowed(self) -> dict[Slow, Callable[..., None]]:
        """See World."""
        return {**super().slowed(), Slow.LOAD: self.on_load, Slow.LOADED: self.on_loaded, Slow.RESUME: self.on_resume}

    @property
    def is_whole(self) -> bool:
        """Whether the system runs, and its coordinator knows all of it."""
        return self.decider.machine.phase is Phase.RUNNING and not self.coordinator.finding

    # Deciding --------------------------------------------------------------------------------------

    def on_detect(self, process: AccountProcess) -> None:
        """The death of a process is seen; a coordinator that is still finding processes waits with it."""
        if self.coordinator.finding:
            self.push(self.on_detect, process)
            return
        if process.incarnation == self.incarnation:
            self.coordinator.tell(ProcessDied(process.name, "simulated"))
        lost = ProcessLost(process.incarnation, process.name, process.start, "simulated", float(self.steps))
        self.on_decide(self.decider, lost)

    def on_decide(self, decider: Decider, event: RecoveryEvent) -> None:
        """A coordinator that lives hears something about a rollback."""
        if decider.alive:
            effects = decider.machine.handle(event)
            decider.machine.validate()
            for effect in effects:
                self._carry_out(decider, effect)

    def _carry_out(self, decider: Decider, effect: RecoveryEffect) -> None:
        match effect:
            case StopHandlers(life):
                for process in self.processes.values():
                    self.push(self.on_stop_handlers, process, life)
            case BeginLife():
                self.push(self.on_begin_life, decider, effect)
            case LoadProcess():
                self.push(self.on_load, decider, effect)
            case MarkLife(life):
                self.push(self.on_mark, decider, life)
            case ResumeLife(life):
                self._resume(self.lives[life], life)
            case Pause(number):
                self.push(self.on_decide, decider, PauseOver(number))
            case StopSystem(_, detail):
                decider.alive = False
                if decider is self.decider:
                    raise OracleFailure("termination", f"the system stopped: {detail}")
            case _:
                assert_never(effect)

    def on_stop_handlers(self, process: AccountProcess, life: int) -> None:
        """What a process was in an old life does nothing any more."""
        if process.incarnation <= life:
            process.alive = False

    # Beginning a life ------------------------------------------------------------------------------

    def on_begin_life(self, decider: Decider, order: BeginLife) -> None:
        """The log takes the record of a new life, refuses it, or loses the answer."""
        if decider is not self.decider:
            self.counts["rollbacks fenced"] += 1
            self.on_decide(decider, NoWayBack("another coordinator has the system"))
            return
        refused = self.odds(self.settings.store_failures_one_in)
        if not refused or self.choose(2):
            if self.incarnation == order.life:
                self._begin_life(decider)
            began = LifeBegan(self.incarnation, tuple(sorted(self.lives[self.incarnation].processes)), self.past)
        self.counts["rollbacks refused by the log"] += refused
        self.on_decide(decider, LogRefused("simulated") if refused else began)

    def _begin_life(self, decider: Decider) -> None:
        self.counts["rollbacks"] += 1
        self.past = self.past.gone_back(float(self.steps), None)
        self.coordinator.alive = self.choose(4) == 0
        self.incarnation += 1
        commit = self.newest_commit()
        cut = commit.stored.cut if commit else None
        self.ended = set(cut.ended) if cut else set()
        collector = self.machines.collector(self.incarnation, 0, set(self.ended))
        self.install(Coordinator(self.generation + 1, collector, self))
        self.truth.rolled_back(self.incarnation, commit.positions if commit else {}, set(self.ended))
        processes = frozenset({*cut.records, *cut.unborn} if cut else self.truth.initial)
        self.lives[self.incarnation] = Life(decider, self.coordinator, commit, processes)
        self.note(f"life {self.incarnation} begins from {cut.snapshot if cut else 'the start'}")

    # Loading ---------------------------------------------------------------------------------------

    def on_load(self, decider: Decider, order: LoadProcess) -> None:
        """A process is loaded, in its place or in a new start, unless it knows a later life."""
        name, old = order.process, self.processes.get(order.process)
        if old and (old.incarnation, old.start) >= (order.life, order.start):
            return
        if self.odds(self.settings.store_failures_one_in):
            self.counts["loads refused by the storage"] += 1
            self.on_decide(decider, LoadRefused(order.life, name, order.start, "simulated"))
            return
        life = self.lives[order.life]
        in_place = old and old.alive and old.incarnation < order.life and self.choose(2)
        machine = old.machine if old and in_place else self.machines.participant(name, order.life)
        if old:
            old.alive = False
        process = self.processes[name] = AccountProcess(name, machine, self)
        process.start = order.start
        process.generation = life.coordinator.generation
        state = life.commit.stored.states.get(name) if life.commit else self.truth.initial[name]
        process.account = state.copy() if state else None
        process.load(_load_of(name, order.life, life.commit))
        self.counts["processes loaded again"] += order.start > 1
        if order.life == self.incarnation:
            self.arrived(name)
        self.push(self.on_loaded, decider, ProcessLoaded(order.life, name, order.start))

    def on_loaded(self, decider: Decider, event: ProcessLoaded) -> None:
        """The coordinator hears that a process is loaded; if it died meanwhile, the one that followed it does."""
        self.on_decide(decider if decider.alive else self.decider, event)

    def on_mark(self, decider: Decider, life: int) -> None:
        """The mark of a life is written, with the list of its processes, or cannot be written now."""
        if self.odds(self.settings.store_failures_one_in):
            self.on_decide(decider, MarkRefused(life, "simulated"))
            return
        self.marked.add(life)
        self.on_decide(decider, LifeMarked(life))

    # Going on --------------------------------------------------------------------------------------

    def _resume(self, life: Life, number: int) -> None:
        for process in self.processes.values():
            if process.incarnation == number:  # also one that died since it was loaded: that will be seen
                life.coordinator.tell(ProcessJoined(process.name))
                self.tell_of_dead_drivers(process)
                self.push(self.on_resume, process)
        self._tell_drivers(number)

    def _tell_drivers(self, number: int) -> None:
        for driver in self.drivers.values():
            self.push(self.on_roll_back_driver, driver, number)

    def on_resume(self, process: AccountProcess) -> None:
        """A loaded process goes on."""
        process.loading = False
        self.wake(process)
        number = process.incarnation
        if number == self.incarnation and process.alive:
            names = self.lives[number].processes
            behind = sorted(name for name in names if self.processes[name].incarnation < number)
            if behind or number not in self.marked:
                raise OracleFailure("rollback", f"{process.name} goes on, {behind} not loaded, marked: {self.marked}")

    def on_roll_back_driver(self, driver: SimulatedDriver, number: int) -> None:
        """A driver hears of the new life, and creates again what the snapshot does not hold."""
        if number != self.incarnation:
            return
        commit = self.lives[number].commit
        cuts = commit.stored.cut.channels if commit else ()
        sent = {c.channel.receiver: c.sent for c in cuts if c.channel.sender == driver.name}
        ended = frozenset(commit.stored.cut.ended) if commit else frozenset[str]()
        received = {c.channel.receiver: c.received for c in cuts if c.channel.sender == driver.name}
        if driver.machine.incarnation >= number:
            return
        driver.tell(RolledBack(number, sent, ended, received))
        if driver.alive:
            driver.ended.update(ended)
            for name in driver.creations:
                self.push(self.on_spawn, name, number)
            for receiver in driver.waiting():
                self.push_once(self.on_take_driver, driver, receiver)

    # Taking over -----------------------------------------------------------------------------------

    def replace_coordinator(self) -> Coordinator:
        """See CoordinatedNetwork. The new one decides from now on; one that was only thought dead does not know it."""
        before, self.decider = self.decider, Decider(self.machines.recovery(self.incarnation, POLICY))
        old = super().replace_coordinator()
        before.alive = old.alive
        return old

    def found_all(self, coordinator: Coordinator) -> None:
        """See CoordinatedNetwork."""
        number = self.incarnation
        listed = self.lives[number].processes if number > 1 and number in self.marked else frozenset()
        members = {process.name for process in self.processes.values() if process.incarnation == number}
        lost = tuple(sorted(name for name in members | listed if not self._runs(name)))
        self.on_decide(self.decider, TookOver(number, number in self.marked, lost, float(self.steps), self.past))
        if self.is_whole:
            super().found_all(coordinator)
            if self.incarnation > 1:
                self._tell_drivers(self.incarnation)

    def _runs(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and self.is_current(process) and not process.loading


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
