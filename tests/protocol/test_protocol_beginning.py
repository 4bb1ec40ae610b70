"""How a life begins: a person begins it, a program makes its first actors, or it is restored."""

import pytest

from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.recovery import HOPELESS_STARTS_MAX, Phase, Recovery
from rayshot.protocol.recovery_events import (
    Began,
    BeginLife,
    CommitWritten,
    LifeFenced,
    LifeMarked,
    LoadProcess,
    LoadRefused,
    MarkLife,
    MarkRefused,
    PatienceOver,
    ProcessLoaded,
    ProcessLost,
    RecoveryPolicy,
    RestoreWanted,
    ResumeLife,
    SavepointStored,
    StarterDied,
    StopHandlers,
    StopSystem,
)
from tests.protocol.running import NEVER_BACK, running, tell


def lost(life: int = 1, start: int = 1, *, hopeless: bool = False) -> ProcessLost:
    return ProcessLost(life, "bob", start, "bob died", 1000.0, hopeless)


def restoring(policy: RecoveryPolicy | None = None) -> Recovery:
    machine = Recovery(3, policy or RecoveryPolicy())
    tell(machine, RestoreWanted(3, ("alice", "bob")))
    return machine


def test_a_life_that_a_program_begins_runs_with_its_first_commit() -> None:
    machine = Recovery(1)
    tell(machine, Began(1, waits_for_commit=True))
    assert machine.phase is Phase.BEGINNING
    tell(machine, CommitWritten(1))
    assert machine.phase is Phase.RUNNING
    assert tell(machine, lost()) == (StopHandlers(1, "bob"), BeginLife(1, "bob", "bob died"))


@pytest.mark.parametrize("begins", [True, False], ids=["beginning", "new"])
def test_a_life_ends_with_the_program_that_was_starting_it(begins: bool) -> None:
    machine = Recovery(1)
    if begins:
        tell(machine, Began(1, waits_for_commit=True))
    assert tell(machine, StarterDied(1, "its program died")) == (StopSystem(None, "its program died"),)


def test_a_process_that_is_lost_before_the_first_commit_is_the_end() -> None:
    machine = Recovery(1)
    tell(machine, Began(1, waits_for_commit=True))
    assert tell(machine, lost()) == (StopSystem("bob", "bob died"),)


def test_a_restore_is_steps_three_to_five_of_a_rollback_and_survives_its_program() -> None:
    machine = Recovery(3)
    loads = tell(machine, RestoreWanted(3, ("alice", "bob")))
    assert loads == (LoadProcess(3, "alice", 1), LoadProcess(3, "bob", 1))
    assert machine.restores
    assert tell(machine, StarterDied(3, "its program died")) == ()
    assert tell(machine, ProcessLoaded(3, "alice", 1), ProcessLoaded(3, "bob", 1)) == (MarkLife(3),)
    assert tell(machine, LifeMarked(3)) == (ResumeLife(3),)
    assert (machine.phase, machine.restores) == (Phase.RUNNING, False)


def test_a_restore_of_no_process_is_marked_at_once() -> None:
    assert tell(Recovery(3), RestoreWanted(3, ())) == (MarkLife(3),)


def test_a_process_that_is_lost_while_it_is_restored_is_loaded_again() -> None:
    machine = restoring(NEVER_BACK)
    assert tell(machine, lost(3)) == (LoadProcess(3, "bob", 2),)


def test_a_restore_fails_with_a_state_that_does_not_load() -> None:
    machine = restoring()
    for start in range(1, HOPELESS_STARTS_MAX):
        assert tell(machine, lost(3, start, hopeless=True)) == (LoadProcess(3, "bob", start + 1),)
    effects = tell(machine, lost(3, HOPELESS_STARTS_MAX, hopeless=True))
    assert effects == (StopSystem("bob", "bob died"),)


def test_a_restore_fails_at_once_where_a_rollback_would_try_again() -> None:
    effects = tell(restoring(), LoadRefused(3, "bob", 1, "the storage is away"))
    assert effects == (StopSystem("bob", "the storage is away"),)


def test_a_restore_whose_mark_is_refused_fails_too() -> None:
    machine = restoring()
    tell(machine, ProcessLoaded(3, "alice", 1), ProcessLoaded(3, "bob", 1))
    assert tell(machine, MarkRefused(3, "nobody answers")) == (StopSystem(None, "nobody answers"),)


def test_the_patience_with_a_restore_is_over_once() -> None:
    over = PatienceOver(3, "there is no room for bob")
    assert tell(restoring(), over) == (StopSystem(None, "there is no room for bob"),)
    machine = restoring()
    loaded = ProcessLoaded(3, "alice", 1), ProcessLoaded(3, "bob", 1)
    assert tell(machine, *loaded, over) == ()
    assert tell(machine, LifeMarked(3)) == (ResumeLife(3),)


@pytest.mark.parametrize("policy", [NEVER_BACK, RecoveryPolicy()], ids=["stops", "heals"])
def test_a_loss_while_a_restore_is_marked_ends_the_life(policy: RecoveryPolicy) -> None:
    machine = restoring(policy)
    tell(machine, ProcessLoaded(3, "alice", 1), ProcessLoaded(3, "bob", 1))
    effects = tell(machine, lost(3))
    goes_back = (StopHandlers(3, "bob"), BeginLife(3, "bob", "bob died"))
    assert effects == ((StopSystem("bob", "bob died"),) if policy is NEVER_BACK else goes_back)


@pytest.mark.parametrize("policy", [NEVER_BACK, RecoveryPolicy()], ids=["stops", "heals"])
@pytest.mark.parametrize("dies", [False, True], ids=["all live", "one dies"])
def test_a_savepoint_is_why_a_system_stopped_also_if_a_process_died_meanwhile(
    policy: RecoveryPolicy, dies: bool
) -> None:
    savepoint, machine = SnapshotId(1, COORDINATOR, 7), running(1, policy)
    if dies:
        tell(machine, lost())
    (stop,) = tell(machine, SavepointStored(1, savepoint))
    assert stop == StopSystem(None, f"it was stopped with the savepoint {savepoint}", savepoint)
    assert machine.phase is Phase.STOPPED
    assert tell(machine, SavepointStored(2, savepoint)) == ()


def test_a_life_whose_storage_is_anothers_stops_but_its_own_rollback_fences_it_too() -> None:
    assert tell(running(1), LifeFenced(1, "life 2 has it")) == (StopSystem(None, "life 2 has it"),)
    machine = running(1)
    tell(machine, lost())
    assert tell(machine, LifeFenced(1, "life 2 has it")) == ()
