"""Handlers of async classes that run at once, in turns: what snapshots hold of them, and what a restore begins anew."""

import asyncio
import random
from collections import deque

import pytest

import rayshot
from rayshot.errors import ActorExited, ConfigError, LoopNotRepeatable
from rayshot.runtime.door import door
from tests.fake.system import actor, await_life, begin, process_of, read


@rayshot.actor(capture="inline", max_concurrency=1000)
class Samples:
    """A queue with a condition, as programs on Ray write it."""

    def __init__(self, size):
        self.queue, self.size = deque(), size
        self.lock = asyncio.Lock()
        self.changed = asyncio.Condition(self.lock)

    @rayshot.waits_first
    async def put(self, sample):
        async with self.lock:
            while len(self.queue) >= self.size:
                await self.changed.wait()
            self.queue.append(sample)
            self.changed.notify_all()

    @rayshot.waits_first
    async def get(self):
        async with self.lock:
            while not self.queue:
                await self.changed.wait()
            self.changed.notify_all()
            return self.queue.popleft()

    async def read(self):
        return list(self.queue)


@rayshot.actor(capture="inline", max_concurrency=8)
class Worker:
    """Works while it is not paused."""

    def __init__(self, other=None):
        self.other, self.begun, self.done, self.at_once, self.most = other, [], [], 0, 0
        self.resumed, self.rounds = asyncio.Event(), 0
        self.resumed.set()

    @rayshot.waits_first
    async def work(self, number):
        await self.resumed.wait()
        self.done.append(number)
        return number

    async def slow(self, number, seconds):
        self.begun.append(number)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(seconds)
        self.at_once -= 1
        self.done.append(number)
        return rayshot.current().sender, number

    async def ask(self, number):
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        answer = await self.other.slow.remote(number, 1.0)
        self.at_once -= 1
        self.done.append(number)
        return answer[1]

    async def ask_itself(self, number):
        return await self.me.slow.remote(number, 1.0)

    async def tell_itself(self, number):
        self.me.slow.remote(number, 0)
        await asyncio.sleep(100)

    async def know(self, me):
        self.me = me

    async def pause(self):
        self.resumed.clear()

    async def resume(self):
        self.resumed.set()

    async def loop(self, queue):
        self.rounds += 1
        async for item in rayshot.loop(queue.get):
            if item == "done":
                break
            self.done.append(item)
        return self.done

    async def turn(self, seconds):
        async for _ in rayshot.loop():
            self.at_once += 1
            await asyncio.sleep(seconds)
            self.at_once -= 1

    async def gather(self, queues):
        return await asyncio.gather(*(one.get_async() for one in queues))

    async def leave_a_task(self):
        self.task = asyncio.create_task(asyncio.sleep(100))

    async def fail(self):
        raise ValueError("bad")

    async def leave(self):
        rayshot.current().exit()

    async def lock_it(self):
        self.mine = asyncio.Lock()
        await self.mine.acquire()

    @rayshot.waits_first
    async def send_first(self):
        await self.tell_and_wait()

    async def tell_and_wait(self):
        self.other.pause.tell()
        await self.resumed.wait()

    async def make(self, seconds):
        await asyncio.sleep(seconds)
        self.child = Worker.remote()
        return self.child.name

    def read(self):
        return self.done


@rayshot.actor(capture="inline", max_concurrency=200)
class Producer:
    """Gets leave from one queue, and puts numbers into another, several at a time; it can be paused."""

    def __init__(self, samples, worker):
        self.samples, self.worker, self.made = samples, worker, 0
        self.resumed = asyncio.Event()
        self.resumed.set()

    @rayshot.waits_first
    async def make(self, seconds):
        await self.resumed.wait()
        self.made += 1
        number = self.made
        await asyncio.sleep(seconds)
        await self.worker.slow.remote(number, seconds)
        await self.samples.put.remote(number)

    async def pause(self):
        self.resumed.clear()

    async def resume(self):
        self.resumed.set()


@rayshot.actor(capture="inline", max_concurrency=3)
class Consumer:
    """Gets numbers in several loops."""

    def __init__(self, samples):
        self.samples, self.got = samples, []

    async def consume(self, seconds):
        async for number in rayshot.loop(self.samples.get):
            self.got.append(number)
            await asyncio.sleep(seconds)

    async def read(self):
        return self.got


