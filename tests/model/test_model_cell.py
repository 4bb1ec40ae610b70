"""A cell: one actor's instance, pending calls and timers, in a world in memory."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from unittest.mock import ANY
from weakref import WeakValueDictionary

import pytest

import rayshot
from rayshot.errors import CodeMismatch, ConfigError, MessageNotSerializable, OutsideHandler, UnknownMethod
from rayshot.model.calls import Question
from rayshot.model.current import current, enter
from rayshot.model.specification import ActorSpecification
from tests.model.workloads import (
    Account,
    Asker,
    Connected,
    Counted,
    Fragile,
    Leaver,
    Registered,
    Switchboard,
    Unreadable,
    Wrapper,
)


class Fuse:
    """Cannot be unpickled."""

    def __reduce__(self):
        return _blow, ()


def _blow():
    raise ValueError("blown")


@pytest.fixture
def running(world):
    """The world, while a handler of its cell runs on this thread."""
    enter(world.cell)
    yield world
    enter(None)


# Birth and handlers -------------------------------------------------------------------------------------------------


def test_a_cell_is_born_by_its_constructors_message(world):
    assert not world.cell.born
    instance = world.construct(Account, balance=5)
    assert world.cell.born
    assert type(instance) is Account
    assert instance.balance == 5
    assert world.cell.specification.class_name == "Account"


def test_a_constructor_that_fails_leaves_the_cell_unborn(world):
    with pytest.raises(ValueError, match="no such luck"):
        world.construct(Fragile, fail=True)
    assert not world.cell.born
    with pytest.raises(TypeError, match="fail"):
        world.construct(Fragile)
    assert not world.cell.born


def test_a_class_that_is_not_to_be_found_leaves_the_cell_unborn(world):
    gone = ActorSpecification("tests.model.workloads", "Gone", None, (), {})
    with pytest.raises(CodeMismatch, match="Gone"):
        world.receive(world.codec.create(gone.pack(), world.codec.tell("__init__", ())))
    assert not world.cell.born


def test_constructor_arguments_that_cannot_be_read_leave_the_cell_unborn(world):
    with pytest.raises(ValueError, match="blown"):
        world.construct(Account, Fuse())
    assert not world.cell.born


def test_tells_of_every_form_reach_their_handlers(world):
    account = world.construct(Account, 100)
    world.tell("deposit", 5)
    world.tell("withdraw", 10, fee=1)
    world.tell("note", [1], (2,))
    assert (account.balance, account.log) == (94, [([1], (2,))])


def test_an_exception_of_a_tell_is_raised_and_the_state_stays(world):
    account = world.construct(Account, 1)
    with pytest.raises(ValueError, match="not enough"):
        world.tell("withdraw", 5)
    assert account.balance == 1


def test_an_unknown_method_is_named_with_those_there_are(world):
    world.construct(Account)
    with pytest.raises(UnknownMethod, match=r"'alice' has no method 'steal'; it has deposit.*withdraw"):
        world.tell("steal")
    with pytest.raises(UnknownMethod, match="'__init__'"):
        world.tell("__init__", 7)
    with pytest.raises(UnknownMethod, match="'balance'"):
        world.tell("balance")


def test_an_async_handler_runs_to_completion(world):
    account = world.construct(Account)
    world.tell("deposit_soon", 3)
    assert account.balance == 3
    world.receive(world.codec.call(1, world.codec.tell("deposit_soon", (4,))))
    assert world.answers == [("", 1, 7, True)]


# Calls and replies --------------------------------------------------------------------------------------------------


def test_the_result_of_a_call_is_answered_to_its_sender(world):
    world.construct(Account)
    world.cell.now.sender = "bob"
    world.receive(world.codec.call(7, world.codec.tell("deposit", (5,))))
    assert world.answers == [("bob", 7, 5, True)]


@pytest.mark.parametrize(("method", "args", "kind"), [("withdraw", (1,), ValueError), ("steal", (), UnknownMethod)])
def test_the_exception_of_a_call_is_answered_and_not_raised(world, method, args, kind):
    world.construct(Account)
    world.cell.now.sender = "bob"
    world.receive(world.codec.call(7, world.codec.tell(method, args)))
    ((sender, call_id, error, ok),) = world.answers
    assert (sender, call_id, type(error), ok) == ("bob", 7, kind, False)


def test_arguments_of_a_call_that_cannot_be_read_are_its_callers_error(world):
    world.construct(Account)
    world.receive(world.codec.call(7, world.codec.tell("deposit", (Fuse(),))))
    ((_, _, error, ok),) = world.answers
    assert (str(error), ok) == ("blown", False)


def test_a_reply_continues_with_the_result_and_the_context(world):
    asker = world.construct(Asker)
    world.tell("ask", world.handle("bob"), "a", 2)
    world.receive(world.codec.reply(1, [42], ok=True))
    assert asker.heard == [([42], "a", 2)]
    assert world.cell.state()["calls"] == {}


def test_replies_come_in_any_order(world):
    asker = world.construct(Asker)
    for number in range(3):
        world.tell("ask", world.handle("bob"), number)
    for call_id in (2, 3, 1):
        world.receive(world.codec.reply(call_id, call_id * 10, ok=True))
    assert asker.heard == [(20, 1), (30, 2), (10, 0)]


def test_an_exception_continues_with_on_error(world):
    asker = world.construct(Asker)
    world.tell("ask_carefully", world.handle("bob"), "a")
    world.receive(world.codec.reply(1, ValueError("no"), ok=False))
    assert asker.heard == [(ValueError, "no", "a")]


def test_an_exception_that_cannot_be_read_here_continues_with_on_error_too(world):
    asker = world.construct(Asker)
    world.tell("ask_carefully", world.handle("bob"), "a")
    world.receive(world.codec.reply(1, Unreadable("a"), ok=False))
    world.tell("ask_carefully", world.handle("bob"), "c")
    world.receive(world.codec.reply(2, Unreadable("a"), ok=True))
    assert asker.heard == [(MessageNotSerializable, ANY, "a"), (MessageNotSerializable, ANY, "c")]
    assert world.cell.state()["calls"] == {}


def test_an_exception_that_nobody_waits_for_is_raised_once(world):
    asker = world.construct(Asker)
    world.tell("ask", world.handle("bob"))
    with pytest.raises(ValueError, match="no"):
        world.receive(world.codec.reply(1, ValueError("no"), ok=False))
    assert asker.heard == []
    assert world.cell.state()["calls"] == {}


def test_a_continuation_with_a_private_name_is_found_again(world):
    class Secretive:
        def ask(self, other):
            other.read.remote().then(self.__heard)

        def __heard(self, value):
            self.value = value

    instance = world.construct(Secretive)
    world.tell("ask", world.handle("bob"))
    world.receive(world.codec.reply(1, 42, ok=True))
    assert instance.value == 42


# Timers -------------------------------------------------------------------------------------------------------------


def test_timers_become_messages_to_oneself_in_the_order_they_are_due(running):
    account = running.construct(Account)
    current().after(3, account.note, "late")
    current().after(1, account.note, "soon", [1])
    current().after(1, account.note, "soon too")
    assert running.cell.timers.next_due() == 1
    assert running.cell.timers.take_due() == []
    running.now = 2
    running.receive(*running.cell.timers.take_due())
    assert account.log == [("soon", [1]), ("soon too",)]
    assert running.cell.timers.next_due() == 3
    running.now = 3
    running.receive(*running.cell.timers.take_due())
    assert account.log[2:] == [("late",)]
    assert running.cell.timers.next_due() is None


def test_a_timer_keeps_its_remaining_time_over_a_snapshot(running):
    account = running.construct(Account)
    current().after(10, account.note, "later")
    current().after(3, account.note, "overdue")
    running.now = 4
    moved = running.moved()
    moved.now = 0
    assert sorted(timer.due for timer in moved.cell.timers) == [0, 6]
    moved.receive(*moved.cell.timers.take_due())
    assert moved.cell.instance.log == [("overdue",)]
    moved.now = 6
    moved.receive(*moved.cell.timers.take_due())
    assert moved.cell.instance.log == [("overdue",), ("later",)]


def test_a_timer_is_refused_for_what_is_no_method_of_this_actor(running):
    running.construct(Account)
    for foreign in (Account(1).deposit, print, Account.deposit, lambda: 1):
        with pytest.raises(ConfigError, match=r"give self\.some_method"):
            current().after(1, foreign)
    assert running.cell.timers == []


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), "1", None, timedelta(1)], ids=repr)
def test_a_timer_in_the_past_or_at_no_time_is_refused(running, seconds):
    account = running.construct(Account)
    with pytest.raises(ConfigError, match="0 or more"):
        current().after(seconds, account.deposit, 1)
    assert running.cell.timers.next_due() is None


# Current ------------------------------------------------------------------------------------------------------------


def test_a_handler_knows_its_surroundings(running):
    running.cell.now.sender = "driver:1"
    here = rayshot.current()
    assert (here.name, here.sender, here.system) == ("alice", "driver:1", "bank")
    here.snapshot()
    here.exit()
    assert running.requests == ["snapshot", "end"]


def test_outside_of_a_handler_there_are_no_surroundings(world):
    with pytest.raises(OutsideHandler, match="inside a handler"):
        rayshot.current()


@pytest.mark.acceptance("X13")
def test_a_thread_that_was_given_the_surroundings_may_read_them_and_do_nothing(running):
    account, here, in_thread = running.construct(Account, 5), rayshot.current(), ThreadPoolExecutor(1).submit
    assert in_thread(getattr, here, "name").result() == "alice"
    for action in (here.snapshot, here.exit, lambda: here.after(1.0, account.deposit, 1)):
        with pytest.raises(OutsideHandler, match="on the handler's own thread"):
            in_thread(action).result()
    assert (running.requests, running.cell.timers.next_due()) == ([], None)


# State --------------------------------------------------------------------------------------------------------------


def test_a_state_comes_back_without_the_constructor(world):
    account = world.construct(Account, 5)
    world.tell("note", {"a": (1, 2)})
    moved = world.moved()
    assert moved.cell.born
    assert moved.cell.instance is not account
    assert vars(moved.cell.instance) == {"balance": 5, "log": [({"a": (1, 2)},)]}
    moved.tell("deposit", 1)
    assert (moved.cell.instance.balance, account.balance) == (6, 5)


def test_a_state_that_refers_to_its_own_actor_refers_to_the_one_it_is_loaded_into(world):
    world.construct(Switchboard)
    moved = world.moved()
    here = moved.cell.instance
    assert here.me is here
    moved.tell("press", "up")
    moved.tell("press", "up")
    assert here.count == 2
    assert here.friend is not here
    assert here.friend.count == 0, "another instance of the class is a part of the state like any other"


def test_a_class_that_says_what_its_state_is_gets_that_back(world):
    world.construct(Connected, "db:1")
    assert world.cell.state()["state"] == ("v1", "db:1")
    assert vars(world.moved().cell.instance) == {"address": "db:1", "connection": "v1 to db:1"}


def test_a_class_with_a_getstate_only_gets_its_attributes_set(world):
    world.construct(Counted)
    assert vars(world.moved().cell.instance) == {"count": 1}


@pytest.mark.acceptance("S1")
def test_a_class_that_gives_unknown_names_to_what_it_wraps_comes_back(world):
    world.construct(Wrapper)
    instance = world.moved().cell.instance
    assert (instance.read(), list(instance.keys())) == (1, ["a"])


def test_a_class_with_a_metaclass_comes_back(world):
    world.construct(Registered, 3)
    moved = world.moved()
    assert type(moved.cell.instance) is Registered
    assert moved.cell.instance.read() == 3


def test_what_is_one_object_in_state_context_and_timers_stays_one(running):
    asker = running.construct(Asker)
    running.tell("ask_with_shared", running.handle("bob"))
    asker.itself = asker.shared
    running.cell.after(1, asker.on_result, (asker.shared,))
    cell = running.moved().cell
    (_, _, (in_context,)), ((_, _, (in_timer,)),) = *cell.state()["calls"].values(), cell.state()["timers"]
    assert cell.instance.shared is cell.instance.itself is in_context is in_timer


def test_pending_calls_and_their_numbers_survive(world):
    world.construct(Asker)
    world.tell("ask_carefully", world.handle("bob"), "a")
    world.tell("ask", world.handle("bob"), "b")
    moved = world.moved()
    moved.tell("ask", moved.handle("bob"), "c")
    assert [call.call_id for call in moved.sent["bob"]] == [3]
    moved.receive(moved.codec.reply(1, ValueError("no"), ok=False))
    moved.receive(moved.codec.reply(3, 3, ok=True), moved.codec.reply(2, 2, ok=True))
    assert moved.cell.instance.heard == [(ValueError, "no", "a"), (3, "c"), (2, "b")]


def test_handles_in_a_state_send_from_where_they_were_loaded(world):
    account = world.construct(Account)
    account.friend = world.handle("bob")
    moved = world.moved()
    moved.cell.instance.friend.deposit.tell(1)
    assert moved.messages("bob") == [("deposit", (1,))]
    assert world.messages("bob") == []


def test_a_class_with_slots_keeps_its_state(world):
    class Slotted:
        __slots__ = ("balance",)

        def __init__(self, balance):
            self.balance = balance

    world.construct(Slotted, 7)
    assert world.moved().cell.instance.balance == 7


def test_a_class_that_is_a_container_keeps_its_items_or_is_refused(world):
    class Ledger(dict):
        def put(self, key, value):
            self[key] = value

    try:
        world.construct(rayshot.actor(Ledger))
    except ConfigError:
        return
    world.tell("put", "a", 1)
    assert world.moved().cell.instance == {"a": 1}


def test_the_wish_to_end_is_part_of_the_state(running):
    running.construct(Leaver)
    running.tell("leave")
    assert running.requests == ["end"]
    moved = running.moved()
    assert moved.requests == ["end"]
    assert moved.cell.ending


def test_a_question_that_is_let_go_while_the_state_is_taken_is_no_part_of_it(world):
    """The garbage collector may run at any moment."""
    world.construct(Account, balance=5)
    held = [Question(-1, "server"), Question(-2, "server")]

    class Vanishing(WeakValueDictionary):
        def keys(self):
            found = list(super().keys())
            held.clear()
            return found

    world.cell.questions = Vanishing({question.call_id: question for question in held})
    world.cell.state()
