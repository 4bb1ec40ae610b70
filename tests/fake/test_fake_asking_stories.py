"""What happens to questions and snapshots in one order of events: each test is one such story."""

import asyncio

import pytest

import rayshot
from rayshot.errors import ActorExited, AnswerTimedOut, RayshotError, SnapshotAborted
from rayshot.model.configuration import SnapshotConfig
from rayshot.properties.global_state import GlobalState
from rayshot.runtime.door import door
from tests.fake.account import Account, new_gate, photograph
from tests.fake.looping import Trainer, instance
from tests.fake.system import actor, await_life, begin, coordinator, process_of, read
from tests.fake.workers import Server, Worker, is_whole


@rayshot.actor(capture="inline")
class Impatient(Worker):
    """Waits for what may not come in time."""

    def tell_and_ask_briefly(self, own, other, gate):
        self.begun += 1
        Account.gates[own].wait()
        other.ask_at.tell(gate, 1)
        try:
            rayshot.get(other.note.remote(1), timeout=1.0)
        except AnswerTimedOut:
            self.notes.append("late")
        self.done += 1

    def take_briefly(self, queue):
        self.begun += 1
        try:
            rayshot.get(queue.actor.get.remote(), timeout=1.0)
        except AnswerTimedOut:
            self.notes.append("late")
        self.done += 1

    def stay(self, gate):
        Account.gates[gate].wait()

    def ask_last(self, other):
        self.notes.append(rayshot.get(other.answer_and_leave.remote(5)))


@rayshot.actor(capture="inline")
class Leaver:
    def answer_and_leave(self, number):
        rayshot.current().exit()
        return number


@rayshot.actor(capture="inline", max_concurrency=1000)
class Player:
    """Tells the other one to step, and asks it then: no moment is quiet, as each question stands behind a step."""

    def __init__(self):
        self.other, self.steps, self.plays = None, 0, True

    async def meet(self, other):
        self.other = other

    async def step(self):
        self.steps += 1
        await asyncio.sleep(0.05)
        if self.plays:
            self.other.step.tell()
            await self.other.read.remote()

    async def rest(self):
        self.plays = False

    async def read(self):
        return self.steps


def test_a_report_that_is_out_of_date_costs_a_try_and_no_half_of_a_handler_is_recorded(cluster, system):
    """The asker rests when its time is up; that the other one has begun something since it rested comes late."""
    own, gate = new_gate("own"), new_gate("gate")
    server = Server.options(name="server").remote()
    asker, other = Impatient.options(name="asker").remote(server), Worker.options(name="other").remote(server)
    door.get([asker.ask.remote(), other.ask.remote()])
    asker.tell_and_ask_briefly.tell("own", other, "gate")
    runner = coordinator(cluster).run.instance._life.runner
    rests, refuse, late, refused = runner.rests, runner.refuse, [], []
    runner.rests = lambda name, report: late.append((name, report)) if name == "other" and late else rests(name, report)

    def refusing(snapshot, name, *why):
        refused.append(name)
        refuse(snapshot, name, *why)

    runner.refuse = refusing
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(0.3)
    late.append(None)
    own.set()
    cluster.schedule.pass_s(1.5)
    assert refused == ["other"]
    runner.rests = rests
    for report in late[1:]:
        rests(*report)
    gate.set()
    thread.join()
    assert not isinstance(taken[0], RayshotError), taken[0]
    states = taken[0].states()
    assert is_whole(states["asker"])
    assert is_whole(states["other"])
    assert states["asker"]["notes"] == ["late"]
    assert system.status().aborted == 0


def test_a_ping_pong_without_a_quiet_moment_ends_the_request_with_its_chain_and_goes_on(cluster):
    system = begin(snapshots=SnapshotConfig(conclude_timeout_s=5.0))
    players = one, two = [Player.options(name=name).remote() for name in ("one", "two")]
    door.get([one.meet.remote(two), two.meet.remote(one)])
    one.step.tell()
    cluster.schedule.pass_s(1.0)
    before = instance(cluster, "one").steps
    with pytest.raises(SnapshotAborted, match=r"step of '(one|two)'"):
        system.snapshot()
    assert instance(cluster, "one").steps > before + 5
    for player in players:
        player.rest.tell()
    cluster.schedule.pass_s(5.0)
    assert {"one", "two"} <= system.snapshot().states().keys()


@pytest.mark.parametrize("where", ["owed", "in flight"])
def test_the_answer_to_a_wait_whose_time_was_up_in_the_cut_is_dropped_behind_a_rollback(
    cluster, system, rollouts, where
):
    own = new_gate("own")
    asker = Impatient.options(name="asker").remote(Server.options(name="server").remote())
    asker.take_briefly.tell(rollouts)
    asker.stay.tell("own")
    cluster.schedule.pass_s(2.0)
    thread, taken = photograph(system)
    if where == "in flight":
        rollouts.actor.put.tell("a")
    cluster.schedule.pass_s(2.0)
    own.set()
    thread.join()
    in_flight = [one for of, one in taken[0].channels.items() if of == ("rollouts", "asker") for one in one.messages]
    assert [one.kind for one in in_flight] == (["reply"] if where == "in flight" else [])
    cluster.die(actor(cluster, "server"))
    await_life(cluster, system, 2)
    rollouts.put("b")
    cluster.settle()
    assert read(asker) == (1, 1, ["late"])
    assert system.dead_letters() == []
    assert not process_of(cluster, "asker").channels.mailbox


def test_the_last_answer_of_an_actor_counts_also_if_its_end_is_heard_of_first(cluster, system):
    asker = Impatient.options(name="asker").remote(Server.options(name="server").remote())
    leaver = Leaver.options(name="leaver").remote()
    assert read(asker) == (0, 0, [])
    suspension = process_of(cluster, "asker").suspension
    hand_over = suspension._hand_over

    def hand_over_late():
        if "leaver" in suspension._channels.mailbox.senders():
            suspension._ended.add("leaver")
        hand_over()

    suspension._hand_over = hand_over_late
    asker.ask_last.tell(leaver)
    assert read(asker)[2] == [5]


def test_a_loop_whose_call_goes_to_an_actor_that_has_ended_in_the_cut_gets_its_end(cluster, system, rollouts):
    """In the life of the snapshot it hears nothing of the end any more."""
    trainer = Trainer.options(name="trainer").remote(rollouts)
    bystander = Account.options(name="bystander").remote(0)
    assert (read(trainer), read(bystander)) == ([], 0)
    trainer.fit.tell()
    cluster.settle()
    process_of(cluster, "trainer").suspension._hand_over = lambda: None
    rollouts.shutdown()
    cluster.settle()
    snapshot = system.snapshot()
    assert "rollouts" in snapshot.manifest.ended
    assert GlobalState(snapshot).questions("trainer")
    cluster.die(actor(cluster, "bystander"))
    await_life(cluster, system, 2)
    cluster.schedule.pass_s(3.0)
    (letter,) = system.dead_letters()
    assert ActorExited.__name__ in letter.error
    assert read(trainer) == []
