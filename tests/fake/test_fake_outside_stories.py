"""What is outside belongs to the cut: one story for each rule, of actors that write down what they hear."""

import pytest

import rayshot
from rayshot.errors import (
    ConfigError,
    OutsideConflict,
    RayshotError,
    RestoreFailed,
    SinkAhead,
    SnapshotAborted,
    SystemStopped,
)
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.protocol.identity import MODES
from rayshot.runtime.coordinator import commit_news
from tests.fake.account import photograph
from tests.fake.system import actor, await_life, await_stop, coordinator, process_of, read, restore
from tests.fake.threads import Event, Thread
from tests.fake.writers import Bounded, Forgetful, Neighbour, Teller, Unfit, World, Writer


@pytest.fixture
def world():
    Writer.world = World()
    return Writer.world


@pytest.fixture
def writer(system, world):
    writer = Writer.options(name="writer").remote()
    read(writer)
    return writer


def rows(world):
    return [row for *_, row in world.visible]


def write(writer, *told):
    for row in told:
        writer.write.tell(row)
    read(writer)


# Commits -------------------------------------------------------------------------------------------------------


def test_nothing_is_visible_before_the_snapshot_is_durable(cluster, system, world, writer):
    write(writer, "a")
    cluster.withheld["store"] = []
    photograph(system)
    cluster.schedule.pass_s(30.0)
    assert [what for what, *_ in world.heard] == ["sealed"]
    assert rows(world) == []
    for answer in cluster.withheld.pop("store"):
        cluster.schedule.later(answer)
    cluster.until(lambda: rows(world) == ["a"])


def test_a_commit_that_nobody_was_told_of_is_told_by_the_next_coordinator(cluster, system, world, writer):
    write(writer, "a")
    cluster.failpoints["after_commit"] = 1
    with pytest.raises(SnapshotAborted, match="the coordinator died"):
        system.snapshot()
    cluster.until(lambda: rows(world) == ["a"])
    assert len(system.snapshots()) == 1


def test_a_life_that_goes_back_tells_of_the_commit_from_which_it_goes_on(cluster, system, world, writer):
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    (taken,) = [system.snapshot().id]
    cluster.die(actor(cluster, "writer"))
    await_life(cluster, system, 2)
    cluster.until(lambda: "writer" in system.status().outside)
    assert world.heard.count(("commit", str(taken))) == 2
    assert system.status().outside["writer"].snapshot == taken
    world.errors.clear()
    cluster.until(lambda: not system.status().outside)
    assert rows(world) == ["a"]


def stopped_while_the_table_is_away(cluster, system, world, writer):
    """A savepoint has a row that is not visible; returns its storage."""
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    neighbour = Neighbour.options(name="neighbour").remote()
    read(neighbour)
    system.stop_with_savepoint("end")
    assert rows(world) == []
    world.errors.clear()
    cluster.schedule.pass_s(120.0)
    return system.storage


def test_nothing_is_done_outside_before_all_are_loaded(cluster, system, world, writer):
    storage = stopped_while_the_table_is_away(cluster, system, world, writer)
    world.gate = Event()
    back = []
    Thread(lambda: back.append(restore(storage))).start()
    cluster.schedule.pass_s(20.0)
    assert ("restore", 2, False, False) in world.heard
    assert rows(world) == []
    world.gate.set()
    cluster.until(lambda: rows(world) == ["a"] and back)


def test_a_restore_that_fails_has_done_nothing_outside(cluster, system, world, writer):
    storage = stopped_while_the_table_is_away(cluster, system, world, writer)
    world.errors["restore"] = SinkAhead("there is more")
    with pytest.raises(RestoreFailed, match="there is more") as failed:
        restore(storage)
    assert isinstance(failed.value.__cause__, OutsideConflict)
    cluster.schedule.pass_s(60.0)
    assert rows(world) == []


def test_a_function_that_fails_is_tried_again_with_longer_pauses_and_causes_no_rollback(cluster, system, world, writer):
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    system.snapshot()
    cluster.schedule.pass_s(100.0)
    assert "the table is away" in system.status().outside["writer"].trouble
    assert system.status().incarnation == 1
    world.errors.clear()
    cluster.schedule.pass_s(30.0)
    assert (rows(world), dict(system.status().outside)) == (["a"], {})


