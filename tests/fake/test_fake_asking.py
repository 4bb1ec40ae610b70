"""Handlers that wait for the answers of other actors, inside consistent snapshots."""

import asyncio
from contextlib import suppress

import pytest

import rayshot
from rayshot.errors import ActorExited, AnswerTimedOut, ConfigError, RayshotError, SnapshotAborted, WaitsForHandler
from rayshot.model.configuration import SnapshotConfig
from rayshot.properties.global_state import GlobalState
from rayshot.properties.waiting import waiting_handlers
from rayshot.runtime.door import door
from tests.fake.account import Account, new_gate, photograph
from tests.fake.system import actor, await_life, begin, coordinator


@rayshot.actor(capture="inline")
class Server:
    """Counts its questions."""

    def __init__(self):
        self.asked = 0

    def square(self, number):
        self.asked += 1
        return number * number

    def square_behind(self, gate, number):
        Account.gates[gate].wait()
        return self.square(number)

    def wait_at(self, gate):
        Account.gates[gate].wait()

    def fail(self):
        raise ValueError("no such luck")

    def leave(self):
        rayshot.current().exit()

    def leave_at(self, gate):
        Account.gates[gate].wait()
        rayshot.current().exit()

    def pump(self, asker, count):
        for number in range(count):
            asker.note.tell(number)
        return count


@rayshot.actor(capture="inline")
class Asker:
    """Keeps what it was answered."""

    def __init__(self, server):
        self.server, self.answers, self.notes = server, [], []
        self.before = 0

    def ask(self, number):
        self.before += 1
        self.answers.append(rayshot.get(self.server.square.remote(number)))

    def ask_all(self, numbers):
        self.answers += rayshot.get([self.server.square.remote(number) for number in numbers])

    def ask_behind(self, gate, number, within_s=None):
        self.before += 1
        reply = self.server.square_behind.remote(gate, number)
        try:
            self.answers.append(rayshot.get(reply, timeout=within_s))
        except AnswerTimedOut:
            self.answers.append("late")

    def ask_and_leave(self, gate, within_s):
        with suppress(AnswerTimedOut):
            rayshot.get(self.server.square_behind.remote(gate, 3), timeout=within_s)
        rayshot.current().exit()

    def ask_at(self, gate, number):
        Account.gates[gate].wait()
        self.ask(number)

    def ask_by_way_of(self, gate, other):
        Account.gates[gate].wait()
        rayshot.get(other.read.remote())

    def ask_beside(self, number):
        self.server.square.remote(number)
        self.ask(number)

    def ask_twice(self, number):
        reply = self.server.square.remote(number)
        self.answers += [rayshot.get(reply), reply.get()]

    def ask_for_failure(self, method):
        try:
            rayshot.get(getattr(self.server, method).remote())
        except (ValueError, ActorExited) as error:
            self.answers.append(type(error).__name__)

    def ask_of_two(self, slow, quick):
        replies = [self.server.square_behind.remote(slow, 2), quick.square.remote(3)]
        done, waiting = rayshot.wait(replies)
        self.answers += [len(done), len(waiting), rayshot.get(done)]

    def ask_myself(self, me):
        rayshot.get(me.read.remote())

    def be_pumped(self, me, count):
        self.answers.append(rayshot.get(self.server.pump.remote(me, count)))

    def be_pumped_at(self, gate, me, count):
        self.answers.append(rayshot.get(self.server.pump.remote(me, count)))
        Account.gates[gate].wait()

    def keep_a_reply(self, gate, number):
        self.reply = self.server.square_behind.remote(gate, number)

    def keep_my_own(self, me):
        self.reply = me.just_answers.remote()

    def just_answers(self):
        return list(self.answers)

    def wait_for_what_goes_on(self):
        reply = self.server.square.remote(3)
        reply.then(self.note)
        rayshot.get(reply)

    def ask_later(self):
        self.answers.append(rayshot.get(self.reply))
        del self.reply

    def note(self, number):
        self.notes.append(number)

    def read(self):
        return self.answers, self.before, self.notes


