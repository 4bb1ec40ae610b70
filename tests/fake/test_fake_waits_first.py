"""Methods that wait first in actors whose handlers run at once, and handlers that continue there what others began."""

import asyncio

import pytest

import rayshot
from rayshot.errors import LoopNotRepeatable
from rayshot.model.specification import ActorSpecification
from rayshot.runtime.door import door
from tests.fake.system import actor, await_life, await_stop, process_of, read


@rayshot.actor(capture="inline", max_concurrency=10)
class Desk:
    """Waits in many ways."""

    def __init__(self, other=None):
        self.other, self.got, self.counted = other, [], 0
        self.event, self.barrier = asyncio.Event(), asyncio.Barrier(3)
        self.queue, self.places = asyncio.Queue(), asyncio.Semaphore(1)
        self.lock = asyncio.Lock()
        self.opened = asyncio.Condition(self.lock)

    async def value(self, number):
        await asyncio.sleep(0.5)
        return number

    async def call(self, number):
        self.other.value.remote(number).then(self.on_value, number)

    async def ask(self, number):
        self.got.append(await self.other.value.remote(number))

    async def call_both(self, number):
        called = [self.other.value.remote(one) for one in (number, number + 1)]
        rayshot.gather(called).then(self.on_value, number)

    async def call_in_vain(self, number):
        self.other.no_such_method.remote().then(self.on_value, number, on_error=self.on_error)

    async def on_value(self, value, number):
        await asyncio.sleep(0.1)
        self.got.append((number, value))

    def on_error(self, error, number):
        self.got.append((number, "failed"))

    @rayshot.waits_first
    async def meet(self, number):
        await self.barrier.wait()
        self.got.append(number)

    @rayshot.waits_first
    async def take_when_open(self):
        item = await self.queue.get()
        await self.event.wait()
        self.got.append(item)

    @rayshot.waits_first
    async def wait_in_lock(self):
        async with self.lock:
            await self.event.wait()
        self.got.append("in lock")

    @rayshot.waits_first
    async def wait_for_condition(self):
        async with self.lock:
            await self.opened.wait_for(self.event.is_set)
        self.got.append("for condition")

    async def open_under_lock(self):
        self.event.set()
        async with self.opened:
            self.opened.notify_all()

    async def put(self, item):
        await self.queue.put(item)

    async def open(self):
        self.event.set()

    @rayshot.waits_first
    async def through_helper(self):
        await self.count_and_wait()
        self.got.append(self.counted)

    async def count_and_wait(self):
        self.counted += 1
        await self.event.wait()

    @rayshot.waits_first
    async def through_good_helper(self, number):
        await self.be_open()
        self.got.append(number)

    async def be_open(self):
        while not self.event.is_set():
            await self.event.wait()

    @rayshot.waits_first
    async def in_time(self, seconds):
        async with asyncio.timeout(seconds):
            await self.event.wait()
        self.got.append(seconds)

    @rayshot.waits_first
    async def in_place(self):
        async with self.places:
            await self.event.wait()

    def read(self):
        return self.got


@pytest.fixture
def desk(system):
    other = Desk.options(name="other").remote()
    desk = Desk.options(name="desk").remote(other)
    assert read(desk) == []
    return desk


def go_back(cluster, system, life):
    cluster.die(actor(cluster, "other"))
    await_life(cluster, system, life)


def instance(cluster):
    return process_of(cluster, "desk").cell.instance


@pytest.mark.parametrize(
    ("begin", "got"),
    [("call", (1, 1)), ("call_both", (1, [1, 2])), ("call_in_vain", (1, "failed"))],
)
def test_a_handler_that_continues_runs_to_its_end_beside_others(cluster, desk, begin, got):
    getattr(desk, begin).tell(1)
    cluster.until(lambda: instance(cluster).got)
    assert read(desk) == [got]


def test_answers_that_have_had_their_turn_are_forgotten(cluster, desk):
    for number in range(30):
        door.get(desk.ask.remote(number))
    assert read(desk) == [*range(30)]
    assert sum(len(numbers) for numbers in process_of(cluster, "desk").suspension._spent.values()) < 3


def test_who_waits_at_a_barrier_is_counted_once_behind_a_restore(cluster, system, desk):
    for number in (1, 2):
        desk.meet.tell(number)
    cluster.settle()
    system.snapshot()
    go_back(cluster, system, 2)
    cluster.settle()
    assert instance(cluster).barrier.n_waiting == 2
    assert read(desk) == []
    desk.meet.tell(3)
    cluster.until(lambda: len(instance(cluster).got) == 3)
    assert sorted(read(desk)) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_a_snapshot_of_an_actor_whose_handlers_all_wait_first_is_taken_at_once(cluster, system, desk, mode):
    desk.meet.tell(1)
    cluster.settle()
    begun_s = cluster.schedule.now_s
    system.snapshot(mode=mode)
    assert cluster.schedule.now_s - begun_s < 0.5


