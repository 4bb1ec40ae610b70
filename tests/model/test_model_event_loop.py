"""Coroutines of an actor: one loop for its life, one handler at a time, and nothing that goes on behind a handler."""

import _thread
import asyncio
import contextlib
import gc
import logging
import re
import threading
import warnings

import pytest

import rayshot
from rayshot.errors import HandlersTakeTurns, OutsideHandler, TaskLeftBehind, WaitsForHandler
from rayshot.model import event_loop
from rayshot.model.event_loop import Coroutines

pytestmark = pytest.mark.acceptance("O5")
WARNED = threading.Event()
"""Two warnings were given."""


async def numbers(seen):
    try:
        for number in range(3):
            yield number
    finally:
        await asyncio.sleep(0)
        seen.append("closed")


async def passed_on(generator):
    async for number in generator:
        yield number


class Async:
    """Its handlers do what each test needs."""

    def __init__(self):
        self.seen = []
        self.event = asyncio.Event()

    async def note_loop(self):
        self.seen.append(asyncio.get_running_loop())

    async def begin(self, seconds):
        self.kept = asyncio.create_task(self.tick(seconds))
        return "begun"

    def begin_plainly(self, seconds):
        self.kept = asyncio.get_event_loop().create_task(self.tick(seconds))

    async def tick(self, seconds):
        try:
            await asyncio.sleep(seconds)
            self.seen.append("ticked")
        finally:
            self.seen.append("over")

    async def begin_and_fail(self):
        asyncio.create_task(self.tick(60))  # noqa: RUF006 - left behind is what it is
        raise ValueError("no such luck")

    async def begin_stubborn(self):
        async def stay():
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self.seen.append("stays")

        self.kept = asyncio.create_task(stay())

    async def begin_exit(self):
        async def leave():
            raise SystemExit(3)

        self.kept = asyncio.create_task(leave())
        await asyncio.sleep(60)

    async def take_one(self):
        async for number in numbers(self.seen):
            self.seen.append(number)
            break

    async def take_one_of_many(self):
        async for number in passed_on(passed_on(passed_on(numbers(self.seen)))):
            self.seen.append(number)
            break

    async def keep_numbers(self):
        self.generator = numbers(self.seen)
        self.seen.append(await anext(self.generator))

    async def wait(self):
        await self.event.wait()

    async def wait_shielded(self):
        await asyncio.shield(asyncio.create_task(self.event.wait()))

    async def wait_gathered(self):
        await asyncio.gather(self.event.wait(), asyncio.gather(self.event.wait(), asyncio.sleep(0)))

    async def wait_for_first(self):
        await asyncio.wait([asyncio.create_task(self.event.wait())], return_when=asyncio.FIRST_COMPLETED)

    async def wait_in_group(self):
        async with asyncio.TaskGroup() as group:
            group.create_task(self.event.wait())

    async def wait_for_future(self):
        future = asyncio.get_running_loop().create_future()
        wake = asyncio.get_running_loop().call_soon_threadsafe
        _thread.start_new_thread(lambda: (WARNED.wait(30), wake(future.set_result, 7)), ())  # as native code does
        return await future

    async def poll(self):
        while not WARNED.is_set():  # noqa: ASYNC110 - as programs do
            await asyncio.sleep(0.01)

    async def wait_for_slow_thread(self):
        queue, wake = asyncio.Queue(), asyncio.get_running_loop().call_soon_threadsafe
        threading.Thread(target=lambda: (WARNED.wait(30), wake(queue.put_nowait, 5))).start()
        return await queue.get()

    async def wait_for_slow_job(self):
        wake = asyncio.get_running_loop().call_soon_threadsafe
        job = asyncio.to_thread(lambda: (WARNED.wait(30), wake(self.event.set)))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(job, 0.01)
        await self.event.wait()

    async def wait_with_timeout(self):
        async with asyncio.timeout(0.01):
            await self.event.wait()

    async def wait_for_thread(self):
        loop = asyncio.get_running_loop()
        threading.Timer(0.01, lambda: loop.call_soon_threadsafe(self.event.set)).start()
        await self.event.wait()

    async def compute(self):
        return await asyncio.to_thread(lambda: sum(range(10)))

    async def names(self):
        async with asyncio.TaskGroup() as group:
            names = [group.create_task(self.own_name()) for _ in range(2)]
        with pytest.raises(OutsideHandler):
            await asyncio.to_thread(rayshot.current)
        return [task.result() for task in names]

    async def own_name(self):
        return rayshot.current().name

    def compute_plainly(self):
        return asyncio.run(self.compute())