@rayshot.actor(capture="inline")
class AsyncAsker(Asker):
    """The same, in `async def` handlers."""

    async def ask(self, number):
        self.before += 1
        self.answers.append(await self.server.square.remote(number))

    async def ask_all(self, numbers):
        self.answers += await asyncio.gather(*(self.server.square.remote(number) for number in numbers))

    async def ask_behind(self, gate, number, within_s=None):
        self.before += 1
        try:
            self.answers.append(await asyncio.wait_for(self.server.square_behind.remote(gate, number), within_s))
        except TimeoutError:
            self.answers.append("late")

    async def ask_beside(self, number):
        self.server.square.remote(number)
        await self.ask(number)

    async def ask_twice(self, number):
        reply = self.server.square.remote(number)
        self.answers += [await reply, await reply]

    async def ask_for_failure(self, method):
        try:
            await getattr(self.server, method).remote()
        except (ValueError, ActorExited) as error:
            self.answers.append(type(error).__name__)

    async def ask_of_two(self, slow, quick):
        tasks = [
            asyncio.ensure_future(one) for one in (self.server.square_behind.remote(slow, 2), quick.square.remote(3))
        ]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.answers += [len(done), len(waiting), [task.result() for task in done]]
        for task in waiting:
            task.cancel()

    async def ask_myself(self, me):
        await me.read.remote()

    async def be_pumped(self, me, count):
        self.answers.append(await self.server.pump.remote(me, count))

    async def ask_later(self):
        self.answers.append(await self.reply)
        del self.reply


@rayshot.actor
class AskingAtBirth:
    def __init__(self, server, gate=None):
        self.found = rayshot.get(server.square_behind.remote(gate, 3) if gate else server.square.remote(3))

    def read(self):
        return self.found


@rayshot.actor
class FailingAtBirth:
    def __init__(self, server):
        raise ValueError(rayshot.get(server.square.remote(3)))


@pytest.fixture(params=[Asker, AsyncAsker], ids=["plain", "async"])
def asker(system, request):
    server = Server.options(name="server").remote()
    asker = request.param.options(name="asker").remote(server)
    door.get(asker.read.remote())
    return asker


def answers(asker):
    return door.get(asker.read.remote())[0]


def test_a_handler_gets_what_another_one_returns(asker):
    asker.ask.tell(3)
    asker.ask_all.tell([1, 2, 3])
    asker.ask_twice.tell(4)
    assert answers(asker) == [9, 1, 4, 9, 16, 16]


def test_a_constructor_asks(cluster, system):
    assert door.get(AskingAtBirth.remote(Server.options(name="server").remote()).read.remote()) == 9


def test_a_constructor_that_asks_and_fails_then_makes_the_system_go_back(cluster, system):
    """Its question is part of the server's state, so it cannot count as an actor that never began."""
    server = Server.options(name="server").remote()
    door.get(server.square.remote(1))
    system.snapshot()
    FailingAtBirth.options(name="fails").remote(server)
    cluster.until(lambda: system.status().state == "stopped")
    assert "the constructor of actor 'fails' raised ValueError(9)" in system.status().detail
    assert system.status().incarnation > 1


def test_who_waits_for_its_own_answer_gets_it_if_it_has_come(cluster, system, asker):
    asker.keep_my_own.tell(asker)
    cluster.settle()
    asker.ask_later.tell()
    assert answers(asker) == [[]]


def test_a_coordinator_that_is_silent_keeps_no_answer_from_its_handler(cluster, system, asker):
    gate = new_gate("gate")
    asker.ask_behind.tell("gate", 5)
    cluster.settle()
    coordinator(cluster).run.is_stopped = True
    cluster.schedule.pass_s(5.0)
    gate.set()
    cluster.schedule.pass_s(1.0)
    assert actor(cluster, "asker").run.instance._process.cell.instance.answers == [25]
    cluster.go_on(coordinator(cluster).run)


def test_a_system_is_shut_down_whose_handlers_and_constructors_wait(cluster, system, asker):
    new_gate("gate")
    asker.ask_behind.tell("gate", 3)
    AskingAtBirth.remote(system.get_actor("server"), "gate")
    cluster.schedule.pass_s(5.0)
    system.shutdown()
    cluster.schedule.pass_s(60.0)
    assert cluster.named == {}


def test_what_another_handler_raises_is_raised_where_it_is_waited_for(asker):
    asker.ask_for_failure.tell("fail")
    assert answers(asker) == ["ValueError"]


def test_who_asks_an_actor_that_ends_is_told_so(cluster, system, asker):
    new_gate("gate")
    system.get_actor("server").leave_at.tell("gate")
    asker.ask_for_failure.tell("square")
    cluster.settle()
    Account.gates["gate"].set()
    assert answers(asker) == [ActorExited.__name__]


