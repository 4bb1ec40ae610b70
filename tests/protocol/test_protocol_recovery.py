"""The decisions of recovery, one at a time; seeded worlds judge them together."""

from dataclasses import replace
from itertools import permutations, product

import pytest

from rayshot.protocol.effects import HoldBatch, SendBatch
from rayshot.protocol.events import BatchAcknowledged, BatchArrived, BatchTaken, ReceiverReady, Restored
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.protocol.recovery import RETRY_PAUSE_MAX_S, STARTS_AT_ONCE, STARTS_MAX, Phase, Recovery
from rayshot.protocol.recovery_events import (
    ActedInVain,
    BeginLife,
    CommitWritten,
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
    StopWanted,
    TookOver,
)
from tests.protocol.running import NEVER_BACK, running, tell

AT = 1000.0
SAVEPOINT = SnapshotId(4, COORDINATOR, 7)


def lost(process: str = "bob", life: int = 1, start: int = 1, at: float = AT, *, hopeless: bool = False) -> ProcessLost:
    return ProcessLost(life, process, start, f"{process} died", at, hopeless)


def began(life: int = 2, *processes: str, past: Past | None = None) -> LifeBegan:
    return LifeBegan(life, processes or ("alice", "bob"), past or Past().rolled_back(AT, "bob"))


def loading(policy: RecoveryPolicy | None = None, *processes: str) -> Recovery:
    machine = running(1, policy or RecoveryPolicy())
    tell(machine, lost(), began(2, *processes))
    return machine


def test_the_five_steps_of_a_rollback() -> None:
    machine = running(1)
    assert tell(machine, lost()) == (StopHandlers(1, "bob"), BeginLife(1, "bob", "bob died"))
    assert (machine.phase, machine.detail) == (Phase.WAITING, "bob died")
    assert tell(machine, began()) == (LoadProcess(2, "alice", 1), LoadProcess(2, "bob", 1))
    assert tell(machine, ProcessLoaded(2, "bob", 1)) == ()
    assert machine.waiting == ("alice",)
    assert tell(machine, ProcessLoaded(2, "alice", 1)) == (MarkLife(2),)
    assert tell(machine, LifeMarked(2)) == (ResumeLife(2),)
    assert (machine.phase, machine.life, machine.detail) == (Phase.RUNNING, 2, "")


def test_a_cut_without_processes_is_loaded_at_once() -> None:
    assert tell(running(1), lost(), LifeBegan(2, (), Past().rolled_back(AT, "bob"))) == (MarkLife(2),)


def test_losses_of_an_older_life_or_an_earlier_start_count_for_nothing() -> None:
    machine = loading()
    assert tell(machine, lost(life=1)) == ()
    assert tell(machine, lost(life=2)) == (LoadProcess(2, "bob", 2),)
    assert tell(machine, lost(life=2)) == (), "the same loss was reported twice"
    assert tell(machine, ProcessLoaded(2, "bob", 1), ProcessLoaded(2, "alice", 1)) == (), "the first start was loaded"
    assert tell(machine, ProcessLoaded(2, "bob", 2)) == (MarkLife(2),)
    tell(machine, LifeMarked(2))
    assert tell(machine, lost(life=2, start=1)) == ()
    assert tell(machine, lost(life=2, start=2, at=AT + 999)) == (
        StopHandlers(2, "bob"),
        BeginLife(2, "bob", "bob died"),
    )


def test_several_losses_at_once_are_one_rollback() -> None:
    machine = running(1)
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
    stop, pause = tell(machine, lost(life=2))
    assert isinstance(pause, Pause)
    assert (stop, pause.seconds) == (StopHandlers(2, "bob"), 1.0)
    assert tell(machine, LifeMarked(2)) == ()
    assert tell(machine, PauseOver(pause.number)) == (BeginLife(2, "bob", "bob died"),)


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
    assert tell(machine, lost(life=2, start=STARTS_MAX)) == (StopSystem("bob", "bob died; bob died"),)


