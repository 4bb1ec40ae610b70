"""A recorded state that does not load aborts its snapshot in the simulator, as it does on Ray."""

import pytest

from rayshot.errors import ScheduleFailed, SnapshotAborted, StateNotSerializable
from rayshot.model.actor_class import actor
from rayshot.proving.prover import Prover
from rayshot.simulation import SimulatedSystem, explore
from tests.proving import kinds

pytestmark = pytest.mark.acceptance("S2")
WHY = r"does_not_load: holder\['state'\]\['value'\] was recorded, but cannot be loaded again"


class Holder:
    """Holds one value."""

    def __init__(self):
        self.value = None

    def make(self, kind, *args):
        """Hold a new object of this class of `kinds`."""
        self.value = getattr(kinds, kind)(*args)


def world_with(of=Holder, **options):
    world = SimulatedSystem(snapshots=0, **options)
    return world, world.create(of, name="holder")


def make(world, holder, *args):
    holder.make.tell(*args)
    world.run()


def test_a_state_that_does_not_load_aborts_its_snapshot_by_name_and_all_go_on():
    world, holder = world_with()
    make(world, holder, "Registered", "one")
    with pytest.raises(SnapshotAborted, match=WHY + ", so a restore would fail: KeyError: 'one'"):
        world.snapshot()
    assert not world.snapshots
    make(world, holder, "Plain")
    assert world.snapshot().state("holder")["value"] is not None


def test_a_value_that_does_not_load_is_found_by_a_sample_and_each_time_behind_it():
    world, holder = world_with()
    make(world, holder, "Fussy", 1)
    world.snapshot()
    make(world, holder, "Fussy", -1)
    for _ in range(2):
        with pytest.raises(SnapshotAborted, match=WHY):
            world.snapshot()


def scenario(world):
    world.create(Holder, name="holder").make.tell("Registered", "one")


def test_a_planned_snapshot_is_aborted_too_and_the_run_says_so_at_its_end():
    world = SimulatedSystem(snapshots=1, choices=[3, 255])  # when nothing else is left
    scenario(world)
    with pytest.raises(StateNotSerializable, match="KeyError: 'one'"):
        world.run()
    (why,) = world.aborted.values()
    assert why.startswith("does_not_load")
    assert world.run() == 0


def test_an_exploration_finds_it_with_choices_that_find_it_again():
    with pytest.raises(ScheduleFailed, match="KeyError: 'one'") as found:
        explore(scenario, schedules=20, snapshots=1)
    world = SimulatedSystem(choices=found.value.evidence["choices"], snapshots=1)
    scenario(world)
    with pytest.raises(StateNotSerializable):
        world.run()


def test_what_is_not_to_be_proved_or_is_plain_has_no_trial(monkeypatch):
    monkeypatch.setattr(Prover, "ask", None)
    world, _ = world_with()
    assert world.snapshot().states() == {"holder": {"value": None}}
    world, holder = world_with(actor(prove=False)(Holder))
    make(world, holder, "Registered", "one")
    assert world.snapshot()


def test_a_process_that_moves_gets_a_prover_where_it_is(monkeypatch, tmp_path):
    world, holder = world_with()
    make(world, holder, "Plain")
    world.snapshot()
    monkeypatch.chdir(tmp_path)
    make(world, holder, "Fussy", 1)
    assert world.snapshot()