@pytest.mark.parametrize("within_s", [None, 1.0])
def test_the_answers_of_an_actor_that_ends_where_it_asked_are_no_dead_letters(cluster, system, asker, within_s):
    gate = new_gate("gate")
    asker.ask_and_leave.tell("gate", within_s)
    asker.note.tell("behind")
    cluster.schedule.pass_s(2.0)
    gate.set()
    cluster.schedule.pass_s(5.0)
    assert "asker" in system.snapshot().manifest.ended
    assert [letter.method for letter in system.dead_letters()] == ["note"]


def test_a_wait_ends_when_its_time_is_up_and_the_late_answer_counts_for_nothing(cluster, system, asker):
    gate = new_gate("gate")
    asker.ask_behind.tell("gate", 5, 1.0)
    cluster.schedule.pass_s(2.0)
    gate.set()
    asker.ask.tell(3)
    assert answers(asker) == ["late", 9]
    assert system.dead_letters() == []


def test_one_of_several_answers_is_enough_where_that_is_asked_for(cluster, system, asker):
    gate = new_gate("gate")
    asker.ask_of_two.tell("gate", Server.options(name="quick").remote())
    assert answers(asker) == [1, 1, [9]]
    gate.set()


def test_who_waits_for_itself_is_told_so_at_once(system, asker):
    asker.ask_myself.tell(asker)
    assert answers(asker) == []
    (letter,) = system.dead_letters()
    assert WaitsForHandler.__name__ in letter.error


@pytest.mark.acceptance("A7")
@pytest.mark.parametrize("comes", ["before", "in the handler", "behind a rollback", "before a rollback"])
def test_a_reply_that_is_kept_is_part_of_the_state_and_a_later_handler_waits_for_it(cluster, system, asker, comes):
    """The answer comes before that handler waits, or while it does; the system may go back in between."""
    gate = new_gate("gate")
    asker.keep_a_reply.tell("gate", 3)
    cluster.settle()
    if "before" in comes:
        gate.set()
        cluster.settle()
    if "rollback" in comes:
        if comes == "before a rollback":
            system.snapshot()
        else:
            thread, taken = photograph(system)  # it holds the question, on its way or not handled
            cluster.schedule.pass_s(3.0)
            gate.set()
            thread.join()
            assert taken[0].verify().sound
        cluster.die(actor(cluster, "asker"))
        await_life(cluster, system, 2)
    asker.ask_later.tell()
    cluster.settle()
    gate.set()
    assert answers(asker) == [9]
    cluster.settle()
    assert actor(cluster, "asker").run.instance._process.cell.state().get("questions") is None
    assert system.dead_letters() == []


def test_a_reply_that_has_a_continuation_is_not_waited_for(system, asker):
    asker.wait_for_what_goes_on.tell()
    assert answers(asker) == []
    assert ConfigError.__name__ in system.dead_letters()[0].error


def test_an_answer_that_stands_behind_many_other_messages_comes_all_the_same(asker):
    """The server sends more than its credit, and the asker handles none of it while it waits."""
    asker.be_pumped.tell(asker, 5000)
    found, _, notes = door.get(asker.read.remote())
    assert (found, notes) == ([5000], [])
    assert door.get(asker.read.remote())[2] == list(range(5000))


def test_a_snapshot_is_taken_as_soon_as_nobody_waits_and_holds_no_half_of_a_handler(cluster, system, asker):
    gate = new_gate("gate")
    asker.ask_behind.tell("gate", 5)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(3.0)
    assert not taken
    assert system.status().actors["asker"].waits_for == ("server",)
    assert system.status().actors["server"].waits_for == ()
    gate.set()
    thread.join()
    state = taken[0].states()["asker"]
    assert (state["answers"], state["before"]) == ([25], 1)
    assert taken[0].states()["server"] == {"asked": 1}
    taken[0].verify()
    assert system.status().aborted == 0


@pytest.mark.parametrize("earlier", [False, True])
def test_an_answer_from_behind_the_marker_of_a_snapshot_is_waited_for_and_the_snapshot_is_not(cluster, system, earlier):
    """The server has recorded, and the asker has not. `earlier`: it asks only when it has heard of the snapshot."""
    server = Server.options(name="server").remote()
    asker = Asker.options(name="asker").remote(server)
    gate = new_gate("gate")
    if earlier:
        asker.ask_at.tell("gate", 5)
    else:
        server.wait_at.tell("gate")
        asker.ask.tell(5)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(1.0)
    gate.set()
    cluster.schedule.pass_s(5.0)
    assert answers(asker) == [25]
    thread.join()
    assert not isinstance(taken[0], RayshotError), taken[0]
    assert taken[0].states()["asker"]["answers"] == [25]