@pytest.mark.acceptance("S3", "S4")
def test_a_state_that_does_not_load_twice_stops_the_system_for_the_sake_of_who_died_before() -> None:
    for one in ("alice", "bob"):
        machine = loading()
        damaged = ProcessLost(2, one, 1, f"{one} cannot be loaded", 20.0, hopeless=True)
        assert tell(machine, damaged) == (LoadProcess(2, one, 2),)
        assert tell(machine, replace(damaged, start=2)) == (StopSystem("bob", f"bob died; {one} cannot be loaded"),)


def test_a_log_that_cannot_be_reached_is_asked_again_after_longer_and_longer_pauses() -> None:
    machine = running(1)
    tell(machine, lost())
    pauses = []
    for _ in range(8):
        (pause,) = tell(machine, LogRefused("the storage is away"))
        assert isinstance(pause, Pause)
        pauses.append(pause.seconds)
        assert machine.trouble == "the storage is away"
        assert tell(machine, PauseOver(pause.number)) == (BeginLife(1, "bob", "bob died"),)
    assert pauses == [1, 2, 4, 8, 16, *[RETRY_PAUSE_MAX_S] * 3]
    tell(machine, began())
    assert machine.trouble == ""


def test_a_pause_that_was_replaced_starts_nothing() -> None:
    machine = running(1)
    (first,) = tell(machine, lost(), LogRefused("away"))
    assert isinstance(first, Pause)
    tell(machine, PauseOver(first.number), LogRefused("away"))
    assert tell(machine, PauseOver(first.number)) == ()


def test_without_a_way_back_the_system_stops() -> None:
    machine = running(1)
    tell(machine, lost())
    assert tell(machine, NoRollback("the snapshot was deleted")) == (StopSystem(None, "the snapshot was deleted"),)
    assert tell(machine, began()) == ()


@pytest.mark.parametrize("phase", ["running", "waiting", "loading", "marking"])
def test_a_stop_is_the_end_in_every_phase(phase: str) -> None:
    machine = running(1)
    story: list[RecoveryEvent] = [lost(), began(2, "bob"), ProcessLoaded(2, "bob", 1)]
    tell(machine, *story[: ["running", "waiting", "loading", "marking"].index(phase)])
    assert tell(machine, StopWanted("a person stops it")) == (StopSystem(None, "a person stops it"),)
    assert (machine.phase, machine.detail) == (Phase.STOPPED, "a person stops it")
    assert tell(machine, *story, LifeMarked(2), PauseOver(1), TookOver(3, False, (), AT)) == ()


def after(*losses: str | None, commits: int = 0, every_s: float = 1.0) -> Past:
    """What the log says behind these losses; each life behind them had so many commits."""
    past, began_at = Past(), AT - every_s * len(losses)
    for number, process in enumerate(losses):
        past = past.rolled_back(began_at + every_s * number, process)
        for _ in range(commits):
            past = past.committed()
    return past


def run_and_lose(past: Past, process: str = "bob", at: float = AT + 999) -> tuple[RecoveryEffect, ...]:
    """A life behind such a past, as far as the log is read, commits as often as that says, and then loses a process."""
    machine = running(1)
    tell(machine, lost(), began(2, "bob", past=replace(past, commits=0)), ProcessLoaded(2, "bob", 1), LifeMarked(2))
    tell(machine, *[CommitWritten(2)] * past.commits, CommitWritten(1))
    return tell(machine, lost(process, life=2, at=at))


@pytest.mark.acceptance("P1")
@pytest.mark.parametrize(
    ("losses", "commits", "process", "stops"),
    [
        (["bob"] * 2, 0, "bob", False),
        (["bob"] * 3, 0, "bob", True),
        (["bob"] * 3, 0, "alice", False),
        (["bob"] * 3, 1, "bob", True),
        (["bob"] * 3, 1, "alice", False),
        (["bob"] * 3, 2, "bob", False),
        (["alice", "bob", "carol"], 0, "dave", False),
        (["alice", "bob"] * 3, 0, "alice", True),
        (["alice", "bob"] * 9, 1, "alice", False),
        (["bob", None] * 3, 0, "bob", True),
        ([f"one of {number}" for number in range(96)], 0, "another", True),
        ([f"one of {number}" for number in range(95)], 0, "another", False),
    ],
)
def test_rollbacks_that_lead_nowhere_for_one_process_end_the_system(
    losses: list[str | None], commits: int, process: str, *, stops: bool
) -> None:
    effects = run_and_lose(after(*losses, commits=commits), process)
    if stops:
        (stop,) = effects
        assert isinstance(stop, StopSystem)
        assert stop.process == process
        assert f"{process} died; going back {len(losses) if len(losses) > 90 else 3} times led nowhere" in stop.detail
    else:
        assert effects == (StopHandlers(2, process), BeginLife(2, process, f"{process} died"))


