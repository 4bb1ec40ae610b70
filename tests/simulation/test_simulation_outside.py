"""What actors fix outside, in worlds: hooks at records and commits, functions beside handlers, what stops a world."""

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

import rayshot
from rayshot.errors import (
    ActorExited,
    ConfigError,
    HookFailed,
    OutsideConflict,
    ScheduleFailed,
    SinkAhead,
    SinkFenced,
    SnapshotAborted,
    StepsExhausted,
)
from rayshot.places.memory import MemoryStore
from rayshot.simulation import SimulatedSystem, explore
from tests.simulation.mutants_of_outside import AGAIN, MISTAKES, OUTSIDE
from tests.simulation.sink_play import (
    ROWS,
    TABLES,
    Based,
    Claimed,
    Rows,
    Table,
    check,
    play,
    play_again,
    scenario,
    table_of,
)
from tests.snapshots.snapshot_builder import KEY, make_snapshot, open_bank

SEEDS = 400


@pytest.mark.parametrize("kinds", [(Rows, Table), (Based, Claimed)], ids=["a user's", "rayshot's"])
def test_each_row_of_a_sink_is_visible_once_and_only_behind_a_durable_cut(kinds):
    counts = Counter()
    for seed in range(100):
        counts.update(play(seed, *kinds))
    assert counts["functions"] > 400
    assert min(counts[name] for name in ("rollbacks", "ended", "outages", "commits found late")) > 20, counts


def test_what_comes_behind_a_snapshot_is_visible_a_second_time_and_no_third_one_where_a_person_says_again():
    assert sum(map(play_again, range(60))) > 100


@pytest.mark.sampled("more cases of one kind", keeps=6)
@pytest.mark.parametrize("mutant", [*OUTSIDE, *AGAIN], ids=lambda mutant: mutant.name)
def test_the_mutant_is_killed(mutant):
    with mutant.at_work():
        for seed in range(SEEDS):
            try:
                (play_again if mutant in AGAIN else play)(seed, **mutant.changes)
            except (AssertionError, OutsideConflict):
                return
    pytest.fail(f"it survived {SEEDS} schedules")


def explored(**settings):
    def begin(world):
        TABLES["sink"] = Table(world)
        scenario(world)

    return explore(begin, check=lambda world: check(world, TABLES["sink"]), snapshots=3, **{"crashes": 1, **settings})


@pytest.mark.parametrize("mistake", MISTAKES)
def test_explore_finds_what_everybody_does_wrong(mistake):
    with ExitStack() as stack:
        for change in MISTAKES[mistake]:
            stack.enter_context(patch.object(*change))
        with pytest.raises(ScheduleFailed) as failed:
            explored()
    assert isinstance(failed.value.__cause__, (AssertionError, OutsideConflict))


def test_explore_finds_nothing_wrong_with_the_sink_itself():
    seen = explored(schedules=100, takeovers=1)
    assert min(seen.functions, seen.rollbacks, seen.takeovers) >= 100


# Hooks ---------------------------------------------------------------------------------------------


@rayshot.actor(prove=False)
class Engine:
    """`outside` is told at each hook, and may raise; it has what the hooks heard."""

    outside = staticmethod(lambda hook, cut: None)

    def __init__(self):
        self.count = 0

    def work(self):
        self.count += 1

    def on_snapshot(self, cut):
        return self.outside("on_snapshot", cut)

    def on_commit(self, cut):
        return self.outside("on_commit", cut)

    def on_restore(self, back):
        self.outside("on_restore", back)


@pytest.fixture
def heard(monkeypatch):
    """Calls of hooks, as (hook, cut)."""
    calls = []
    monkeypatch.setattr(Engine, "outside", staticmethod(lambda hook, cut: calls.append((hook, cut))))
    return calls


def hooks(heard):
    return [hook for hook, _ in heard]


def world_of(actor_class=Engine, **settings):
    world = SimulatedSystem(1, snapshots=0, **settings)
    engine = world.create(actor_class, name="engine")
    engine.work.tell()
    world.run()
    return world


def raising(hook, error, *, in_function=False):
    """An `outside` that raises in this hook, or in the function that it returns."""

    def throw():
        raise error

    def outside(name, cut):
        return (throw if in_function else throw()) if name == hook else None

    return staticmethod(outside)