def test_a_commit_from_which_nothing_follows_keeps_what_follows_from_earlier_ones(cluster, system, world):
    world.errors["publish"] = OSError("the table is away")
    writer = Forgetful.options(name="writer").remote()
    write(writer, "a")
    system.snapshot()
    system.snapshot()
    cluster.settle()
    assert "writer" in system.status().outside
    world.errors.clear()
    cluster.until(lambda: not system.status().outside)
    assert rows(world) == ["a"]


# Snapshots -----------------------------------------------------------------------------------------------------


def test_a_conflict_behind_a_commit_stops_the_system_and_says_why(cluster, system, world, writer):
    world.errors["publish"] = OutsideConflict("another one has the table")
    write(writer, "a")
    system.snapshot()
    assert "writer: another one has the table" in await_stop(cluster, system)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_hook_tells_is_inside_the_cut(cluster, system, world, writer, mode):
    teller = Teller.options(name="teller").remote()
    teller.befriend.tell(writer)
    read(teller)
    taken = []
    for number in (1, 2):
        snapshot = system.snapshot(mode=mode)
        assert snapshot.channels["teller", "writer"].entry.sent == number
        taken.append(str(snapshot.id))
    cluster.settle()
    system.snapshot(mode=mode)
    cluster.until(lambda: rows(world)[:2] == taken)


def test_what_a_hook_returned_runs_though_the_record_fails_and_hears_that_the_snapshot_is_over(cluster, system, world):
    read(Unfit.options(name="unfit").remote())
    for _ in range(3):
        with pytest.raises(SnapshotAborted, match="not now"):
            system.snapshot()
    cluster.settle()
    assert [(what, cancelled) for what, _, cancelled in world.heard] == [("sealed", True)] * 3


@pytest.mark.parametrize("where", ["on_snapshot", "seal"])
def test_a_new_actor_that_does_not_fit_what_is_outside_stops_the_system(cluster, system, world, writer, where):
    world.errors[where] = SinkAhead("it is new, and rows are there")
    with pytest.raises(RayshotError):
        system.snapshot()
    assert "writer: it is new, and rows are there" in await_stop(cluster, system)


# Room ----------------------------------------------------------------------------------------------------------


def test_who_has_no_room_takes_nothing_and_records_and_goes_on_when_it_has_again(cluster, system, world):
    """Nobody tells it when that is."""
    bounded = Bounded.options(name="bounded").remote()
    write(bounded, "a")
    system.snapshot()
    cluster.settle()
    world.is_full = True
    cluster.schedule.pass_s(1.0)
    system.snapshot()  # it looks between two handlers
    for row in "bc":
        bounded.write.tell(row)
    cluster.schedule.pass_s(20.0)
    flying = system.snapshot().states()["bounded"]
    assert (flying["open"], flying["sequence"]) == ([], 1)
    cluster.schedule.pass_s(100.0)
    world.is_full = False
    cluster.schedule.pass_s(2.0)
    assert len(process_of(cluster, "bounded").cell.instance.open) == 2


def test_an_aligned_snapshot_does_not_wait_for_room(cluster, system, world, writer):
    """The marker stands behind messages for which there is no room before the snapshot is durable."""
    bounded = Bounded.options(name="bounded").remote()
    write(bounded, "a")
    world.is_full = True
    cluster.schedule.pass_s(1.0)
    system.snapshot()
    for row in range(10):
        writer.pass_on.tell(bounded, row)
    read(writer)
    cluster.schedule.pass_s(1.0)
    assert process_of(cluster, "bounded").cell.instance.open == []
    _, taken = photograph(system, mode="aligned")
    cluster.schedule.pass_s(60.0)
    assert [len(one.states()["bounded"]["sealed"]) for one in taken] == [2]


# Ends ----------------------------------------------------------------------------------------------------------


def test_an_actor_ends_behind_a_commit_that_holds_all_it_took(cluster, system, world, writer):
    write(writer, "a")
    system.snapshot()
    write(writer, "b")
    writer.leave.tell()
    cluster.until(lambda: "writer" not in system.actors())
    assert rows(world) == ["a", "b"]


def test_an_actor_does_not_end_before_its_rows_are_visible(cluster, system, world, writer):
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    writer.leave.tell()
    cluster.schedule.pass_s(100.0)
    assert "writer" in system.actors()
    world.errors.clear()
    cluster.until(lambda: "writer" not in system.actors())
    assert rows(world) == ["a"]


