"""Which methods may be marked with `@rayshot.waits_first`, and where they stand in their first waits."""

import asyncio
import time
from functools import partial

import pytest

import rayshot
from rayshot.errors import ConfigError, MigrationFailed
from rayshot.model.waits_first import check_places, first_waits


class Shapes:
    async def an_event(self):
        await self.event.wait()
        self.done += 1

    async def a_condition(self):
        async with self.lock:
            while not self.items and self.running:
                await self.changed.wait()
            self.taken += 1
            return self.items.popleft()

    async def a_condition_with_len(self):
        async with self.lock:
            while len(self.items) >= self.size:
                await self.changed.wait()
            self.items.append(1)
            self.changed.notify_all()

    async def in_time(self):
        await asyncio.wait_for(self.event.wait(), self.seconds)
        self.done += 1

    async def in_time_of_a_block(self):
        async with asyncio.timeout(self.seconds), self.lock:
            while not self.items:
                await self.changed.wait()
            return self.items.popleft()

    async def one_of_two(self):
        if self.first:
            await self.event.wait()
        else:
            await self.other.wait()
        self.done += 1

    async def two(self):
        await self.event.wait()
        await self.other.wait()
        self.done += 1

    async def refuses_above(self):
        async with self.lock:
            while not self.items:
                if self.closed:
                    raise RuntimeError("closed")
                await self.changed.wait()
            return self.items.popleft()

    async def looks_under_the_lock(self):
        while True:
            async with self.lock:
                if self.items:
                    return self.items.popleft()
            await self.event.wait()

    async def asks_an_event(self):
        while not self.event.is_set():
            await self.event.wait()
        self.done += 1

    async def until_a_deadline(self):
        until = time.monotonic() + self.seconds
        await asyncio.wait_for(self.event.wait(), until - time.monotonic())

    async def two_in_time(self):
        await asyncio.wait_for(self.event.wait(), max(1.0, self.seconds))
        await asyncio.wait({asyncio.create_task(self.other.wait())})
        self.done += 1

    async def gathers(self):
        await asyncio.gather(self.event.wait(), self.other.wait())
        self.done += 1


class Partly:
    """Here only the first `await` is a first wait."""

    async def took_an_item(self):
        item = await self.queue.get()
        await self.event.wait()
        return item

    async def took_an_item_in_time(self):
        item = await asyncio.wait_for(self.queue.get(), self.seconds)
        await self.event.wait()
        return item

    async def took_a_place_in_a_task(self):
        await asyncio.wait({asyncio.create_task(self.places.acquire())})
        await self.event.wait()

    async def awaited_a_helper(self):
        await self.helper()
        await self.event.wait()

    async def comes_again_when_something_is_raised(self):
        await self.event.wait()
        while True:
            try:
                await self.other.wait()
                self.done += 1
                return self.items.pop()
            except IndexError:
                pass


class Wrong:
    async def counts_above(self):
        self.done += 1
        await self.event.wait()

    async def calls_above(self):
        self.prepare()
        await self.event.wait()

    async def pops_above(self):
        item = self.items.pop()
        await self.event.wait()
        return item

    async def sets_an_item_above(self):
        self.items[0] = 1
        await self.event.wait()

    async def pops_in_an_argument(self):
        await self.send(self.items.pop())

    async def pops_of_the_longest(self):
        item = max(self.items, key=len).pop()
        await self.event.wait()
        return item

    async def adds_in_place(self):
        items = self.items
        items += [1]
        await self.event.wait()

    async def enters(self):
        with self.busy:
            await self.event.wait()

    async def waits_for_nothing(self):
        return 1

    async def comes_again(self):
        while True:
            await self.event.wait()
            self.done += 1


def methods(of):
    return [one for name, one in vars(of).items() if not name.startswith("_")]


@pytest.mark.parametrize("method", methods(Shapes), ids=lambda one: one.__name__)
def test_what_changes_nothing_before_its_first_wait_may_be_marked(method):
    assert rayshot.waits_first(method) is method


@pytest.mark.parametrize("method", methods(Wrong), ids=lambda one: one.__name__)
def test_what_may_have_changed_the_state_may_not(method):
    with pytest.raises(ConfigError, match=rf"{method.__name__} is marked with @rayshot.waits_first, and something"):
        rayshot.waits_first(method)


@pytest.mark.parametrize("method", methods(Partly), ids=lambda one: one.__name__)
def test_behind_what_may_have_changed_the_state_no_wait_is_a_first_one(method):
    assert len(first_waits(method.__code__)) == 1


def test_each_of_several_waits_that_change_nothing_is_a_first_one():
    assert len(first_waits(Shapes.two_in_time.__code__)) == len(first_waits(Shapes.two.__code__)) == 2


def test_the_lines_of_what_may_have_changed_the_state_are_named():
    first = Wrong.counts_above.__code__.co_firstlineno + 1
    with pytest.raises(ConfigError, match=rf"first `await` \({__file__}:{first}\), or it has none"):
        rayshot.waits_first(Wrong.counts_above)
    with pytest.raises(ConfigError, match=r"first `await`, or it has none"):
        rayshot.waits_first(Wrong.waits_for_nothing)


@pytest.mark.parametrize("what", [len, partial(Shapes.an_event)])
def test_what_is_no_async_function_may_not(what):
    with pytest.raises(ConfigError, match="is for `async def` methods"):
        rayshot.waits_first(what)


def test_handlers_that_wait_need_places(caplog):
    check_places(0, 1, "desk")
    check_places(3, 4, "desk")
    assert not caplog.records
    check_places(4, 4, "desk")
    assert "4 handlers wait, and max_concurrency=4 has no place for another" in caplog.text
    with pytest.raises(MigrationFailed, match="max_concurrency=1 has no place for another: keep it at 2 or more"):
        check_places(1, 1, "desk")


class Gate:
    """Whoever comes through waits, unless it is open."""

    def __init__(self, *, is_open):
        self.is_open = is_open

    def __await__(self):
        if not self.is_open:
            yield

    def wait(self):
        return self


class Stands:
    def __init__(self):
        self.event, self.other, self.done = Gate(is_open=True), Gate(is_open=False), 0

    async def behind(self):
        await self.event.wait()
        self.done += 1
        await self.other.wait()

    async def chain(self):
        await self.event.wait()
        await self.other.wait()


@pytest.mark.parametrize(("method", "is_first"), [("behind", False), ("chain", True)])
def test_a_wait_behind_a_change_is_no_first_one_also_if_none_before_it_lasted(method, is_first):
    coroutine = getattr(Stands(), method)()
    coroutine.send(None)
    assert (coroutine.cr_frame.f_lasti in first_waits(coroutine.cr_code)) is is_first
    coroutine.close()