def test_the_past_counts_what_leads_nowhere() -> None:
    past = after("bob", "bob")
    assert (past.rollbacks, past.losses, past.led_nowhere("bob"), past.led_nowhere("alice")) == (2, {"bob": 2}, 2, 0)
    both = past.rolled_back(2.0, "alice")
    assert (both.led_nowhere("bob"), both.led_nowhere("alice")) == (2, 1), "without a commit both may have one cause"
    once, twice = past.committed(), past.committed().committed()
    assert once.rolled_back(2.0, "bob").led_nowhere("bob") == 3, "the one snapshot may be from before the fatal message"
    other = once.rolled_back(2.0, "alice")
    assert (other.led_nowhere("bob"), other.losses) == (0, {"bob": 2, "alice": 1}), "they may die by turns"
    assert twice.losses == {}
    assert twice.rolled_back(2.0, "bob") == Past(3, {"bob": (2.0,)}, {"bob": 1})
    assert twice.committed() == twice
    late = past.rolled_back(2.0, None)
    assert (late.losses, late.led_nowhere("bob")) == ({"bob": 2}, 2), "the death of a coordinator does not count"
    assert twice.rolled_back(2.0, None) == Past(3, {None: (2.0,)}, {})


@pytest.mark.acceptance("P1")
@pytest.mark.parametrize(
    ("past", "process", "seconds"),
    [
        (after("bob", every_s=10.0), "bob", 1),
        (after("bob", "bob", "bob", every_s=10.0), "bob", 4),
        (after("bob", "bob", "bob", commits=1, every_s=10.0), "bob", 4),
        (after("bob", "bob", "bob", commits=2, every_s=10.0), "bob", 0),
        (after(*["bob"] * 50, commits=2, every_s=2.0), "bob", 0),
        (after("alice", "carol", "dave", every_s=10.0), "bob", 0),
        (after("bob", "alice", "carol", None, every_s=10.0), "bob", 1),
        (after("alice", None, None, every_s=10.0), None, 2),
    ],
)
def test_only_what_led_nowhere_for_the_same_process_lengthens_its_pause(
    past: Past, process: str | None, seconds: float
) -> None:
    machine = Recovery(3, RecoveryPolicy(fruitless_max=9))
    loss = TookOver(3, process is not None, (process,) if process else (), AT, past)
    assert [one.seconds for one in tell(machine, loss) if isinstance(one, Pause)] == [seconds] * (seconds > 0)


@pytest.mark.parametrize("most", [0, 1])
def test_a_system_goes_back_at_most_as_often_as_it_may(most: int) -> None:
    machine = running(1, RecoveryPolicy(failures_max=most))
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
        (TookOver(4, False, ("bob",), AT, idle=True), BeginLife(4, None, "the coordinator died while it went back")),
        (TookOver(4, True, (), AT, idle=True), BeginLife(4, None, "the coordinator died while it went back")),
    ],
)
def test_who_takes_over_a_life_that_does_not_run_begins_the_next(event: TookOver, begin: BeginLife) -> None:
    assert tell(Recovery(4), event) == (StopHandlers(4, begin.process), begin)


@pytest.mark.parametrize(
    ("event", "stop"),
    [
        (
            TookOver(4, True, ("bob",), AT, savepoint=SAVEPOINT),
            StopSystem(None, "it was stopped with the savepoint 4-coordinator-7", SAVEPOINT),
        ),
        (TookOver(4, False, (), AT, unfinished="it was restored"), StopSystem(None, "it was restored")),
    ],
)
def test_who_takes_over_a_life_that_is_over_for_good_stops_it(event: TookOver, stop: StopSystem) -> None:
    machine = Recovery(4)
    assert tell(machine, event) == (stop,)
    assert machine.phase is Phase.STOPPED