class Opened:
    """Its constructor awaits."""

    async def __init__(self):
        await asyncio.sleep(0)
        self.loop = asyncio.get_running_loop()

    async def same(self):
        return self.loop is asyncio.get_running_loop()


@pytest.fixture
def actor(world):
    yield world.construct(Async)
    world.cell.coroutines.close()


def ask(world, method, *args):
    """What a call of this method answers; raises what it raised."""
    world.receive(world.codec.call(1, world.codec.tell(method, args)))
    _, _, value, ok = world.answers.pop()
    if not ok:
        raise value
    return value


def test_all_handlers_of_an_actor_run_on_one_loop(world, actor):
    world.tell("note_loop")
    world.tell("note_loop")
    first, second = actor.seen
    assert first is second
    assert not first.is_closed()


def test_a_constructor_may_be_a_coroutine(world):
    world.construct(Opened)
    assert ask(world, "same") is True
    world.cell.coroutines.close()


def test_a_task_that_a_handler_leaves_behind_is_named_and_ended(world, actor):
    with pytest.raises(
        TaskLeftBehind, match=r"'alice'.*Async\.tick \(test_model_event_loop\.py:\d+\).*current\(\)\.after"
    ):
        ask(world, "begin", 60)
    assert actor.seen == ["over"]
    assert actor.kept.cancelled()
    world.tell("note_loop")
    assert len(actor.seen) == 2, "the next handler runs as ever"


def test_a_plain_handler_that_leaves_a_task_behind_is_blamed_itself(world, actor):
    world.cell.coroutines.enter()
    try:
        with pytest.raises(TaskLeftBehind, match=r"Async\.tick"):
            ask(world, "begin_plainly", 60)
        assert actor.kept.cancelled()
        ask(world, "begin_plainly", 0)
        assert actor.kept.done(), "one that ends at once may do so"
        assert ask(world, "compute") == 45
    finally:
        asyncio.set_event_loop(None)


class BeginsInConstructor:
    """Its constructor leaves a task behind."""

    def __init__(self):
        self.kept = asyncio.get_event_loop().create_task(self.tick())

    async def tick(self):
        await asyncio.sleep(60)


def test_a_plain_constructor_that_leaves_a_task_behind_is_blamed_itself(world):
    world.cell.coroutines.enter()
    try:
        with pytest.raises(TaskLeftBehind, match=r"BeginsInConstructor\.tick"):
            world.construct(BeginsInConstructor)
        world.cell.coroutines.close()
    finally:
        asyncio.set_event_loop(None)


def test_a_task_that_has_nothing_to_wait_for_may_end_behind_its_handler(world, actor):
    assert ask(world, "begin", 0) == "begun"
    assert actor.seen == ["ticked", "over"]


def test_the_error_of_a_handler_says_what_it_left_behind(world, actor):
    with pytest.raises(ValueError, match="no such luck") as caught:
        ask(world, "begin_and_fail")
    assert "Async.tick" in caught.value.__notes__[0]
    assert actor.seen == ["over"]


def test_a_task_that_will_not_be_cancelled_goes_on_nowhere(world, actor, monkeypatch):
    monkeypatch.setattr(event_loop, "CANCEL_S", 0.05)
    with pytest.raises(TaskLeftBehind, match="stay"):
        ask(world, "begin_stubborn")
    seen = len(actor.seen)
    world.tell("note_loop")
    assert actor.seen[:seen] == ["stays"] * seen
    assert len(actor.seen) == seen + 1
    loop = actor.kept.get_loop()
    assert loop.is_closed()
    assert loop is not actor.seen[-1]


