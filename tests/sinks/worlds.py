"""Worlds in which systems write into one table through the real sink, while they die, are restored, cloned and copied.

A system is a log with lives, as the coordinator writes it, and the present life of its one sink. Steps of a hook's
function come late or twice; a call to the table may fail, before or behind what it does; lives that are over go on
writing. A person restores older snapshots, with and without "again" and takeover, also of another system, and copies a
storage so that two systems are of one run.
"""

import pickle
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import OutsideConflict
from tests.sinks.tables import Life, Table, ToTable, token

STEPS = {
    "receive": 10,
    "record": 8,
    "commit": 8,
    "abort": 1,
    "publish": 14,
    "death": 1.5,
    "restore": 0.5,
    "resume": 0.3,
    "clone": 0.15,
    "copy": 0.1,
    "zombie": 3,
}


class Wrong(AssertionError):
    """Rows are lost or twice, or a system stands still for no reason."""


class Till(ToTable):
    """A sink whose state has what it took."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[int] = []


@dataclass
class Epoch:
    """The begin of a life in a log: from which snapshot, and what a person said of it."""

    life: int
    owner: str
    snapshot: int | None
    again: str = ""
    takeover: bool = False
    by_person: bool = False


@dataclass
class Commit:
    """A durable snapshot in a log."""

    snapshot: int
    advances: bool


@dataclass
class System:
    """`log` has epochs and commits; `sink` is None before the first message, and where the system stands still."""

    run: str
    log: list[Any] = field(default_factory=list)
    runs: bool = False
    down: bool = False
    person: bool = False
    life: Life | None = None
    work: Any = None
    records: dict[int, Any] = field(default_factory=dict)

    @property
    def epoch(self) -> Epoch:
        return next(one for one in reversed(self.log) if isinstance(one, Epoch))

    @property
    def word(self) -> str:
        """What the person who restored it last said of "again"; births hold it until the next restore."""
        return next((one.again for one in reversed(self.log) if isinstance(one, Epoch) and one.by_person), "")

    def way_back(self) -> tuple[int | None, str, bool]:
        """Where a new life goes on; the words hold until the system has a snapshot of its own."""
        for one in reversed(self.log):
            if isinstance(one, Commit) and one.advances:
                return one.snapshot, "", False
            if isinstance(one, Epoch) and one.by_person:
                return one.snapshot, one.again, one.takeover
        return None, "", False


class World:
    """All systems, and the table. `steps` random steps, then quiet; `judge` raises Wrong."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        ToTable.table = self.table = Table()
        self.weights = [weight * self.dice.choice([0.3, 1, 3]) for weight in STEPS.values()]
        self.content: dict[int, Any] = {}
        self.allowed: Counter[int] = Counter()
        self.zombies: list[Any] = []
        self.counter = 0
        self.is_well = False
        self.systems = [System("run-1")]
        self.begin(self.systems[0], None, by_person=True)

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def begin(
        self, system: System, snapshot: int | None, again: str = "", *, takeover: bool = False, by_person: bool = False
    ) -> None:
        """A new life of the system."""
        if system.work is not None:
            self.zombies.append(system.work)
        life = max((one.life for one in system.log if isinstance(one, Epoch)), default=0) + 1
        epoch = Epoch(life, f"owner-{self.number()}", snapshot, again, takeover, by_person)
        if by_person and again == "again":
            epoch.again = f"{system.run}:{life}:{epoch.owner}"
            for row in self.content[snapshot][2] if snapshot is not None else ():
                self.allowed[row] += 1
        system.log.append(epoch)
        system.person |= by_person
        system.life, system.work, system.records = None, None, {}
        system.runs, system.down = True, False
        if snapshot is None or self.content[snapshot][0] is None:
            return
        who = token(life, system.run, epoch.owner)
        try:
            with self.faults(0.1):
                system.life = Life.restored(self.content[snapshot], who, again=epoch.again, takeover=epoch.takeover)
        except OutsideConflict as conflict:
            self.stop(system, conflict)
            return
        except ConnectionError:
            pass
        if system.life is None or self.dice.random() < 0.05:  # or another actor could not be loaded
            system.runs, system.life, system.down = False, None, True
            return
        system.life.again = system.word
        system.work = system.life.commit(self.content[snapshot])

    def faults(self, share: float) -> Any:
        """One call to the table may fail, before it does anything or behind it."""
        world = self

        class Faults:
            def __enter__(self) -> None:
                if world.dice.random() < share and not world.is_well:
                    world.table.fail, world.table.done = ConnectionError("lost"), world.dice.random() < 0.5

            def __exit__(self, *_: object) -> None:
                world.table.fail = None

        return Faults()

    def stop(self, system: System, conflict: OutsideConflict) -> None:
        """The system stands still; where nobody interfered there is no reason for that.

        A person who restores a snapshot from before the sink's birth, without "again", hears of it at the next birth.
        """
        publisher = system.life and system.life.sink._publisher
        behind_birth = publisher is not None and not publisher.is_taken and not system.word
        if not system.person and len(self.systems) == 1 and not behind_birth:
            raise Wrong(f"stands still for no reason: {conflict}")
        if system.work is not None:
            self.zombies.append(system.work)
        system.runs, system.life, system.work = False, None, None

    def step(self) -> None:
        (what,) = self.dice.choices([*STEPS], self.weights)
        system = self.dice.choice(self.systems)
        if what == "zombie":
            if self.zombies:
                with suppress(OutsideConflict, ConnectionError):
                    self.dice.choice(self.zombies)()
        elif what in {"restore", "resume", "clone", "copy"} or not system.runs:
            self.person(system, what)
        else:
            try:
                getattr(self, what)(system)
            except OutsideConflict as conflict:
                self.stop(system, conflict)

    def person(self, system: System, what: str) -> None:
        durable = [one for one in system.log if isinstance(one, Commit)]
        if system.down:
            self.begin(system, *system.way_back()[:2], takeover=system.way_back()[2])
        elif durable and what in {"restore", "resume"}:
            chosen = self.dice.choice(durable) if what == "restore" else durable[-1]
            words = "again" if self.dice.random() < 0.4 else ""
            self.begin(system, chosen.snapshot, words, takeover=self.dice.random() < 0.5, by_person=True)
        elif durable and what in {"clone", "copy"} and len(self.systems) < 3:
            other = System(system.run if what == "copy" else f"run-{self.number()}")
            other.log = list(system.log) if what == "copy" else []
            self.systems.append(other)
            words = "again" if self.dice.random() < 0.3 else ""
            self.begin(other, durable[-1].snapshot, words, takeover=self.dice.random() < 0.6, by_person=True)

    def receive(self, system: System) -> None:
        if system.life is None:
            epoch = system.epoch
            system.life = Life(Till(), token(epoch.life, system.run, epoch.owner), again=system.word)
        row = self.number()
        self.allowed[row] += 1
        system.life.sink.taken.append(row)  # type: ignore[attr-defined]
        system.life.sink.write([{"n": row}])

    def record(self, system: System) -> None:
        if len(system.records) < 2:
            given, state, taken = None, None, ()
            if (life := system.life) is not None:
                given = life.sink.on_snapshot(life.cut())
                state, taken = pickle.dumps(life.sink), tuple(life.sink.taken)  # type: ignore[attr-defined]
            system.records[self.number()] = given, state, taken

    def commit(self, system: System) -> None:
        if not system.records:
            return
        snapshot = self.dice.choice([*system.records])
        given, state, taken = system.records.pop(snapshot)
        try:
            with self.faults(0.1):
                payload = given() if callable(given) else given
        except ConnectionError:
            return
        mine = [one.snapshot for one in system.log if isinstance(one, Commit) and one.snapshot > self.begun(system)]
        advances = snapshot > max(mine, default=0) and self.dice.random() < 0.9
        self.content[snapshot] = state, payload, taken
        system.log.append(Commit(snapshot, advances))
        if advances:
            system.person = False
            if system.life is not None and payload is not None and self.dice.random() < 0.8:
                system.work = system.life.commit((b"", payload)) or system.work

    def begun(self, system: System) -> int:
        return int(system.epoch.owner.removeprefix("owner-"))

    def abort(self, system: System) -> None:
        if system.records:
            del system.records[self.dice.choice([*system.records])]

    def publish(self, system: System) -> None:
        if system.work is not None:
            try:
                with self.faults(0.2):
                    system.work()
            except ConnectionError:
                return
            system.work = None

    def death(self, system: System) -> None:
        snapshot, again, takeover = system.way_back()
        self.begin(system, snapshot, again, takeover=takeover)

    def finish(self) -> None:
        """The network is well again: each system takes one more snapshot, and publishes it."""
        self.is_well = True
        for system in self.systems:
            while system.down:
                self.death(system)
            if not system.runs or system.life is None:
                continue
            try:
                system.records.clear()
                for _ in range(2):
                    if system.work is not None:
                        system.work()
                    system.work = system.life.commit(system.life.record())
                if system.work is not None:
                    system.work()
            except OutsideConflict as conflict:
                self.stop(system, conflict)
        self.judge()

    def judge(self) -> None:
        seen = Counter(row["n"] for row in self.table.rows)
        for system in self.systems:
            if system.runs and system.life is not None:
                lost = [row for row in system.life.sink.taken if not seen[row]]  # type: ignore[attr-defined]
                if lost:
                    raise Wrong(f"{system.run} has lost {lost}")
        if twice := {row: times for row, times in seen.items() if times > self.allowed[row]}:
            raise Wrong(f"too often: {twice}")


def play(seed: int, steps: int = 120) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.finish()
    return world