def test_who_takes_over_a_system_that_never_goes_back_stops_it_for_a_loss() -> None:
    (stop,) = tell(Recovery(4, NEVER_BACK), TookOver(4, True, ("bob",), AT, detail="it raised"))
    assert stop == StopSystem("bob", "it raised")
    assert tell(Recovery(4, NEVER_BACK), TookOver(4, True, (), AT)) == ()


def test_who_takes_over_goes_on_counting() -> None:
    past = after("bob", "bob", "bob")
    (stop,) = tell(Recovery(4), TookOver(4, True, ("bob",), AT, past))
    assert isinstance(stop, StopSystem)
    assert tell(Recovery(4), TookOver(4, False, (), AT, past))[-1] == BeginLife(
        4, None, "the coordinator died while it went back"
    ), "the death of a coordinator is no poison"


def test_who_takes_over_hears_of_losses_in_later_starts() -> None:
    machine = Recovery(2)
    tell(machine, TookOver(2, True, (), AT))
    assert tell(machine, lost(life=2, start=3)) == (StopHandlers(2, "bob"), BeginLife(2, "bob", "bob died"))


def test_a_pause_that_is_left_over_begins_no_second_life() -> None:
    machine = running(1, RecoveryPolicy(pause_s=0))
    tell(machine, lost(), began())
    pauses = [
        effect.number
        for process in ("alice", "bob")
        for start in range(1, STARTS_AT_ONCE + 1)
        for effect in tell(machine, lost(process, 2, start))
        if isinstance(effect, Pause)
    ]
    assert tell(machine, PauseOver(pauses[0])) == (LoadProcess(2, "alice", STARTS_AT_ONCE + 1),)
    tell(machine, *(ProcessLoaded(2, process, STARTS_AT_ONCE + 1) for process in ("alice", "bob")), LifeMarked(2))
    assert tell(machine, lost("alice", 2, STARTS_AT_ONCE + 1))[-1] == BeginLife(2, "alice", "alice died")
    assert tell(machine, PauseOver(pauses[1])) == ()


def test_who_is_not_in_the_snapshot_is_not_waited_for() -> None:
    assert tell(loading(), lost("carol", 2)) == ()


def test_storage_that_is_away_while_a_process_is_loaded_uses_up_no_start() -> None:
    machine = loading(None, "bob")
    for number in range(1, 50):
        (pause,) = tell(machine, LoadRefused(2, "bob", 1, "the storage is away"))
        assert isinstance(pause, Pause)
        assert machine.trouble == "the storage is away"
        assert tell(machine, PauseOver(pause.number)) == (LoadProcess(2, "bob", 1),), number
    assert tell(machine, LoadRefused(1, "bob", 1, "old"), LoadRefused(2, "bob", 2, "never")) == ()
    assert tell(machine, ProcessLoaded(2, "bob", 1)) == (MarkLife(2),)


def test_a_load_that_waits_for_a_pause_and_a_new_start_are_one_load() -> None:
    machine = loading(None, "bob")
    (pause,) = tell(machine, LoadRefused(2, "bob", 1, "the storage is away"))
    assert isinstance(pause, Pause)
    assert tell(machine, lost(life=2)) == (LoadProcess(2, "bob", 2),)
    assert tell(machine, PauseOver(pause.number)) == ()
    assert tell(machine, ProcessLoaded(2, "bob", 2)) == (MarkLife(2),)
    assert tell(machine, PauseOver(pause.number)) == ()


def test_coordinators_that_die_one_after_the_other_lead_nowhere_by_nobodys_fault() -> None:
    past = Past().rolled_back(AT, "bob")
    for number in range(9):
        effects = tell(Recovery(2), TookOver(2, False, ("alice",), AT + 999 * (number + 1), past, idle=True))
        assert effects[-1] == BeginLife(2, None, "the coordinator died while it went back")
        past = past.rolled_back(AT + 999 * (number + 1), None)
    assert past.losses == {"bob": 1}


