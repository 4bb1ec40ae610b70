"""The decisions of recovery, one at a time; seeded worlds judge them together."""

import pytest

from rayshot.protocol.recovery import (
    LOG_PAUSE_MAX_S,
    STARTS_AT_ONCE,
    STARTS_MAX,
    BeginLife,
    CommitWritten,
    LifeBegan,
    LifeMarked,
    LoadProcess,
    LogRefused,
    MarkLife,
    NoWayBack,
    Pause,
    PauseOver,
    Phase,
    ProcessLoaded,
    ProcessLost,
    Recovery,
    RecoveryEffect,
    RecoveryEvent,
    RecoveryPolicy,
    ResumeLife,
    StopHandlers,
    StopSystem,
    StopWanted,
    TookOver,
)

AT = 1000.0


def lost(process: str = "bob", life: int = 1, start: int = 1, at: float = AT, *, hopeless: bool = False) -> ProcessLost:
    return ProcessLost(life, process, start, f"{process} died", at, hopeless)


def began(life: int = 2, *processes: str, rollbacks: tuple[float, ...] = (AT,), fruitless: int = 1) -> LifeBegan:
    return LifeBegan(life, processes or ("alice", "bob"), rollbacks, fruitless)


def tell(machine: Recovery, *events: RecoveryEvent) -> tuple[RecoveryEffect, ...]:
    """The effects of the last of these events."""
    effects: tuple[RecoveryEffect, ...] = ()
    for event in events:
        effects = machine.handle(event)
        machine.validate()
    return effects


def loading(policy: RecoveryPolicy | None = None, *processes: str) -> Recovery:
    machine = Recovery(1, policy or RecoveryPolicy())
    tell(machine, lost(), began(2, *processes))
    return machine


def test_the_five_steps_of_a_rollback() -> None:
    machine = Recovery(1)
    assert tell(machine, lost()) == (StopHandlers(1), BeginLife(1, "bob", "bob died"))
    assert (machine.phase, machine.detail) == (Phase.WAITING, "bob died")
    assert tell(machine, began()) == (LoadProcess(2, "alice", 1), LoadProcess(2, "bob", 1))
    assert tell(machine, ProcessLoaded(2, "bob", 1)) == ()
    assert machine.waiting == ("alice",)
    assert tell(machine, ProcessLoaded(2, "alice", 1)) == (MarkLife(2),)
    assert tell(machine, LifeMarked(2)) == (ResumeLife(2),)
    assert (machine.phase, machine.life, machine.detail) == (Phase.RUNNING, 2, "")


def test_a_cut_without_processes_is_loaded_at_once() -> None:
    assert tell(Recovery(1), lost(), LifeBegan(2, (), (AT,), 1)) == (MarkLife(2),)


def test_losses_of_an_older_life_or_an_earlier_start_count_for_nothing() -> None:
    machine = loading()
    assert tell(machine, lost(life=1)) == ()
    assert tell(machine, lost(life=2)) == (LoadProcess(2, "bob", 2),)
    assert tell(machine, lost(life=2)) == (), "the same loss was reported twice"
    assert tell(machine, ProcessLoaded(2, "bob", 1), ProcessLoaded(2, "alice", 1)) == (), "the first start was loaded"
    assert tell(machine, ProcessLoaded(2, "bob", 2)) == (MarkLife(2),)
    tell(machine, LifeMarked(2))
    assert tell(machine, lost(life=2, start=1)) == ()
    assert tell(machine, lost(life=2, start=2, at=AT + 999)) == (StopHandlers(2), BeginLife(2, "bob", "bob died"))


def test_several_losses_at_once_are_one_rollback() -> None:
    machine = Recovery(1)
    tell(machine, lost("bob"))
    assert tell(machine, lost("alice")) == ()
    assert tell(machine, began()) == (LoadProcess(2, "alice", 1), LoadProcess(2, "bob", 1))


