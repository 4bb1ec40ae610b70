"""Replies: asked for with `then`, once, in the handler that made the call - and never waited for."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import rayshot
from rayshot.errors import AnswerTimedOut, ConfigError, MessageNotSerializable, NotAnObjectRef, OutsideHandler
from rayshot.model.current import enter
from rayshot.model.reply import Reply
from tests.model.workloads import Account, Asker


@pytest.fixture
def asker(world):
    """An actor, one of whose handlers is this thread in the midst of."""
    enter(world.cell)
    yield world.construct(Asker)
    enter(None)


def ask(world):
    return world.handle("bob").read.remote()


def test_a_reply_that_nobody_asks_for_is_a_plain_tell(world, asker):
    ask(world)
    (call,) = world.sent["bob"]
    assert call.call_id is None
    assert world.cell.state()["calls"] == {}


def test_then_gives_the_call_an_id_and_keeps_what_comes_next(world, asker):
    ask(world).then(asker.on_result, 1, "two", on_error=asker.on_refusal)
    ask(world).then(asker.on_result)
    assert [call.call_id for call in world.sent["bob"]] == [1, 2]
    assert world.cell.state()["calls"] == {
        1: ("on_result", "on_refusal", (1, "two")),
        2: ("on_result", None, ()),
    }
    assert world.cell.state()["callees"] == {1: "bob", 2: "bob"}


def test_whose_reply_a_call_awaits_is_part_of_the_state_where_it_is_known(world, asker):
    ask(world).then(asker.on_result)
    state = world.cell.state()
    world.cell.load(state, 1)
    assert world.cell.state() == state
    older = {key: part for key, part in state.items() if key != "callees"}
    world.cell.load(older, 1)
    assert world.cell.state() == older
    ask(world).then(asker.on_result)
    assert world.cell.state()["callees"] == {2: "bob"}


def test_then_is_said_once(world, asker):
    reply = ask(world)
    reply.then(asker.on_result)
    with pytest.raises(ConfigError, match="one continuation"):
        reply.then(asker.on_result)
    assert len(world.cell.state()["calls"]) == 1


def test_then_is_said_in_the_handler_that_made_the_call(world, asker):
    reply = ask(world)
    world.cell.open_calls.clear()  # as when the handler ends
    with pytest.raises(ConfigError, match="in the handler that made the call"):
        reply.then(asker.on_result)
    assert world.cell.state()["calls"] == {}


@pytest.mark.acceptance("X13")
def test_then_is_said_on_the_handlers_own_thread_and_of_a_call_that_it_made(world, asker):
    in_thread = ThreadPoolExecutor(1).submit
    reply = ask(world)
    with pytest.raises(OutsideHandler, match=r"comes to handlers only.*with a tell"):
        in_thread(reply.then, asker.on_result).result()
    with pytest.raises(OutsideHandler, match=r"comes to handlers only.*with a tell"):
        Reply(world.cell, None, "bob").then(asker.on_result)  # of a call that a thread made
    reply.then(asker.on_result)
    assert world.cell.state()["calls"] == {1: ("on_result", None, ())}


@pytest.mark.parametrize(
    "foreign",
    [Account(1).deposit, Asker().on_result, Asker.on_result, print, lambda value: value, [].append],
    ids=["another class", "another instance", "unbound", "builtin", "lambda", "method of a list"],
)
def test_a_continuation_that_is_no_bound_method_of_this_actor_is_refused(world, asker, foreign):
    with pytest.raises(ConfigError, match=r"give self\.some_method"):
        ask(world).then(foreign)
    with pytest.raises(ConfigError, match=r"give self\.some_method"):
        ask(world).then(asker.on_result, on_error=foreign)
    assert world.cell.state()["calls"] == {}
    assert all(call.call_id is None for call in world.sent["bob"])


def test_a_refused_continuation_leaves_the_reply_as_it_was(world, asker):
    reply = ask(world)
    with pytest.raises(ConfigError, match=r"give self\.some_method"):
        reply.then(print)
    reply.then(asker.on_result)
    assert world.cell.state()["calls"] == {1: ("on_result", None, ())}


def test_a_reply_that_is_pickled_or_copied_names_then(world, asker):
    reply = ask(world)
    for pickling in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(NotAnObjectRef, match=r"reply\.then\(self\.on_result\)"):
            pickling(reply)


def test_a_reply_in_a_message_is_refused_and_nothing_is_enqueued(world, asker):
    reply = ask(world)
    for value in (reply, [reply]):
        with pytest.raises((NotAnObjectRef, MessageNotSerializable), match=r"\.then"):
            world.handle("carol").keep.tell(value)
    assert world.sent.get("carol", []) == []


def test_get_gives_results_in_order_and_raises_what_was_raised_there(world, asker):
    world.outcomes = [(True, 1), (True, 2)]
    first, second = ask(world), ask(world)
    assert rayshot.get([first, second]) == [1, 2]
    assert (rayshot.get(second), first.get()) == (2, 1)
    world.outcomes = [(False, ValueError("there"))]
    with pytest.raises(ValueError, match="there"):
        rayshot.get(ask(world))
    assert [call.call_id for call in world.sent["bob"]] == [-1, -2, -3]
    assert {*world.cell.state()["questions"]} >= {-1, -2}, "those that are held"


def test_get_says_whose_answer_has_not_come_in_time(world, asker):
    world.outcomes = [(True, 1)]
    with pytest.raises(AnswerTimedOut, match=r"no answer within 2 s from bob"):
        rayshot.get([ask(world), ask(world)], timeout=2)


def test_wait_tells_those_that_are_answered_from_the_others(world, asker):
    world.outcomes = [(True, 1), (True, 2)]
    replies = [ask(world) for _ in range(3)]
    assert rayshot.wait(replies) == (replies[:1], replies[1:])
    assert rayshot.wait(replies, num_returns=2, timeout=0) == (replies[:2], replies[2:])
    for count in (0, 4):
        with pytest.raises(ConfigError, match="there are 3 replies"):
            rayshot.wait(replies, num_returns=count)


def test_what_is_no_reply_cannot_be_waited_for(world, asker):
    with pytest.raises(ConfigError, match=r"use ray\.get"):
        rayshot.get([ask(world), object()])


def test_a_reply_that_the_state_holds_is_loaded_with_its_result(world, asker):
    asker.kept, asker.open = ask(world), ask(world)
    world.cell.ask()  # as when the handler ends
    world.cell.questions[-1].outcome = True, [1]
    other = world.moved()
    loaded = other.cell.instance
    enter(other.cell)
    assert rayshot.get(loaded.kept) == [1]
    assert dict(other.cell.questions).keys() == {-1, -2}
    del loaded.open, loaded.kept
    assert dict(other.cell.questions) == {}


def test_a_reply_that_ray_looks_at_names_then(world, asker):
    surroundings = {"__name__": "ray._private.worker", "reply": ask(world)}
    with pytest.raises(NotAnObjectRef, match=r"\.then"):
        eval("isinstance(reply, int)", surroundings)


def test_a_reply_is_a_reply_to_everybody_else(world, asker):
    reply = ask(world)
    assert isinstance(reply, Reply)
    assert not isinstance(reply, int)
    assert reply.__class__ is Reply
    assert "Reply" in repr(reply)