def test_a_commit_is_told_with_the_payload_and_again_when_all_are_back(heard):
    world = world_of()
    world.snapshot()
    world.run()
    world.crash()
    world.run()
    assert hooks(heard) == ["on_snapshot", "on_commit", "on_restore", "on_commit"]
    tokens = [cut.token for _, cut in heard]
    assert [token.life for token in tokens] == [1, 1, 2, 2]
    assert tokens[2].may_take(tokens[0])
    assert not tokens[0].may_take(tokens[2])


def test_an_actor_goes_back_with_the_payload_of_its_cut(monkeypatch):
    backs = []

    def outside(hook, cut):
        if hook == "on_restore":
            backs.append(cut.payload)
        return lambda: {"life": cut.token.life, "snapshot": cut.snapshot}

    monkeypatch.setattr(Engine, "outside", staticmethod(outside))
    world = world_of()
    cut = world.snapshot()
    world.crash()
    assert backs == [{"life": 1, "snapshot": str(cut.id)}] == [cut.payload("engine")]


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("hook", ["on_snapshot", "on_commit"])
def test_a_conflict_with_what_is_outside_stops_the_world_with_its_reason(monkeypatch, hook, in_function):
    monkeypatch.setattr(Engine, "outside", raising(hook, SinkAhead("the table has more"), in_function=in_function))
    world = world_of()
    with pytest.raises(SinkAhead, match="the table has more"):
        world.snapshot()
        world.run()


def test_a_conflict_in_on_restore_stops_the_world(monkeypatch):
    world = world_of()
    world.snapshot()
    monkeypatch.setattr(Engine, "outside", raising("on_restore", SinkAhead("the table has more")))
    with pytest.raises(SinkAhead):
        world.crash()


@pytest.mark.parametrize("in_function", [False, True])
def test_a_snapshot_whose_hook_fails_is_aborted_and_the_actor_goes_on(monkeypatch, in_function):
    monkeypatch.setattr(Engine, "outside", raising("on_snapshot", OSError("no disk"), in_function=in_function))
    world = world_of()
    with pytest.raises(SnapshotAborted, match=r"outside_failed.*no disk"):
        world.snapshot()
    world.get_actor("engine").work.tell()
    world.run()
    assert world.actors["engine"].count == 2


def test_a_payload_that_is_no_json_aborts_the_snapshot(monkeypatch):
    monkeypatch.setattr(Engine, "outside", staticmethod(lambda hook, cut: {1, 2}))
    with pytest.raises(SnapshotAborted, match="is not JSON"):
        world_of().snapshot()


def test_a_function_that_never_succeeds_is_named_when_the_steps_are_used_up(monkeypatch):
    monkeypatch.setattr(Engine, "outside", raising("on_commit", OSError("the table is away"), in_function=True))
    world = world_of(steps_max=200)
    world.snapshot()
    with pytest.raises(StepsExhausted, match="the table is away"):
        world.run()


def test_a_commit_from_which_nothing_follows_does_not_drop_what_is_under_way(monkeypatch):
    done, commits = [], []

    def outside(hook, cut):
        if hook == "on_commit":
            commits.append(cut)
            return None if len(commits) > 1 else lambda: done.append(cut.snapshot)
        return None

    monkeypatch.setattr(Engine, "outside", staticmethod(outside))
    world = world_of()
    first = world.snapshot()
    world.run(until=lambda: bool(commits))
    world.run(until=lambda: not done and len(world.snapshots) > 1)
    world.snapshot()
    world.run()
    assert done == [str(first.id)]


@rayshot.actor(prove=False)
class Keeper(Engine):
    """Writes its state into a file of each snapshot."""

    def on_snapshot(self, cut):
        count = self.count
        return lambda: Path(cut.folder, "shard").write_text(json.dumps(count)) and None

    def on_commit(self, cut):
        return None

    def on_restore(self, back):
        back.verify()
        self.count = json.loads(Path(back.folder, "shard").read_text())


def test_files_of_a_cut_are_there_when_the_actor_goes_back_to_it():
    world = world_of(Keeper)
    world.snapshot()
    world.get_actor("engine").work.tell()
    world.run()
    world.crash()
    world.run()
    assert world.actors["engine"].count == 2  # the test's message behind the cut was sent again
    world.snapshot()
    (file,) = Path(world.snapshots[-1].actors["engine"].files.open()).iterdir()
    file.write_text("7")
    with pytest.raises(HookFailed, match="does not fit its digest"):
        world.crash()