def test_a_task_that_raises_systemexit_takes_its_handler_with_it(world, actor):
    with pytest.raises(SystemExit):
        world.tell("begin_exit")
    world.tell("note_loop")
    assert asyncio.all_tasks(actor.seen[-1]) == set()


def test_a_generator_that_was_not_exhausted_ends_with_its_handler(world, actor):
    world.tell("take_one")
    gc.collect()
    assert actor.seen == [0, "closed"]


def test_generators_that_hold_others_end_with_their_handler(world, actor):
    world.tell("take_one_of_many")
    assert actor.seen == [0, "closed"]
    world.tell("note_loop")
    assert not actor.seen[-1].is_closed()


def test_a_generator_that_is_kept_ends_with_its_actor(world, actor):
    world.tell("keep_numbers")
    assert actor.seen == [0]
    world.cell.coroutines.close()
    assert actor.seen == [0, "closed"]
    world.cell.coroutines.close()  # again does no harm


def test_a_handler_that_waits_for_another_one_is_told_so(world, actor, monkeypatch):
    monkeypatch.setattr(event_loop, "SILENCE_S", 0.05)
    with pytest.raises(WaitsForHandler, match=r"'alice'.*continue in that other handler"):
        ask(world, "wait")
    with pytest.raises(TimeoutError):
        ask(world, "wait_with_timeout")
    assert ask(world, "compute") == 45


@pytest.mark.parametrize("method", ["wait_gathered", "wait_shielded", "wait_for_first", "wait_in_group"])
def test_a_handler_that_waits_for_another_one_by_way_of_tasks_is_told_so(world, actor, monkeypatch, method):
    monkeypatch.setattr(event_loop, "SILENCE_S", 0.05)
    with pytest.raises(WaitsForHandler, match="continue in that other handler"):
        ask(world, method)
    assert ask(world, "compute") == 45


@pytest.mark.parametrize(
    ("method", "answer"),
    [("wait_for_future", 7), ("poll", None), ("wait_for_slow_thread", 5), ("wait_for_slow_job", None)],
)
def test_of_a_handler_that_may_be_woken_from_outside_a_warning_says_where_it_waits(
    world, actor, monkeypatch, caplog, method, answer
):
    monkeypatch.setattr(event_loop, "SILENCE_S", 0.02)
    WARNED.clear()
    place = event_loop.place
    places = []

    def place_of(task):
        places.append(place(task))
        if len(places) == 2:
            WARNED.set()
        return places[-1]

    monkeypatch.setattr(event_loop, "place", place_of)
    with caplog.at_level(logging.WARNING, "rayshot"):
        assert ask(world, method) == answer
    first, *more = [record.getMessage() for record in caplog.records]
    assert first.startswith(f"actor 'alice': handler Async.{method} began ")
    assert re.search(r"waits at .*test_model_event_loop\.py:\d+; if it waits for another handler", first)
    assert "rayshot help porting#async" in first
    assert 1 <= len(more) < 10, "at growing intervals"


def test_a_handler_may_wait_for_a_thread(world, actor):
    ask(world, "wait_for_thread")
    assert actor.event.is_set()
    assert ask(world, "compute") == 45
    assert ask(world, "compute_plainly") == 45


def test_coroutines_and_their_tasks_know_their_surroundings_and_threads_do_not(world, actor):
    assert ask(world, "names") == ["alice", "alice"]


def test_a_class_with_async_handlers_is_told_once_that_they_take_turns():
    with pytest.warns(
        HandlersTakeTurns, match=r"Async has async handlers \(begin, .*take turns.*rayshot help porting#async"
    ) as told:
        rayshot.actor(Async)
    (warning,) = told
    assert warning.filename == __file__
    with pytest.warns(HandlersTakeTurns) as told:
        rayshot.actor(capture="inline")(type("Other", (Async,), {}))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rayshot.actor(Async)
        rayshot.actor(type("Plain", (), {"read": lambda self: 1}))


def test_the_loop_is_closed_with_its_coroutines():
    coroutines = Coroutines("alice")

    async def here():
        return asyncio.get_running_loop()

    loop = coroutines.run(here())
    coroutines.close()
    assert loop.is_closed()