def test_a_mark_that_cannot_be_written_is_tried_again() -> None:
    machine = loading(None, "bob")
    tell(machine, ProcessLoaded(2, "bob", 1))
    (pause,) = tell(machine, MarkRefused(2, "the control service does not answer"))
    assert isinstance(pause, Pause)
    assert tell(machine, PauseOver(pause.number)) == (MarkLife(2),)
    assert tell(machine, MarkRefused(1, "old")) == ()
    assert tell(machine, LifeMarked(2)) == (ResumeLife(2),)


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
        (tuple(AT - 60 * k for k in range(5000, 0, -1)), 0),
        ((AT + 5,), 1),
    ],
)
def test_pauses_grow_until_the_system_was_stable_for_a_while(rollbacks: tuple[float, ...], seconds: float) -> None:
    assert RecoveryPolicy().pause(rollbacks, AT) == seconds


def test_a_fixed_pause_has_the_factor_one() -> None:
    policy = RecoveryPolicy(pause_s=3, pause_factor=1)
    assert policy.pause(tuple(AT - 4 * k for k in range(50, 0, -1)), AT) == 3


def test_the_time_of_a_pause_does_not_count_as_running() -> None:
    policy, now, pauses = RecoveryPolicy(), AT, list[float]()
    rollbacks: tuple[float, ...] = ()
    for _ in range(10):
        pauses.append(policy.pause(rollbacks, now))
        now += pauses[-1]
        rollbacks, now = (*rollbacks, now), now + 0.1
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert policy.pause(rollbacks, now + 70) == 0


@pytest.mark.parametrize(
    "impossible",
    [
        lambda: lost(life=0),
        lambda: lost(start=0),
        lambda: LifeBegan(1, (), after("bob")),
        lambda: LifeBegan(2, (), Past()),
        lambda: LifeBegan(2, (), after("bob", commits=1)),
        lambda: ProcessLost(1, "bob", 1, "", AT),
        lambda: RecoveryPolicy(failures_max=-1),
        lambda: RecoveryPolicy(fruitless_max=0),
        lambda: RecoveryPolicy(pause_s=-1),
        lambda: RecoveryPolicy(pause_factor=0.5),
    ],
)
def test_what_cannot_be_is_refused(impossible: object) -> None:
    with pytest.raises(AssertionError, match="is "):
        impossible()  # type: ignore[operator]


def test_a_process_that_goes_back_alone_lacks_what_its_sender_evicted() -> None:
    sender, receiver = Participant("r", 1), Participant("p", 1)
    sender.handle(ReceiverReady("p"))
    for first, last in ((1, 4), (5, 9)):
        (send,) = sender.handle(BatchTaken("p", last - first + 1))
        assert isinstance(send, SendBatch)
        receiver.handle(BatchArrived("r", 1, send.first, send.count, send.markers))
        sender.handle(BatchAcknowledged("p", receiver.arrived("r")))
    assert sender.released("p") == 9
    alone = Participant("p", 1)
    alone.handle(Restored(1, sent={}, arrived={"r": 4}))
    (send,) = sender.handle(BatchTaken("p", 1))
    assert isinstance(send, SendBatch)
    assert isinstance(alone.handle(BatchArrived("r", 1, send.first, 1))[0], HoldBatch), "it waits for 5 to 9 for ever"


def test_a_deterministic_process_that_merges_two_channels_does_not_repeat_its_outputs() -> None:
    orders = [order for order in permutations(("a1", "a2", "b1")) if order.index("a1") < order.index("a2")]
    broken = 0
    for before, again, taken in product(orders, orders, range(4)):
        broken += sorted((*before[:taken], *again[taken:])) != ["a1", "a2", "b1"]
    assert (broken, len(orders) ** 2 * 4) == (8, 36)
    before, again = ("a1", "a2", "b1"), ("a1", "b1", "a2")
    assert (*before[:2], *again[2:]) == ("a1", "a2", "a2")


def test_who_acted_in_vain_stops_the_system_also_when_it_goes_back_once_more() -> None:
    vain = ActedInVain("a program had acted on another answer", {"method": "ask"})
    for machine in (running(1), loading()):
        assert tell(machine, vain) == (StopSystem(None, vain.detail),)
        assert tell(machine, vain) == ()
