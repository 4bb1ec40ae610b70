"""What a handler does with a Reply besides waiting: it returns it, takes it as a future, or continues with several."""

import asyncio

import pytest

import rayshot
from rayshot.errors import ConfigError, WaitsForHandler
from rayshot.properties import judge, lost_reply
from rayshot.runtime.door import door
from tests.fake.account import Account, new_gate, photograph
from tests.fake.system import actor, await_life, read


@rayshot.actor(capture="inline")
class Server:
    def __init__(self):
        self.asked = 0

    def square(self, number):
        self.asked += 1
        return number * number

    def square_behind(self, gate, number):
        Account.gates[gate].wait()
        return self.square(number)

    def fail(self):
        raise ValueError("no such luck")

    def leave_at(self, gate):
        Account.gates[gate].wait()
        rayshot.current().exit()


@rayshot.actor(capture="inline")
class Asker:
    def __init__(self, server):
        self.server, self.found = server, []

    def pass_on(self, number):
        return self.server.square.remote(number)

    def pass_on_failure(self):
        return self.server.fail.remote()

    async def pass_on_later(self, number):
        return self.server.square.remote(number)

    def ask_along(self, other, number):
        self.found.append(rayshot.get(other.pass_on.remote(number)))

    def ask_for_future(self, number):
        self.found.append(self.server.square.remote(number).future().result(timeout=5.0))

    def ask_for_failure(self):
        self.found.append(repr(self.server.fail.remote().future().exception()))

    def ask_too_briefly(self, gate):
        try:
            self.server.square_behind.remote(gate, 2).future().result(timeout=0.5)
        except TimeoutError:
            self.found.append("late")

    async def wrap(self, numbers):
        futures = [self.server.square.remote(number).future() for number in numbers]
        self.found += await asyncio.gather(*map(asyncio.wrap_future, futures))

    async def wrap_briefly(self, gate):
        future = asyncio.wrap_future(self.server.square_behind.remote(gate, 2).future())
        try:
            await asyncio.wait_for(future, 0.5)
        except TimeoutError:
            return "late"

    async def wrap_my_own(self, me):
        await asyncio.wrap_future(me.read.remote().future())

    async def wrap_failure(self):
        try:
            await asyncio.wrap_future(self.server.fail.remote().future())
        except ValueError as error:
            self.found.append(str(error))

    def gather(self, gates, *context):
        replies = [self.server_of(gate).square_behind.remote(gate, number) for number, gate in enumerate(gates, 2)]
        rayshot.gather(replies).then(self.go_on, *context)

    def make_a_gatherer(self, gate, keeper):
        Asker.remote(self.server).gather_for.tell(gate, keeper)

    def gather_for(self, gate, keeper):
        rayshot.gather([self.server.square_behind.remote(gate, 2)]).then(self.give_to, keeper)

    def give_to(self, results, keeper):
        keeper.note.tell(results)

    def note(self, results):
        self.found.append(results)

    def gather_and_wait(self, gate):
        quick, slow = self.server.square.remote(2), self.server.square_behind.remote(gate, 3)
        rayshot.gather([quick, slow]).then(self.go_on, "both")
        self.found.append(rayshot.get(quick))

    def gather_failures(self, *, caught):
        replies = [self.server.square.remote(2), self.server.fail.remote()]
        rayshot.gather(replies).then(self.go_on, on_error=self.note_error if caught else None)

    def keep(self, gate):
        self.kept = self.server.square_behind.remote(gate, 2)

    def misuse(self, what):
        try:
            if what == "nothing":
                rayshot.gather([]).then(self.go_on)
            elif what == "continued":
                reply = self.server.square.remote(2)
                reply.then(self.go_on)
                rayshot.gather([reply]).then(self.go_on)
            elif what == "waited for":
                reply = self.server.square.remote(2)
                rayshot.get(reply)
                rayshot.gather([reply]).then(self.go_on)
            else:
                reply = self.server.square.remote(2)
                rayshot.gather([reply]).then(self.go_on)
                rayshot.gather([reply]).then(self.go_on)
        except ConfigError as error:
            return error.message

    def server_of(self, gate):
        return self.servers[gate] if hasattr(self, "servers") else self.server

    def use(self, servers):
        self.servers = servers

    def go_on(self, results, *context):
        self.found.append((results, *context))

    def note_error(self, error):
        self.found.append(repr(error))

    def read(self):
        return self.found


@pytest.fixture
def asker(system):
    asker = Asker.options(name="asker").remote(Server.options(name="server").remote())
    door.get(asker.read.remote())
    return asker


@pytest.mark.parametrize("method", ["pass_on", "pass_on_later"])
def test_who_calls_a_handler_that_returns_a_reply_gets_the_outcome_of_that_call(asker, method):
    assert door.get(getattr(asker, method).remote(3)) == 9
    with pytest.raises(ValueError, match="no such luck"):
        door.get(asker.pass_on_failure.remote())


