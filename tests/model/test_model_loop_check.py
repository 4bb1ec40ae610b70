"""What a method with a loop must obey, read from its bytecode."""

import pytest

import rayshot
from rayshot.errors import LoopNotRepeatable
from rayshot.model.loop_check import has_endless_loop, loop_heads

loop = getattr(rayshot, "loop", None)


def take(self):
    for step in rayshot.loop(self.slots.get):
        self.step = self.train(step)


def take_by_short_name(self):
    for _ in loop(every=5.0):
        self.count += 1


def recompute(self):
    n = len(self.data)
    while self.left:
        for step in rayshot.loop(self.slots.get):
            found = [one for one in self.data if one > n]
            if not found:
                break
            for one in found:
                total = one + step
                self.go(total)


async def take_async(self):
    async for item in rayshot.loop(self.slots.get):
        last = item
        async with self.lock:
            for one in last:
                await self.go(one)
        try:
            self.count += 1
        finally:
            self.done()


def return_the_last(self):
    for item in rayshot.loop(self.slots.get):
        if item is None:
            break
    return item


async def return_the_last_async(self):
    async for item in rayshot.loop(self.slots.get):
        if item is None:
            found = self.go(item)
            break
    return item, found


def nothing(self):
    for item in self.loops:
        self.go(item)


RIGHT = [take, take_by_short_name, recompute, take_async, return_the_last, return_the_last_async]


def carry_a_parameter(self, step=0):
    for item in rayshot.loop(self.slots.get):
        self.put(step)
        step = self.train(item, step)


def carry_several(self, consumed):
    last = None
    while self.left:
        bar = self.bar()
        for step in rayshot.loop(self.slots.get):
            consumed += self.generate(step, last)
            last = step
            bar.update(consumed)


async def carry_async(self):
    last = None
    async for item in rayshot.loop(self.slots.get):
        self.note(last, item)
        last = item


def carry_behind_a_break(self):
    while self.left:
        for item in rayshot.loop(self.slots.get):
            if item is None:
                break
            last = item
        self.go(last)


def carry_in_a_lambda(self):
    count = 0
    for step in rayshot.loop(self.slots.get):
        self.call(lambda: count)  # noqa: B023
        count += step


def _with_a_count():
    count = 0

    def carry_in_a_nonlocal(self):
        nonlocal count
        for step in rayshot.loop(self.slots.get):
            count = step

    return carry_in_a_nonlocal, lambda: count


carry_in_a_nonlocal, _ = _with_a_count()


def carry_from_an_except(self):
    failed = 0
    for step in rayshot.loop(self.slots.get):
        try:
            self.go(step)
        except ZeroDivisionError:
            failed += 1
        self.failed = failed


def carry_into_an_except(self):
    last = 0
    for step in rayshot.loop(self.slots.get):
        try:
            self.go(step)
        except ZeroDivisionError:
            self.note(last)
        last = step


def loop_in_for(self):
    for episode in range(3):
        for step in rayshot.loop(self.slots.get):
            self.go(episode, step)


async def loop_in_async_for(self):
    async for episode in self.episodes:
        async for step in rayshot.loop(self.slots.get):
            self.go(episode, step)


async def for_in_loop(self):
    async for step in rayshot.loop(self.slots.get):
        async for item in self.items:
            self.go(item, step)
        for item in self.items:
            self.go(item, step)


def comprehend(self):
    return [step for step in rayshot.loop(self.slots.get)]  # noqa: C416


def loop_in_with(self):
    with self.lock:
        for step in rayshot.loop(self.slots.get):
            self.go(step)


async def loop_in_async_with(self):
    async with self.lock:
        async for step in rayshot.loop(self.slots.get):
            self.go(step)


def loop_in_try(self):
    try:
        for step in rayshot.loop(self.slots.get):
            self.go(step)
    finally:
        self.close()


def two_loops(self):
    for step in rayshot.loop(self.slots.get):
        self.go(step)
    for step in rayshot.loop(self.slots.get):
        self.go(step)


WRONG = {
    carry_a_parameter: "step lives across the top of the loop",
    carry_several: "consumed, last live across",
    carry_async: "last lives across",
    carry_behind_a_break: "last lives across",
    carry_in_a_lambda: "count lives across",
    carry_in_a_nonlocal: "count lives across",
    carry_from_an_except: "failed lives across",
    carry_into_an_except: "last lives across",
    loop_in_for: "inside another `for`",
    loop_in_async_for: "inside another `for`",
    loop_in_with: "inside `with` or `try`",
    loop_in_async_with: "inside `with` or `try`",
    loop_in_try: "inside `with` or `try`",
    two_loops: "has a second rayshot.loop",
}