def test_who_waits_for_an_actor_that_ends_learns_that_at_once(cluster, system, world, writer):
    """Otherwise it could not record, so no snapshot would come behind which the other one may end."""
    neighbour = Neighbour.options(name="neighbour").remote()
    neighbour.ask.tell(writer)
    assert read(neighbour) == ["exited"]
    cluster.until(lambda: "writer" not in system.actors())
    assert rows(world) == ["asked"]


def test_many_that_end_at_once_need_few_snapshots(cluster, system, world):
    writers = [Writer.options(name=f"writer {number}").remote() for number in range(20)]
    for writer in writers:
        write(writer, "a")
        writer.leave.tell()
    cluster.until(lambda: not system.actors())
    assert rows(world) == ["a"] * 20
    assert len(system.snapshots()) <= 20


def test_a_stop_returns_when_all_is_visible(cluster, system, world, writer, caplog):
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    cluster.schedule.at(cluster.schedule.now_s + 20.0, world.errors.clear)
    system.stop_with_savepoint("end")
    assert rows(world) == ["a"]
    assert "has not done yet outside" not in caplog.text


def test_a_stop_waits_a_minute_and_names_who_has_not_done_its_work_and_a_restore_does_it(
    cluster, system, world, writer, caplog
):
    storage, began_s = system.storage, cluster.schedule.now_s
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    system.stop_with_savepoint("end")
    assert commit_news.SETTLE_S <= cluster.schedule.now_s - began_s < 2 * commit_news.SETTLE_S
    assert "writer has not done yet outside what follows from" in caplog.text
    world.errors.clear()
    cluster.schedule.pass_s(120.0)
    assert rows(world) == []
    restore(storage)
    cluster.until(lambda: rows(world) == ["a"])


@pytest.mark.parametrize("point", ["before_publish", "after_on_commit"])
def test_a_stop_names_an_actor_that_died_before_its_rows_were_visible(cluster, system, writer, world, point, caplog):
    write(writer, "a")
    cluster.failpoints[point] = 1
    system.stop_with_savepoint("end")
    assert "writer has not done yet outside what follows from" in caplog.text
    assert rows(world) == []


def test_a_stop_whose_coordinator_died_behind_the_commit_names_who_may_not_have_done_it(cluster, system, writer, world):
    storage = system.storage
    write(writer, "a")
    cluster.failpoints["after_commit"] = 1
    with pytest.raises(SystemStopped, match="What follows from it outside may not be done yet by writer: a restore"):
        system.stop_with_savepoint("end")
    system.shutdown()
    cluster.schedule.pass_s(120.0)
    restore(storage)
    cluster.until(lambda: rows(world) == ["a"])


# What a person says --------------------------------------------------------------------------------------------


def restored(cluster, system, writer, **said):
    write(writer, "a")
    system.stop_with_savepoint("end")
    cluster.schedule.pass_s(120.0)
    Writer.world.heard.clear()
    back = restore(system.storage, snapshots=SnapshotConfig(), failure=FailureConfig(backoff_s=0.0), **said)
    cluster.settle()
    return back


def test_nobody_waits_for_what_follows_outside_from_an_actor_whose_class_lost_its_hooks(
    cluster, system, world, writer, caplog
):
    back = restored(cluster, system, writer, rename_classes={f"{Writer.__module__}.Writer": Neighbour})
    assert dict(back.status().outside) == {}
    began_s = cluster.schedule.now_s
    back.stop_with_savepoint("the end")
    assert cluster.schedule.now_s - began_s < 1.0
    assert "has not done yet outside" not in caplog.text


def test_a_look_calls_no_hook_in_any_of_its_lives_and_takes_no_snapshot(cluster, system, world, writer):
    back = restored(cluster, system, writer, outside="leave")
    with pytest.raises(ConfigError, match="it takes no snapshots"):
        back.snapshot()
    cluster.die(actor(cluster, "writer"))
    await_life(cluster, back, 3)
    cluster.settle()
    assert world.heard == []
    assert dict(back.status().outside) == {}


@pytest.mark.parametrize("takeover", [False, True])
def test_again_and_takeover_hold_until_the_life_has_a_snapshot_of_its_own(cluster, system, world, writer, takeover):
    back = restored(cluster, system, writer, outside="again", takeover=takeover)
    cluster.die(actor(cluster, "writer"))
    await_life(cluster, back, 3)
    back.snapshot()
    cluster.die(actor(cluster, "writer"))
    await_life(cluster, back, 4)
    cluster.settle()
    heard = [one for one in world.heard if one[0] == "restore"]
    assert heard == [("restore", 2, True, takeover), ("restore", 3, True, takeover), ("restore", 4, False, False)]


