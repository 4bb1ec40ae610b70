"""An engine, a trainer and a working tree come back with their actors, whoever is killed and whenever."""

import contextlib
import os
import signal

import pytest
import ray

import rayshot
from examples.holders import engine as engines
from examples.holders import sandbox as sandboxes
from examples.holders import trainer as trainers
from examples.holders.deaths import ask, kill
from examples.holders.engine_server import Engine as Server
from examples.holders.engine_server import Refused
from rayshot.errors import SnapshotAborted, SystemRecovering
from rayshot.runtime.door import failpoints
from tests.runtime.healed import HEALS
from tests.waiting import eventually

pytestmark = pytest.mark.ray

AT_ONCE, AWHILE_S = 25, 60
SNAPSHOTS = rayshot.SnapshotConfig()


class Holder:
    """One of the three: its actor works a bit more where a test says so, and says whether what is outside agrees."""

    def __init__(self, folder):
        self.folder, self.goal = folder, 0

    def begin(self):
        """Make the actor."""

    def work(self, system):
        """More is to be done; returns the actor."""
        self.goal += AT_ONCE
        return system.get_actor(self.name)

    def kill_outside(self, actor):
        """Kill what the actor holds, if that can die by itself."""

    def agrees(self, system):
        """All is done, and outside there is just that."""
        actor = system.get_actor(self.name)
        return ask(actor.progress) == self.goal and self.is_right(actor)

    def end(self):
        """Leave nothing."""


class Engine(Holder):
    name, files = "asker", ["engine.json"]

    def begin(self):
        self.engine = engines.EngineProcess(f"{self.folder}/engine")
        engines.begin(self.engine.address)

    def work(self, system):
        asker = super().work(system)
        for number in range(self.goal - AT_ONCE, self.goal):
            asker.ask.tell(f"prompt {number}")

    def kill_outside(self, actor):
        self.engine.kill()
        self.engine.begin()

    def is_right(self, asker):
        return ask(asker.read) == engines.answers_of_another_engine(self.goal, f"{self.folder}/other") and ask(
            asker.agrees
        )

    def end(self):
        self.engine.kill()


class Trainer(Holder):
    name, files = "lead", ["rank0.npz", "rank1.npz"]

    def begin(self):
        trainers.begin(None)

    def work(self, system):
        super().work(system).train.tell(self.goal)

    def kill_outside(self, lead):
        os.kill(ask(lead.processes)[-1], signal.SIGKILL)

    def is_right(self, lead):
        return ask(lead.looks) == [(self.goal, trainers.undisturbed(self.goal))] * trainers.RANKS


class Sandbox(Holder):
    name, files = "sandbox", ["tree.bundle"]

    def begin(self):
        sandboxes.Sandbox.options(name="sandbox").remote(f"{self.folder}/trees")

    def work(self, system):
        sandbox = super().work(system)
        for _ in range(AT_ONCE):
            sandbox.edit.tell()

    def is_right(self, sandbox):
        return ask(sandbox.agrees)


HOLDERS = pytest.mark.parametrize("holder", [Engine, Trainer, Sandbox], indirect=True)


def in_process_of(system, name):
    """The handle of what runs in the process of an actor."""
    return ray.get(system._identity.coordinator.actors.remote())[name]


def kill_actor(system, holder):
    kill(system, holder.name)


def kill_coordinator(system, _holder):
    pid = ray.get(system._identity.coordinator.__ray_call__.remote(lambda _: os.getpid()))
    os.kill(pid, signal.SIGKILL)


def kill_outside(system, holder):
    holder.kill_outside(system.get_actor(holder.name))


def kill_both(system, holder):
    kill_coordinator(system, holder)
    kill_actor(system, holder)


def kill_at(place):
    def kill_there(system, holder):
        process = in_process_of(system, holder.name)
        ray.get(process.__ray_call__.remote(lambda _: failpoints._table.update({place: 1})))
        with contextlib.suppress(SnapshotAborted, SystemRecovering):
            system.snapshot()

    kill_there.__name__ = f"kill_{place}"
    return kill_there


DEATHS = (
    kill_actor,
    kill_at("before_outside_sealed"),
    kill_coordinator,
    kill_outside,
    kill_at("after_on_snapshot"),
    kill_both,
)


@pytest.fixture
def holder(request, tmp_path, cluster):
    holder = request.param(tmp_path)
    yield holder
    holder.end()


def goes_on(system, holder):
    """It does more, and two snapshots of this life hold that: a message that was handled twice is no poison then."""
    holder.work(system)
    eventually(lambda: holder.agrees(system), AWHILE_S)
    for _ in range(2):
        taken = system.snapshot()
    outside = taken.outside[holder.name]
    assert [file.path for file in outside.files] == holder.files
    return outside


@HOLDERS
def test_an_actor_killed_in_the_middle_of_its_write_has_what_is_outside_where_it_is_itself(holder, tmp_path):
    with rayshot.init("holds", storage=tmp_path / "shots", failure=HEALS, snapshots=SNAPSHOTS) as system:
        holder.begin()
        system.snapshot()
        goes_on(system, holder)
        holder.work(system)
        kill_at("before_outside_sealed")(system, holder)
        goes_on(system, holder)
        holder.work(system)  # what is behind the last snapshot is undone
    holder.goal -= AT_ONCE
    with rayshot.restore(storage=tmp_path / "shots", failure=HEALS, snapshots=SNAPSHOTS) as system:
        eventually(lambda: holder.agrees(system), AWHILE_S)
        goes_on(system, holder)


@pytest.mark.wide("six deaths, twice")
@HOLDERS
def test_whoever_dies_and_whenever_what_is_outside_goes_back_with_its_actor(holder, tmp_path):
    roots = {"storage": tmp_path / "shots", "files": tmp_path / "files"}
    often = rayshot.SnapshotConfig(interval_s=0.3)
    with rayshot.init("holds", **roots, failure=HEALS, snapshots=often) as system:
        holder.begin()
        for death in DEATHS * 2:
            goes_on(system, holder)
            holder.work(system)
            death(system, holder)
            holder.work(system)
            eventually(lambda: holder.agrees(system), AWHILE_S)
        outside = goes_on(system, holder)
        assert outside.folder.startswith(str(roots["files"]))
        system.snapshots()[-1].verify()
    with rayshot.restore(**roots, failure=HEALS, snapshots=often) as system:
        eventually(lambda: holder.agrees(system), AWHILE_S)
        goes_on(system, holder)


def test_an_engine_refuses_the_life_before():
    engine = Server()
    old, new, other = ["run", 1, "a"], ["run", 2, "b"], ["another run", 9, "c"]
    with pytest.raises(Refused, match="does not hold the engine"):
        engine.obey("/generate", old, prompt="nobody holds it yet")
    engine.obey("/restore", old, path=None)
    engine.obey("/generate", old, prompt="1")
    engine.obey("/restore", new, path=None)
    for late in ("/generate", "/fix", "/look"):
        with pytest.raises(Refused):
            engine.obey(late, old)
    for token in (old, ["run", 2, "a"], other):
        with pytest.raises(Refused, match="may not take"):
            engine.obey("/restore", token, path=None)
    engine.obey("/restore", other, path=None, takeover=True)