def test_an_actor_gets_what_another_one_passes_on(system, asker):
    other = Asker.options(name="other").remote(system.get_actor("server"))
    other.ask_along.tell(asker, 5)
    assert read(other) == [25]


def test_a_reply_is_waited_for_as_a_future(cluster, asker):
    gate = new_gate("gate")
    asker.ask_for_future.tell(3)
    asker.ask_for_failure.tell()
    asker.ask_too_briefly.tell("gate")
    asker.wrap.tell([2, 3])
    asker.wrap_failure.tell()
    cluster.schedule.pass_s(1.0)
    gate.set()
    assert read(asker) == [9, "ValueError('no such luck')", "late", 4, 9, "no such luck"]


def test_an_actor_continues_when_all_answers_are_there_in_their_order(cluster, system, asker):
    servers = {name: Server.options(name=f"server of {name}").remote() for name in ("one", "two")}
    asker.use.tell(servers)
    one, two = new_gate("one"), new_gate("two")
    asker.gather.tell(["one", "two"], "context")
    cluster.settle()
    two.set()
    assert read(asker) == []
    one.set()
    cluster.settle()
    assert read(asker) == [([4, 9], "context")]
    assert actor(cluster, "asker").run.instance._process.cell.state().get("gatherings") is None


@pytest.mark.parametrize("before", [True, False])
def test_what_an_actor_gathers_goes_on_behind_a_rollback(cluster, system, asker, before):
    """`before`: one of the answers is there when the snapshot is taken."""
    servers = {name: Server.options(name=f"server of {name}").remote() for name in ("one", "two")}
    asker.use.tell(servers)
    one, two = new_gate("one"), new_gate("two")
    asker.gather.tell(["one", "two"])
    cluster.settle()
    if before:
        one.set()
    thread, taken = photograph(system)
    cluster.schedule.pass_s(1.0)
    one.set()
    two.set()
    thread.join()
    assert taken[0].verify().sound
    cluster.settle()
    for life, victim in ((2, "asker"), (3, "server of one")):
        cluster.die(actor(cluster, victim))
        await_life(cluster, system, life)
        cluster.schedule.pass_s(1.0)
        assert read(asker) == [([4, 9],)]
    assert system.dead_letters() == []


def test_an_answer_that_was_had_before_its_turn_counts_in_its_turn(cluster, asker):
    gate = new_gate("gate")
    asker.gather_and_wait.tell("gate")
    cluster.settle()
    assert read(asker) == [4]
    gate.set()
    cluster.settle()
    assert read(asker) == [4, ([4, 9], "both")]


def test_the_first_exception_is_that_of_all(cluster, system, asker):
    asker.gather_failures.tell(caught=True)
    cluster.settle()
    assert read(asker) == ["ValueError('no such luck')"]
    asker.gather_failures.tell(caught=False)
    cluster.settle()
    assert "no such luck" in system.dead_letters()[0].error


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("nothing", "got no replies"),
        ("continued", "has a continuation"),
        ("waited for", "before it waits"),
        ("gathered", "gathered once"),
    ],
)
def test_what_cannot_be_gathered_is_refused(asker, what, why):
    assert why in door.get(asker.misuse.remote(what))


@pytest.mark.parametrize("ends", [False, True])
def test_a_question_that_nobody_will_answer_is_found_in_a_snapshot_and_no_other(cluster, system, asker, ends):
    gate = new_gate("gate")
    server = system.get_actor("server")
    if ends:
        server.leave_at.tell("gate")
    asker.keep.tell("gate")
    cluster.settle()
    if ends:
        gate.set()
        cluster.schedule.pass_s(1.0)
    thread, taken = photograph(system)
    cluster.schedule.pass_s(1.0)
    gate.set()
    thread.join()
    verdict = judge(lost_reply(), taken[0])
    assert verdict.holds is ends
    assert ("asker.(a reply that is kept) awaits server" in verdict.why) is ends


def test_a_future_that_is_given_up_leaves_nothing_behind(cluster, asker):
    gate = new_gate("gate")
    result = asker.wrap_briefly.remote("gate")
    cluster.schedule.pass_s(1.0)
    assert door.get(result) == "late"
    gate.set()
    assert read(asker) == []


def test_a_future_of_a_reply_that_cannot_come_is_refused_at_once(asker):
    with pytest.raises(WaitsForHandler):
        door.get(asker.wrap_my_own.remote(asker))


def test_an_actor_without_a_name_lives_until_what_it_gathers_is_there(cluster, system):
    gate = new_gate("gate")
    server = Server.options(name="server").remote()
    keeper = Asker.options(name="keeper").remote(server)
    keeper.make_a_gatherer.tell("gate", keeper)
    cluster.settle()
    gate.set()
    cluster.schedule.pass_s(1.0)
    assert read(keeper) == [[4]]