def test_a_process_that_is_lost_after_it_was_loaded_is_loaded_again_in_the_same_life() -> None:
    machine = loading()
    tell(machine, ProcessLoaded(2, "bob", 1))
    assert tell(machine, lost(life=2)) == (LoadProcess(2, "bob", 2),)
    assert machine.waiting == ("alice", "bob")


def test_a_loss_while_the_mark_is_written_ends_the_life() -> None:
    machine = loading(None, "bob")
    tell(machine, ProcessLoaded(2, "bob", 1))
    effects = tell(machine, lost(life=2))
    assert effects == (StopHandlers(2), Pause(1, 1.0))
    assert tell(machine, LifeMarked(2)) == ()
    assert tell(machine, PauseOver(1)) == (BeginLife(2, "bob", "bob died"),)


def test_starts_of_one_process_follow_each_other_with_pauses_and_end() -> None:
    machine = loading(None, "bob")
    for start in range(1, STARTS_MAX):
        effects = tell(machine, lost(life=2, start=start))
        if start >= STARTS_AT_ONCE:
            (pause,) = effects
            assert isinstance(pause, Pause)
            assert machine.trouble == "bob died"
            effects = tell(machine, PauseOver(pause.number))
        assert effects == (LoadProcess(2, "bob", start + 1),)
    assert tell(machine, lost(life=2, start=STARTS_MAX)) == (StopSystem("bob", "bob died"),)


def test_a_state_that_does_not_load_stops_the_system() -> None:
    assert tell(loading(), lost(life=2, hopeless=True)) == (StopSystem("bob", "bob died"),)


def test_a_log_that_cannot_be_reached_is_asked_again_after_longer_and_longer_pauses() -> None:
    machine = Recovery(1)
    tell(machine, lost())
    pauses = []
    for number in range(1, 9):
        (pause,) = tell(machine, LogRefused("the storage is away"))
        assert isinstance(pause, Pause)
        pauses.append(pause.seconds)
        assert machine.trouble == "the storage is away"
        assert tell(machine, PauseOver(number)) == (BeginLife(1, "bob", "bob died"),)
    assert pauses == [1, 2, 4, 8, 16, *[LOG_PAUSE_MAX_S] * 3]
    tell(machine, began())
    assert machine.trouble == ""


def test_a_pause_that_was_replaced_starts_nothing() -> None:
    machine = Recovery(1)
    tell(machine, lost(), LogRefused("away"), PauseOver(1), LogRefused("away"))
    assert tell(machine, PauseOver(1)) == ()


def test_without_a_way_back_the_system_stops() -> None:
    machine = Recovery(1)
    tell(machine, lost())
    assert tell(machine, NoWayBack("the snapshot was deleted")) == (StopSystem(None, "the snapshot was deleted"),)
    assert tell(machine, began()) == ()


@pytest.mark.parametrize("phase", ["running", "waiting", "loading", "marking"])
def test_a_stop_is_the_end_in_every_phase(phase: str) -> None:
    machine = Recovery(1)
    story = [lost(), began(2, "bob"), ProcessLoaded(2, "bob", 1)]
    tell(machine, *story[: ["running", "waiting", "loading", "marking"].index(phase)])
    assert tell(machine, StopWanted("a person stops it")) == ()
    assert (machine.phase, machine.detail) == (Phase.STOPPED, "a person stops it")
    assert tell(machine, *story, LifeMarked(2), PauseOver(1), TookOver(3, False, (), AT)) == ()


def test_lives_that_commit_nothing_end_the_system_and_a_commit_counts_anew() -> None:
    def fall(machine: Recovery, life: int, fruitless: int) -> tuple[RecoveryEffect, ...]:
        tell(machine, began(life, "bob", fruitless=fruitless), ProcessLoaded(life, "bob", 1), LifeMarked(life))
        return tell(machine, lost(life=life, at=AT + 999 * life))

    machine = Recovery(1, RecoveryPolicy(fruitless_max=3))
    tell(machine, lost())
    assert isinstance(fall(machine, 2, 1)[-1], BeginLife)
    assert isinstance(fall(machine, 3, 2)[-1], BeginLife)
    tell(machine, CommitWritten(2))
    (stop,) = fall(machine, 4, 3)
    assert stop == StopSystem(
        "bob", "bob died; the last 3 lives committed no snapshot, so the next one would not either"
    )
    machine = Recovery(1, RecoveryPolicy(fruitless_max=1))
    tell(machine, lost(), began(2, "bob"), ProcessLoaded(2, "bob", 1), LifeMarked(2), CommitWritten(2))
    assert isinstance(tell(machine, lost(life=2, at=AT + 999))[-1], BeginLife)