# Ends ----------------------------------------------------------------------------------------------


@rayshot.actor(prove=False)
class Leaver(Engine):
    def leave(self):
        rayshot.current().exit()

    def greet(self):
        return "hello"


@rayshot.actor(prove=False)
class Caller:
    def __init__(self, leaver):
        self.leaver, self.answer = leaver, None

    def call(self):
        try:
            self.answer = rayshot.get(self.leaver.greet.remote())
        except ActorExited as error:
            self.answer = error


def test_who_calls_an_actor_that_waits_for_its_last_commit_hears_that_it_ended(heard):
    for seed in range(30):
        world = SimulatedSystem(seed, snapshots=0)
        leaver = world.create(Leaver, name="leaver")
        caller = world.create(Caller, leaver, name="caller")
        leaver.leave.tell()
        caller.call.tell()
        world.run()
        assert world.ended.keys() == {"leaver"}
        assert world.actors["caller"].answer is not None
        assert heard[-1][0] == "on_commit"


# Who may touch what is outside ---------------------------------------------------------------------


def test_a_world_from_a_snapshot_calls_no_hook_unless_it_is_told_to(heard):
    world = world_of()
    cut = world.snapshot()
    world.run()
    others = SimulatedSystem.from_snapshot(cut), world.branch(), SimulatedSystem.from_snapshot(cut, crashes=1)
    world.run()
    heard.clear()
    for other in others:
        other.get_actor("engine").work.tell()
        other.run()
        other.snapshot()
        other.run()
    assert not heard


def test_a_branch_leaves_the_snapshot_behind_which_something_was_published():
    world = SimulatedSystem(3, snapshots=0)
    with table_of(Table(world)) as table:
        scenario(world)
        world.run()
        world.branch()
        world.run()
        world.crash()
        world.run()
        assert {*range(ROWS)} == {*table.rows}
        assert not table.wrong


def test_the_word_of_a_restore_holds_until_the_run_has_a_snapshot_of_its_own(heard):
    first = world_of()
    cut = first.snapshot()
    first.run()
    heard.clear()
    world = SimulatedSystem.from_snapshot(cut, outside="again", takeover=True)
    world.run()
    world.crash()
    world.snapshot()
    world.crash()
    backs = [cut for hook, cut in heard if hook == "on_restore"]
    assert [(bool(back.again), back.takeover) for back in backs] == [(True, True), (True, True), (False, False)]
    assert len({back.again for back in backs[:2]}) == 1
    assert not backs[0].token.may_take(first._actors.outside.cut(first._actors.processes["engine"], cut.id, None).token)


@pytest.mark.parametrize("outside", ["refuse", "again"])
def test_a_world_of_a_real_snapshot_never_touches_what_is_outside(monkeypatch, outside):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())
    with pytest.raises(ConfigError, match="of a real system"):
        SimulatedSystem.from_snapshot(make_snapshot(open_bank(MemoryStore())), outside=outside)


def test_two_worlds_with_one_table_keep_each_other_out():
    world = SimulatedSystem(3, snapshots=2)
    with table_of(Table(world)) as table:
        scenario(world)
        world.run()
        cut = world.snapshot()
        world.run()
        with pytest.raises(SinkFenced):
            SimulatedSystem.from_snapshot(cut, outside="refuse")
        table.token = None  # a person lets go of it
        table.world = other = SimulatedSystem.from_snapshot(cut, outside="refuse")
        other.run()
        world.get_actor("sink").add.tell(99)
        world.run()
        with pytest.raises(SinkFenced):
            world.snapshot()
            world.run()
        assert {*range(ROWS)} <= {*table.rows}
        assert 99 not in table.rows


def test_a_sink_that_is_born_beside_a_full_table_is_refused():
    world = SimulatedSystem(3, snapshots=2)
    with table_of(Table(world)) as table:
        scenario(world)
        world.run()
        world.snapshot()
        world.run()
        table.token = None
        other = SimulatedSystem(4, snapshots=0)
        other.create(Rows, name="sink")
        with pytest.raises(SinkAhead, match="the table is not empty"):
            other.snapshot()