RIGHT.append(for_in_loop)


@pytest.mark.parametrize("method", RIGHT, ids=lambda one: one.__name__)
def test_what_lives_in_the_state_may_loop(method):
    (head,) = loop_heads(method.__code__)
    first = method.__code__.co_firstlineno
    assert first < head.line <= first + 4


@pytest.mark.parametrize("method", WRONG, ids=lambda one: one.__name__)
def test_what_would_be_lost_names_the_line(method):
    with pytest.raises(LoopNotRepeatable, match=WRONG[method]) as raised:
        loop_heads(method.__code__)
    assert f"{method.__name__} ({__file__}:" in raised.value.message


LONG = "\n".join(f"        self.step_{k}(item)" for k in range(300))
"""So many lines and names that jumps and names need instructions of two parts."""
LONG_METHODS = {
    "long body": f"def fit(self):\n    for item in rayshot.loop(self.slots.get):\n{LONG}",
    "long async body": f"async def fit(self):\n    async for item in rayshot.loop(self.slots.get):\n{LONG}",
    "much above": f"def fit(self):\n    while self.left:\n        item = 1\n{LONG}\n"
    "        for item in rayshot.loop(self.slots.get):\n            self.go(item)",
}


@pytest.mark.parametrize("source", LONG_METHODS.values(), ids=LONG_METHODS)
def test_a_loop_in_a_long_method_is_found(source):
    defined = {}
    exec(source, {"rayshot": rayshot}, defined)
    (head,) = loop_heads(defined["fit"].__code__)
    assert "rayshot.loop" in source.splitlines()[head.line - 1]


def test_what_lives_across_the_top_of_a_loop_with_a_long_body_is_named():
    source = f"{LONG_METHODS['long body']}\n        last = item\n        self.go(last)"
    defined = {}
    exec(source.replace("self.step_0(item)", "self.step_0(last)"), {"rayshot": rayshot}, defined)
    with pytest.raises(LoopNotRepeatable, match="last lives across"):
        loop_heads(defined["fit"].__code__)


def another_loop(self, loop):
    total = 0
    for item in loop(self.items):
        total += item
    for item in loop.items(self.items):
        total += item
    for item in self.loop(self.items):
        total += item
    for item in rayshot.loop.items(self.items):
        total += item
    with self.loop:
        for item in self.loops:
            total += item
    return total


@pytest.mark.parametrize("method", [nothing, another_loop, comprehend], ids=lambda one: one.__name__)
def test_a_method_without_a_loop_has_none(method):
    assert loop_heads(method.__code__) == ()


class Loops:
    """Methods whose loops end, and others."""

    def never(self):
        for item in rayshot.loop(self.queue.get):
            for one in item:
                if one:
                    break
                self.got.append([each for each in one])  # noqa: C416 - a loop of its own
            if not item:
                continue
            try:
                self.go(item)
            except ValueError:
                self.got.clear()

    async def never_async(self):
        async for item in rayshot.loop(self.queue.get):
            async with self.lock:
                await self.go(item)

    def never_in_while(self):
        while self.rounds:
            for _ in rayshot.loop():
                self.got.append(1)

    def ends_by_break(self):
        for item in rayshot.loop(self.queue.get):
            with self.lock:
                if item is None:
                    break

    def ends_by_return(self):
        for item in rayshot.loop(self.queue.get):
            if item is None:
                return

    def ends_in_except(self):
        for item in rayshot.loop(self.queue.get):
            try:
                self.go(item)
            except ValueError:
                break

    async def ends_in_except_async(self):
        async for item in rayshot.loop(self.queue.get):
            try:
                await self.go(item)
            except ValueError:
                break

    async def ends_by_raise(self):
        async for item in rayshot.loop(self.queue.get):
            if item is None:
                raise ValueError

    def has_none(self):
        for item in self.got:
            self.go(item)


def test_a_loop_that_nothing_in_its_body_ends_is_told_from_others():
    methods = [name for name in vars(Loops) if not name.startswith("_")]
    endless = {name for name in methods if has_endless_loop(Loops, name)}
    assert endless == {name for name in methods if name.startswith("never")}
    assert not has_endless_loop(Loops, "no_such_method")