def test_a_new_actor_hears_what_a_person_said_also_behind_snapshots_of_the_life(cluster, system, world, writer):
    """What is outside may know an actor of its name, of what comes behind the snapshot of the restore."""
    back = restored(cluster, system, writer, outside="again", takeover=True)
    back.snapshot()
    cluster.die(actor(cluster, "writer"))
    await_life(cluster, back, 3)
    read(Writer.options(name="late").remote())
    taken = str(back.snapshot().id)
    assert (world.said["late", taken], world.said["writer", taken]) == ((True, True), (False, False))


def test_a_new_coordinator_knows_what_a_person_said(cluster, system, world, writer):
    back = restored(cluster, system, writer, outside="again", takeover=True)
    cluster.die(coordinator(cluster))
    cluster.schedule.pass_s(30.0)
    cluster.die(actor(cluster, "writer"))
    await_life(cluster, back, 3)
    cluster.settle()
    assert ("restore", 3, True, True) in world.heard


# Only snapshots that advance -----------------------------------------------------------------------------------


def test_rows_of_a_snapshot_that_does_not_advance_stay_hidden_until_one_that_does_holds_them(cluster, system, world):
    """Two overlap, and each has a batch that the other lacks. The system never goes back to the one stored later."""
    writers = [Writer.options(name=name).remote() for name in ("one", "two")]
    for writer in writers:
        read(writer)
    run = coordinator(cluster).run
    run.is_stopped = True
    for writer, row in zip(writers, "ab", strict=True):
        writer.photograph.tell()
        writer.write.tell(row)
    cluster.settle()
    cluster.go_on(run)
    cluster.until(lambda: len(system.snapshots()) == 2)
    cluster.settle()
    advances = {"b" if one.id.initiator == "one" else "a": one.record.advances for one in system.snapshots()}
    assert sorted(advances.values()) == [False, True]
    shown = [row for row, is_shown in advances.items() if is_shown]
    assert rows(world) == shown
    cluster.die(actor(cluster, "one"))
    await_life(cluster, system, 2)
    cluster.settle()
    assert rows(world) == shown, "the life goes on from the one that advances"
    system.snapshot()
    cluster.settle()
    assert sorted(rows(world)) == ["a", "b"]


# Takeovers -----------------------------------------------------------------------------------------------------


def test_a_new_coordinator_learns_who_is_behind_since_when_and_why(cluster, system, world, writer):
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    first = system.snapshot().id
    cluster.schedule.pass_s(40.0)
    system.snapshot()
    cluster.die(coordinator(cluster))
    cluster.schedule.pass_s(20.0)
    behind = system.status().outside["writer"]
    assert (behind.snapshot, behind.seconds >= 60.0, "is away" in behind.trouble) == (first, True, True)
    world.errors.clear()
    cluster.schedule.pass_s(30.0)
    assert dict(system.status().outside) == {}


def test_a_new_coordinator_owes_the_commit_that_the_old_one_did_not_tell(cluster, system, world, writer):
    world.errors["publish"] = OSError("the table is away")
    write(writer, "a")
    cluster.failpoints["after_commit"] = 1
    with pytest.raises(SnapshotAborted):
        system.snapshot()
    cluster.schedule.pass_s(20.0)
    assert "is away" in system.status().outside["writer"].trouble
    world.errors.clear()
    cluster.schedule.pass_s(30.0)
    assert (rows(world), dict(system.status().outside)) == (["a"], {})


@rayshot.actor(capture="inline")
class Engine(Neighbour):
    """Something outside from which nothing follows."""

    def on_snapshot(self, cut):
        return 1


def test_a_stop_whose_coordinator_died_names_nobody_whose_class_has_nothing_to_do(cluster, system, world, writer):
    read(Engine.options(name="engine").remote())
    write(writer, "a")
    cluster.failpoints["after_commit"] = 1
    with pytest.raises(SystemStopped, match="may not be done yet by writer: a restore"):
        system.stop_with_savepoint("end")


def test_a_stop_whose_coordinator_died_behind_all_that_follows_names_nobody(cluster, system, world, writer):
    write(writer, "a")
    cluster.failpoints["before_announce"] = 1
    with pytest.raises(SystemStopped) as stopped:
        system.stop_with_savepoint("end")
    assert rows(world) == ["a"]
    assert "may not be done yet" not in str(stopped.value)