@pytest.mark.parametrize("most", [0, 1])
def test_a_system_goes_back_at_most_as_often_as_it_may(most: int) -> None:
    machine = Recovery(1, RecoveryPolicy(failures_max=most))
    if most:
        tell(machine, lost(), began(2, "bob"), ProcessLoaded(2, "bob", 1), LifeMarked(2), CommitWritten(2))
    (stop,) = tell(machine, lost(life=machine.life))
    assert stop == StopSystem("bob", f"bob died; the system has gone back {most} times, the most that it may")


def test_who_takes_over_goes_on_where_all_run() -> None:
    machine = Recovery(4)
    assert tell(machine, TookOver(4, marked=True, lost=(), at=AT)) == ()
    assert machine.phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("event", "begin"),
    [
        (TookOver(4, False, (), AT), BeginLife(4, None, "the coordinator died while it went back")),
        (TookOver(4, True, ("bob", "x"), AT), BeginLife(4, "bob", "it was lost while nobody coordinated")),
        (TookOver(4, False, ("bob",), AT), BeginLife(4, "bob", "it was lost while nobody coordinated")),
    ],
)
def test_who_takes_over_a_life_that_does_not_run_begins_the_next(event: TookOver, begin: BeginLife) -> None:
    assert tell(Recovery(4), event) == (StopHandlers(4), begin)


def test_who_takes_over_goes_on_counting() -> None:
    took_over = TookOver(4, False, (), AT, rollbacks=(AT - 3, AT - 2, AT - 1), fruitless=3)
    (stop,) = tell(Recovery(4), took_over)
    assert isinstance(stop, StopSystem)
    assert tell(Recovery(4, RecoveryPolicy(fruitless_max=9)), took_over)[-1] == Pause(1, 4.0)


@pytest.mark.parametrize(
    ("rollbacks", "seconds"),
    [
        ((), 0),
        ((AT - 61,), 0),
        ((AT - 60,), 0),
        ((AT - 59,), 1),
        ((AT - 100, AT - 50), 2),
        ((AT - 500, AT - 100, AT - 50), 2),
        (tuple(AT - 10 * k for k in range(9, 0, -1)), 60),
        (tuple(AT - k for k in range(5000, 0, -1)), 60),
        ((AT + 5,), 1),
    ],
)
def test_pauses_grow_until_the_system_was_stable_for_a_while(rollbacks: tuple[float, ...], seconds: float) -> None:
    assert RecoveryPolicy().pause(rollbacks, AT) == seconds


def test_a_fixed_pause_has_the_factor_one() -> None:
    policy = RecoveryPolicy(pause_s=3, pause_factor=1)
    assert policy.pause(tuple(AT - k for k in range(5000, 0, -1)), AT) == 3


@pytest.mark.parametrize(
    "impossible",
    [
        lambda: lost(life=0),
        lambda: lost(start=0),
        lambda: LifeBegan(1, (), (), 1),
        lambda: LifeBegan(2, (), (), 0),
        lambda: RecoveryPolicy(failures_max=-1),
        lambda: RecoveryPolicy(fruitless_max=0),
        lambda: RecoveryPolicy(pause_s=-1),
        lambda: RecoveryPolicy(pause_factor=0.5),
    ],
)
def test_what_cannot_be_is_refused(impossible: object) -> None:
    with pytest.raises(AssertionError, match="is "):
        impossible()  # type: ignore[operator]