def test_who_took_from_a_queue_and_waits_again_is_not_begun_anew(cluster, system, desk):
    desk.take_when_open.tell()
    desk.put.tell("a")
    cluster.settle()
    assert not process_of(cluster, "desk").cell.parking.handlers
    desk.open.tell()
    system.snapshot()
    go_back(cluster, system, 2)
    cluster.until(lambda: instance(cluster).got)
    assert read(desk) == ["a"]


def test_who_changed_something_in_a_coroutine_that_it_awaits_is_not_begun_anew(cluster, system, desk):
    desk.through_helper.tell()
    cluster.settle()
    assert not process_of(cluster, "desk").cell.parking.handlers
    desk.open.tell()
    cluster.settle()
    assert read(desk) == [1]


def test_who_waits_first_in_a_coroutine_that_it_awaits_is(cluster, system, desk):
    desk.through_good_helper.tell(7)
    cluster.settle()
    system.snapshot()
    go_back(cluster, system, 2)
    desk.open.tell()
    cluster.until(lambda: instance(cluster).got)
    assert read(desk) == [7]


def test_who_waits_with_a_place_of_a_semaphore_is_refused(cluster, desk):
    with pytest.raises(LoopNotRepeatable, match=r"in_place, .* waits inside the `async with` of a semaphore"):
        door.get(desk.in_place.remote())
    assert instance(cluster).places._value == 1


def test_who_waits_for_a_condition_of_a_lock_is_in_the_snapshot(cluster, system, desk):
    desk.wait_for_condition.tell()
    cluster.settle()
    system.snapshot()
    go_back(cluster, system, 2)
    desk.open_under_lock.tell()
    cluster.settle()
    assert read(desk) == ["for condition"]


def test_who_waits_for_something_else_inside_a_lock_is_not_and_ends_before_the_snapshot(cluster, system, desk):
    desk.wait_in_lock.tell()
    cluster.settle()
    assert not process_of(cluster, "desk").cell.parking.handlers
    desk.open.tell()
    system.snapshot()
    go_back(cluster, system, 2)
    assert read(desk) == ["in lock"]
    assert not instance(cluster).lock.locked()


def test_a_snapshot_right_behind_a_restore_has_those_that_are_not_begun_anew_yet(cluster, system, desk):
    waits = [desk.through_good_helper.remote(number) for number in range(3)]
    cluster.settle()
    system.snapshot()
    for life in range(2, 4):
        go_back(cluster, system, life)
        system.snapshot()
    cluster.settle()
    desk.open.tell()
    door.get(waits)
    assert read(desk) == [0, 1, 2]


@pytest.mark.parametrize("lives", [2, 3])
@pytest.mark.parametrize("first", ["waits", "in flight"])
def test_references_inside_an_argument_are_held_as_references(cluster, system, desk, lives, first):
    """`first`: what the first snapshot has of the message; those of later lives come right behind the restore."""
    if first == "in flight":
        process_of(cluster, "desk").channels.mailbox.take = lambda _limits: None
    desk.through_good_helper.tell({"large": bytes(2 << 20), "one": door.put("a"), "two": [door.put("b")]})
    cluster.settle()
    snapshot = system.snapshot()
    assert snapshot.verify().sound
    assert snapshot.in_flight == (first == "in flight")
    go_back(cluster, system, 2)
    for life in range(3, lives + 1):
        for _ in range(2):
            system.snapshot()
        go_back(cluster, system, life)
    desk.open.tell()
    cluster.settle()
    (found,) = instance(cluster).got
    assert (len(found["large"]), door.get(found["one"]), door.get(found["two"][0])) == (2 << 20, "a", "b")


def test_who_waits_for_a_time_at_most_is_begun_anew_and_has_all_of_it_again(cluster, system, desk):
    """As with asyncio.wait_for: the clock of the loop is no part of a state."""
    waiting = [desk.in_time.remote(seconds) for seconds in (3, 60)]
    cluster.schedule.pass_s(2.0)
    assert len(process_of(cluster, "desk").cell.parking.handlers) == 2
    system.snapshot()
    go_back(cluster, system, 2)
    cluster.schedule.pass_s(2.0)
    assert not door.wait(waiting, timeout=0)[0]
    cluster.schedule.pass_s(2.0)
    with pytest.raises(TimeoutError):
        door.get(waiting[0])
    desk.open.tell()
    door.get(waiting[1])
    assert read(desk) == [60]


def test_a_state_with_handlers_that_wait_is_refused_where_none_can(cluster, system, desk, monkeypatch):
    desk.meet.tell(1)
    cluster.settle()
    system.snapshot()
    monkeypatch.setattr(ActorSpecification, "at_once", 1)
    cluster.die(actor(cluster, "other"))
    assert "in its state 1 handlers wait, and max_concurrency=1" in await_stop(cluster, system)
