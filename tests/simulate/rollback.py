"""The bare world that goes back to its last snapshot: what its accounts and drivers find there, and what is judged."""

from collections.abc import Callable, Collection

from rayshot.protocol.driver_events import SystemRolledBack
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.world.driver import SimulatedDriver
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.packets import Load
from rayshot.simulation.world.rollback import WorldLife
from tests.simulate.commit import Commit
from tests.simulate.settings import Slow
from tests.simulate.world import World


class RollingBackWorld(World):
    """See the module."""

    def slowed(self) -> dict[Slow, Callable[..., None]]:
        """See World."""
        return {**super().slowed(), Slow.LOAD: self.on_load, Slow.LOADED: self.on_loaded, Slow.RESUME: self.on_resume}

    def storage_refuses(self) -> bool:
        """See RollingBackNetwork."""
        return self.odds(self.settings.store_failures_one_in)

    def order_is_lost(self) -> bool:
        """See RollingBackNetwork. Most are lost, so that packets of the old life meet the new one."""
        return self.choose(10) > 0

    def target(self) -> Commit | None:
        """See RollingBackNetwork."""
        return self.newest_commit()

    def members(self, target: Commit | None) -> tuple[frozenset[str], Collection[str]]:
        """See RollingBackNetwork."""
        if target is None:
            return frozenset(self.truth.initial), ()
        cut = target.stored.cut
        return frozenset({*cut.records, *cut.unborn}), cut.ended

    def life_began(self, life: WorldLife[Commit]) -> None:
        """See RollingBackNetwork."""
        commit = life.origin
        self.truth.rolled_back(self.incarnation, commit.positions if commit else {}, set(self.ended))
        self.note(f"life {self.incarnation} begins from {commit or 'the start'}")

    def bring_back(self, name: str, machine: Participant, number: int) -> AccountProcess:
        """See RollingBackNetwork."""
        origin = self.lives[number].origin
        process = AccountProcess(name, machine, self)
        state = origin.stored.states.get(name) if origin else self.truth.initial[name]
        process.account = state.copy() if state else None
        process.load(_load_of(name, number, origin))
        return process

    def welcome(self, process: AccountProcess) -> None:
        """See RollingBackNetwork."""
        self.tell_of_dead_drivers(process)

    def on_resume(self, process: AccountProcess) -> None:
        """See RollingBackNetwork. Nobody goes on before all are loaded, and the life is marked."""
        super().on_resume(process)
        number = process.incarnation
        if number == self.incarnation and process.alive:
            names = self.lives[number].processes
            behind = sorted(name for name in names if self.processes[name].incarnation < number)
            if behind or number not in self.marked:
                raise OracleFailure("rollback", f"{process.name} goes on, {behind} not loaded, marked: {self.marked}")

    def on_roll_back_driver(self, driver: SimulatedDriver, number: int) -> None:
        """See RollingBackNetwork. A driver creates again what the snapshot does not hold."""
        if number != self.incarnation or driver.machine.incarnation >= number:
            return
        commit = self.lives[number].origin
        cuts = commit.stored.cut.channels if commit else ()
        sent = {c.channel.receiver: c.sent for c in cuts if c.channel.sender == driver.name}
        ended = frozenset(commit.stored.cut.ended) if commit else frozenset[str]()
        received = {c.channel.receiver: c.received for c in cuts if c.channel.sender == driver.name}
        driver.tell(SystemRolledBack(number, sent, ended, received))
        if driver.alive:
            driver.ended.update(ended)
            for name in driver.creations:
                self.push(self.on_spawn, name, number)
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