@pytest.fixture(autouse=True)
def bystander(system):
    bystander = Worker.options(name="bystander").remote()
    assert read(bystander) == []


@pytest.fixture
def worker(system):
    worker = Worker.options(name="worker").remote()
    assert read(worker) == []
    return worker


@pytest.fixture
def samples(system):
    samples = Samples.options(name="samples").remote(2)
    assert read(samples) == []
    return samples


def instance(cluster, name="worker"):
    return process_of(cluster, name).cell.instance


def go_back(cluster, system, life=2):
    """All go back to the last snapshot, since one dies that nobody waits for."""
    cluster.die(actor(cluster, "bystander"))
    await_life(cluster, system, life)
    cluster.settle()


def is_there(reference):
    return bool(door.wait([reference], timeout=0)[0])


def test_handlers_run_at_once_and_answer_as_they_end(cluster, worker):
    slow, fast = worker.slow.remote(1, 5.0), worker.slow.remote(2, 1.0)
    assert door.get(fast)[1] == 2
    assert not is_there(slow)
    assert door.get(slow)[1] == 1
    assert (instance(cluster).done, instance(cluster).most) == ([2, 1], 2)


def test_no_more_of_them_run_at_once_than_the_class_says(cluster, worker):
    assert [number for _, number in door.get([worker.slow.remote(one, 1.0) for one in range(30)])] == [*range(30)]
    assert instance(cluster).most == 8
    assert instance(cluster).begun == [*range(30)], "they begin in the order of their messages"


def test_a_plain_method_and_one_of_ray_s_own_begin_in_their_turn(cluster, worker):
    worker.slow.tell(1, 0)
    assert read(worker) in ([], [1])
    worker.work.tell(2)
    assert door.get(worker.__ray_call__.remote(lambda self: self.done)) == [1, 2]


def test_each_handler_knows_its_own_sender_and_names_its_own_children(cluster, system, worker):
    others = [Worker.options(name=f"other{one}").remote(worker) for one in range(2)]
    assert sorted(door.get([one.ask.remote(number) for number, one in enumerate(others)])) == [0, 1]
    names = door.get([worker.make.remote(seconds) for seconds in (2.0, 1.0)])
    assert len({*names}) == 2


@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_a_snapshot_waits_for_the_handlers_that_run(cluster, system, worker, mode):
    results = [worker.slow.remote(one, 2.0) for one in range(12)]
    snapshot = system.snapshot(mode=mode)
    state = snapshot.states()["worker"]
    assert state["at_once"] == 0
    assert sorted(state["done"]) == state["begun"] == [*range(8)]
    assert snapshot.verify().sound
    assert [number for _, number in door.get(results)] == [*range(12)]


def test_a_snapshot_concludes_handlers_that_ask(cluster, system, worker):
    asker = Worker.options(name="asker").remote(worker)
    assert read(asker) == []
    answers = [asker.ask.remote(one) for one in range(30)]
    cluster.until(lambda: instance(cluster, "asker").done)
    state = system.snapshot().states()["asker"]
    assert state["at_once"] == 0
    assert door.get(answers) == [*range(30)]
    assert instance(cluster, "asker").most == 8


@pytest.mark.parametrize("mode", ["chandy-lamport", "aligned", "stop-the-world"])
def test_a_method_that_waits_first_is_part_of_a_snapshot_and_a_restore_begins_it_anew(cluster, system, samples, mode):
    got = [samples.get.remote() for _ in range(3)]
    cluster.settle()
    snapshot = system.snapshot(mode=mode)
    assert snapshot.verify().sound
    samples.put.tell("a")
    assert door.get(got[0]) == "a"
    go_back(cluster, system)
    assert len(instance(cluster, "samples").changed._waiters) == 2, "all began anew, and one got a"
    for one in "bc":
        samples.put.tell(one)
    assert door.get(got[1:]) == ["b", "c"]
    assert read(samples) == []