def test_an_answer_that_was_had_before_its_turn_is_in_flight_and_counts_for_nothing(cluster, system, asker):
    gate = new_gate("gate")
    asker.be_pumped_at.tell("gate", asker, 10)
    cluster.settle()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(3.0)
    gate.set()
    thread.join()
    *tells, answer = taken[0].channel("server", "asker").messages
    assert [message.args for message in tells] == [(number,) for number in range(10)]
    assert (answer.kind, answer.args) == ("reply", (10,))
    assert [message.kind for message in GlobalState(taken[0]).messages()] == ["tell"] * 10
    cluster.die(actor(cluster, "asker"))
    await_life(cluster, system, 2)
    assert door.get(asker.read.remote()) == ([10], 0, list(range(10)))
    assert system.dead_letters() == []


def test_a_call_whose_reply_nobody_holds_costs_no_answer(cluster, system, asker):
    asker.ask_beside.tell(3)
    assert answers(asker) == [9]
    process = actor(cluster, "asker").run.instance._process
    assert process.channels.mailbox.received()["server"] == 1
    assert dict(process.cell.questions) == {}


def test_a_request_whose_time_is_up_while_a_handler_waits_says_so(cluster):
    system = begin(snapshots=SnapshotConfig(timeout_s=2.0))
    asker = Asker.options(name="asker").remote(Server.options(name="server").remote())
    gate = new_gate("gate")
    asker.ask_behind.tell("gate", 5)
    cluster.settle()
    with pytest.raises(
        SnapshotAborted, match=r"ask_behind of 'asker' \(test_fake_asking.py:\d+\) has waited"
    ) as caught:
        system.snapshot()
    assert "for 'server' for 1 s; square_behind of 'server' runs" in caught.value.message
    assert caught.value.evidence["reason"] == "suspended"
    assert system.status().aborted == 1
    gate.set()
    assert answers(asker) == [25]
    assert system.snapshot().verify().sound


@pytest.mark.acceptance("A8")
@pytest.mark.parametrize("victim", ["server", "asker"])
def test_after_a_rollback_the_question_is_asked_again_and_answered_once(cluster, system, asker, victim):
    system.snapshot()
    gate = new_gate("gate")
    asker.ask_behind.tell("gate", 5)
    cluster.settle()
    cluster.die(actor(cluster, victim))
    await_life(cluster, system, 2)
    gate.set()
    cluster.schedule.pass_s(1.0)
    assert door.get(asker.read.remote()) == ([25], 1, [])
    assert actor(cluster, "server").run.instance._process.cell.instance.asked == 1


def test_a_wait_of_ten_seconds_is_warned_of_with_its_chain_and_shown(cluster, system, asker, caplog):
    gate = new_gate("gate")
    asker.ask_behind.tell("gate", 5)
    cluster.schedule.pass_s(9.0)
    assert "a handler waits" not in caplog.text
    cluster.schedule.pass_s(4.0)
    (warning,) = [record.message for record in caplog.records if "a handler waits" in record.message]
    assert "test_fake_asking.py:" in warning
    assert "square_behind of 'server' runs" in warning
    status = system.status().actors["asker"]
    assert (status.waits_for, round(status.waits_s)) == (("server",), 13)
    assert status.waits_at.startswith("test_fake_asking.py:")
    cluster.schedule.pass_s(20.0)
    assert sum("a handler waits" in record.message for record in caplog.records) == 2
    gate.set()
    assert answers(asker) == [25]
    assert system.status().actors["asker"].waits_at == ""


def test_handlers_that_wait_for_each_other_are_named(cluster, system, asker):
    other = Asker.options(name="other").remote(asker)
    door.get(other.read.remote())
    gate = new_gate("gate")
    asker.ask_by_way_of.tell("gate", other)
    other.ask_by_way_of.tell("gate", asker)
    cluster.settle()
    assert waiting_handlers(system.status()).cycles() == []
    gate.set()
    cluster.settle()
    assert waiting_handlers(system.status()).cycles() == [["asker", "other"]]