def test_who_puts_waits_for_room_and_nothing_is_lost_or_twice_however_often_it_dies(cluster, system, samples):
    system.snapshot()
    put = [samples.put.remote(one) for one in range(10)]
    got = []
    for life in range(2, 6):
        cluster.settle()
        for _ in range(2):
            system.snapshot()
        got.append(door.get(samples.get.remote()))
        cluster.settle()
        system.snapshot()
        go_back(cluster, system, life)
    got += door.get([samples.get.remote() for _ in range(6)])
    assert got == [*range(10)]
    door.get(put)


def test_large_values_and_references_beside_a_message_that_waits_first_are_in_the_snapshot(cluster, system, samples):
    samples.put.tell(0)
    samples.put.tell(1)
    samples.put.tell(bytes(2 << 20))
    samples.put.tell(door.put("by reference"))
    cluster.settle()
    assert system.snapshot().verify().sound
    go_back(cluster, system)
    got = door.get([samples.get.remote() for _ in range(4)])
    assert [len(one) if isinstance(one, bytes) else one for one in got] == [0, 1, 2 << 20, "by reference"]


def test_pause_and_resume_are_kept_in_a_snapshot(cluster, system, worker):
    worker.pause.tell()
    done = [worker.work.remote(one) for one in range(3)]
    cluster.settle()
    system.snapshot()
    go_back(cluster, system)
    assert read(worker) == []
    worker.resume.tell()
    assert door.get(done) == [0, 1, 2]
    assert read(worker) == [0, 1, 2]


def test_a_loop_runs_beside_other_handlers_and_goes_on_behind_a_restore(cluster, system, worker):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    fitted = worker.loop.remote(queue)
    queue.put("a")
    assert door.get(worker.slow.remote("b", 1.0))[1] == "b"
    system.snapshot()
    queue.put("c")
    cluster.settle()
    go_back(cluster, system)
    assert instance(cluster).done == ["a", "b", "c"]
    assert instance(cluster).rounds == 2
    queue.put("done")
    assert door.get(fitted) == ["a", "b", "c"]


def test_in_the_test_mode_a_loop_beside_other_handlers_is_begun_anew_at_each_top(cluster):
    with begin("anew", loops="anew"):
        worker = Worker.options(name="looper").remote()
        queue = rayshot.Queue(actor_options={"name": "queue"})
        fitted = worker.loop.remote(queue)
        for item in (1, 2, "done"):
            queue.put(item)
        assert door.get(fitted) == [1, 2]
        assert door.get(worker.slow.remote(3, 1.0))[1] == 3
        assert instance(cluster, "looper").rounds > 3


def test_several_loops_of_one_actor_get_each_item_once(cluster, system, worker):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    for _ in range(3):
        worker.loop.tell(queue)
    for item in range(20):
        queue.put(item)
        if item % 5 == 4:
            cluster.settle()
            system.snapshot()
        if item in (7, 13):
            cluster.settle()
            cluster.die(actor(cluster, "worker"))
            await_life(cluster, system, 2 + (item == 13))
    cluster.settle()
    assert sorted(instance(cluster).done) == [*range(20)]


def test_an_error_is_the_caller_s_and_a_task_that_is_left_behind_too(cluster, worker):
    with pytest.raises(ValueError, match="bad"):
        door.get(worker.fail.remote())
    slow = worker.slow.remote(1, 1.0)
    with pytest.raises(rayshot.errors.TaskLeftBehind, match="sleep"):
        door.get(worker.leave_a_task.remote())
    assert door.get(slow)[1] == 1, "its own task goes on"


def test_an_actor_that_ends_lets_its_handlers_end_and_those_that_wait_get_no_answer(cluster, system, worker):
    worker.pause.tell()
    waits, slow = worker.work.remote(1), worker.slow.remote(2, 2.0)
    queue = rayshot.Queue(actor_options={"name": "queue"})
    looping = worker.loop.remote(queue)
    cluster.settle()
    rayshot.kill(worker)
    assert door.get(slow)[1] == 2
    for one in (waits, looping):
        with pytest.raises(ActorExited):
            door.get(one)


def test_a_dropped_handle_ends_no_loop(cluster, system):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    looping = Worker.remote().loop.remote(queue)
    cluster.schedule.pass_s(3.0)
    queue.put("a")
    queue.put("done")
    assert door.get(looping) == ["a"]


def test_an_order_to_end_comes_through_where_all_places_are_taken(cluster, system, worker):
    worker.pause.tell()
    waits = [worker.work.remote(one) for one in range(12)]
    cluster.settle()
    rayshot.kill(worker)
    for one in waits:
        with pytest.raises(ActorExited):
            door.get(one)


def test_what_is_sent_before_the_first_wait_is_refused(cluster, system, worker):
    other = Worker.options(name="other").remote(worker)
    other.pause.tell()
    with pytest.raises(LoopNotRepeatable, match=r"send_first, marked with @rayshot\.waits_first, has sent"):
        door.get(other.send_first.remote())


def test_an_actor_may_ask_itself_as_long_as_a_place_is_free(cluster, system, worker):
    door.get(worker.know.remote(worker))
    asked = [worker.ask_itself.remote(one) for one in range(3)]
    cluster.settle()
    assert system.snapshot().states()["worker"]["at_once"] == 0
    assert door.get(asked) == [("worker", one) for one in range(3)]


def test_what_an_actor_sends_to_itself_begins_while_its_handler_goes_on(cluster, worker):
    door.get(worker.know.remote(worker))
    worker.tell_itself.tell(1)
    cluster.schedule.pass_s(1)
    assert instance(cluster).done == [1]


def test_loops_of_one_actor_that_run_in_turn_keep_no_snapshot_away(cluster, system, worker):
    for seconds in (1.0, 0.7):
        worker.turn.tell(seconds)
    cluster.schedule.pass_s(0.5)
    began = cluster.schedule.now_s
    assert system.snapshot().states()["worker"]["at_once"] == 0
    assert cluster.schedule.now_s - began < 2.0


def test_a_lock_that_is_locked_in_a_snapshot_is_warned_of(cluster, system, worker, caplog):
    door.get(worker.lock_it.remote())
    system.snapshot()
    assert "worker: mine is locked in this snapshot" in caplog.text


def test_a_class_without_async_methods_has_one_handler_at_a_time():
    class Plain:
        def read(self):
            return 1

    with pytest.raises(ConfigError, match=r"max_concurrency=2 of .*Plain, which has no `async def` method"):
        rayshot.actor(Plain).options(max_concurrency=2).remote()
    with pytest.raises(ConfigError, match="give a count of 1 or more"):
        rayshot.actor(max_concurrency=-1)(Plain)
    with pytest.raises(ConfigError, match="is for `async def` methods"):
        rayshot.waits_first(Plain.read)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_dies_and_is_paused_each_number_is_made_once_and_comes_once(cluster, system, samples, worker, seed):
    rng = random.Random(seed)
    producer = Producer.options(name="producer").remote(samples, worker)
    consumer = Consumer.options(name="consumer").remote(samples)
    for _ in range(3):
        consumer.consume.tell(rng.choice((0.0, 0.3)))
    life, count = 1, 0
    for _ in range(30):
        match rng.randrange(6):
            case 0 | 1:
                for _ in range(rng.randrange(6)):
                    producer.make.tell(rng.choice((0.0, 0.1, 0.7)))
                    count += 1
            case 2:
                rng.choice((producer.pause, producer.resume)).tell()
            case 3:
                cluster.settle()
            case 4:
                state = system.snapshot(mode=rng.choice(("chandy-lamport", "aligned", "stop-the-world"))).states()
                assert len({*state["consumer"]["got"]}) == len(state["consumer"]["got"])
            case 5:
                if rng.random() < 0.6:
                    for _ in range(2):  # a life with less leads nowhere
                        system.snapshot()
                    cluster.die(actor(cluster, rng.choice(("producer", "consumer", "samples", "worker", "bystander"))))
                    life += 1
                    await_life(cluster, system, life)
    producer.resume.tell()
    cluster.until(lambda: len(instance(cluster, "consumer").got) >= count)
    cluster.settle()
    assert sorted(instance(cluster, "consumer").got) == [*range(1, count + 1)]
    assert process_of(cluster, "producer").cell.owed.numbers == {}
