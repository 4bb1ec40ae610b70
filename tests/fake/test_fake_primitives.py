"""Queues, locks, semaphores and events: who waits for them waits in a state, which snapshots hold."""

import pytest
import ray.util.queue

import rayshot
from rayshot.errors import ActorExited
from rayshot.primitives import queue as primitives_queue
from rayshot.primitives.queue import QueueActor
from rayshot.runtime.actor.outcomes import OWED_AGAIN_S
from rayshot.runtime.door import door
from tests.fake.looping import Trainer
from tests.fake.system import actor, await_life, read


@rayshot.actor(capture="inline")
class Worker:
    """Does what it is told with things that all have, and notes what came of it."""

    def __init__(self, *things):
        self.things, self.found = things, []

    def do(self, method, *args, **kwargs):
        try:
            self.found.append(getattr(self.things[0], method)(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.found.append(type(error))

    async def do_async(self, method, *args):
        self.found.append(await getattr(self.things[0], method)(*args))

    def guarded(self, gate):
        with self.things[0]:
            self.things[1].wait()
            self.found.append(gate)

    async def guarded_async(self, what):
        async with self.things[0]:
            self.found.append(what)

    def put_and_stay(self, item):
        self.things[0].actor.put.remote(item).then(self.note)

    def put_and_leave(self, item):
        self.put_and_stay(item)
        rayshot.current().exit()

    def note(self, *_):
        pass

    def read(self):
        return self.found


def worker(name, *things):
    made = Worker.options(name=name).remote(*things)
    read(made)
    return made


def instance(cluster, name):
    return actor(cluster, name).run.instance._process.cell.instance


def test_a_queue_has_the_methods_and_errors_of_rays(system):
    queue = rayshot.Queue(maxsize=3)
    assert (queue.maxsize, len(queue), queue.empty(), queue.full()) == (3, 0, True, False)
    queue.put("a")
    queue.put_nowait("b")
    queue.put_nowait_batch(["c"])
    assert (queue.size(), queue.qsize(), queue.empty(), queue.full()) == (3, 3, False, True)
    for put in (lambda: queue.put("d", block=False), lambda: queue.put("d", timeout=0), lambda: queue.put_nowait("d")):
        with pytest.raises(ray.util.queue.Full):
            put()
    with pytest.raises(ray.util.queue.Full):
        queue.put_nowait_batch(["d"])
    with pytest.raises(ray.util.queue.Empty):
        queue.get_nowait_batch(4)
    assert (queue.get(), queue.get_nowait_batch(2)) == ("a", ["b", "c"])
    for get in (queue.get_nowait, lambda: queue.get(timeout=0.1)):
        with pytest.raises(ray.util.queue.Empty):
            get()
    for wrong, kind in (
        (lambda: queue.put("d", timeout=-1), ValueError),
        (lambda: queue.get(timeout=-1), ValueError),
        (lambda: queue.put_nowait_batch(5), TypeError),
        (lambda: queue.get_nowait_batch("5"), TypeError),
        (lambda: queue.get_nowait_batch(-1), ValueError),
    ):
        with pytest.raises(kind):
            wrong()
    queue.shutdown()
    queue.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        queue.size()


def test_every_method_of_rays_queue_is_there():
    there = {name for name in vars(ray.util.queue.Queue) if not name.startswith("_")}
    assert there <= set(vars(rayshot.Queue)), there - set(vars(rayshot.Queue))


def test_a_program_without_rays_queues_gets_the_errors_of_pythons(monkeypatch):
    monkeypatch.delitem(primitives_queue.sys.modules, "ray.util.queue")
    assert primitives_queue._error("Empty") is primitives_queue.queue.Empty


def test_who_waits_in_a_queue_is_served_in_order_and_a_full_one_lets_putters_wait(cluster, system):
    queue = rayshot.Queue(1, actor_options={"name": "queue"})
    takers = [worker(f"taker {n}", queue) for n in range(3)]
    for taker in takers[:2]:
        taker.do.tell("get")
        cluster.settle()
    takers[2].do_async.tell("get_async")
    cluster.settle()
    assert len(instance(cluster, "queue").getters) == 3
    putters = [worker(f"putter {n}", queue) for n in range(5)]
    for number, putter in enumerate(putters):
        putter.do.tell("put", number)
        cluster.settle()
    assert [read(taker) for taker in takers] == [[0], [1], [2]]
    assert (queue.size(), len(instance(cluster, "queue").putters)) == (1, 1)
    queue.actor.put.tell(5)
    queue.actor.get.tell()
    assert [queue.get() for _ in range(2)] == [4, 5], "the get that nobody waits for has taken 3"
    assert all(read(putter) == [None] for putter in putters)


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_whose_time_is_up_takes_nothing_and_leaves_nothing(cluster, system, moment):
    queue = rayshot.Queue(1, actor_options={"name": "queue"})
    taker, putter = worker("taker", queue), worker("putter", queue)
    taker.do.tell("get", timeout=2.0)
    cluster.settle()
    if moment == "before":
        queue.put("a")
        cluster.schedule.pass_s(5.0)
        assert (read(taker), len(queue)) == (["a"], 0)
    else:
        cluster.schedule.pass_s(5.0)
        queue.put("a")
        assert (read(taker), len(queue)) == ([ray.util.queue.Empty], 1)
        putter.do.tell("put", "b", timeout=2.0)
        cluster.settle()
        cluster.schedule.pass_s(5.0)
        assert read(putter) == [ray.util.queue.Full]
        assert (queue.get(), len(queue)) == ("a", 0)
    assert actor(cluster, "queue").run.instance._process.cell.timers == []


def test_what_waits_in_a_queue_is_in_the_snapshot_and_goes_on_behind_a_rollback(cluster, system):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    taken = queue.actor.get.remote()
    assert queue.size() == 0
    snapshot = system.snapshot()
    assert snapshot.verify().sound
    worker("bystander")
    for life in (2, 3):
        cluster.die(actor(cluster, "bystander"))
        await_life(cluster, system, life)
        cluster.settle()
    queue.put("a")
    assert door.get(taken) == (True, "a")
    assert queue.empty()


@pytest.mark.parametrize(("wait_s", "left"), [(OWED_AGAIN_S - 2, 0), (OWED_AGAIN_S + 2, 1)])
def test_a_program_whose_queue_dies_gets_an_error_and_its_get_takes_nothing_behind_ten_seconds(
    cluster, system, wait_s, left
):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    assert queue.empty()
    system.snapshot()
    taken = queue.actor.get.remote()
    assert queue.empty()
    cluster.die(actor(cluster, "queue"))
    await_life(cluster, system, 2)
    with pytest.raises(ray.exceptions.ActorDiedError):
        door.get(taken)
    cluster.schedule.pass_s(wait_s)
    queue.put("a")
    assert queue.size() == left


def test_what_a_program_was_putting_is_there_though_it_got_an_error_as_the_queue_died(cluster, system):
    queue = rayshot.Queue(1, actor_options={"name": "queue"})
    queue.put("first")
    system.snapshot()
    putting = queue.actor.put.remote("second")
    assert queue.size() == 1
    cluster.die(actor(cluster, "queue"))
    await_life(cluster, system, 2)
    with pytest.raises(ray.exceptions.ActorDiedError):
        door.get(putting)
    assert [queue.get(), queue.get(), queue.size()] == ["first", "second", 0]


def test_a_handler_that_waits_in_a_queue_that_dies_begins_anew_and_gets_its_item(cluster, system):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    taker = worker("taker", queue)
    system.snapshot()
    taker.do.tell("get")
    cluster.settle()
    cluster.die(actor(cluster, "queue"))
    await_life(cluster, system, 2)
    queue.put("a")
    assert (read(taker), queue.size()) == (["a"], 0)


def test_a_queue_with_a_name_is_found_again_and_one_without_is_another(system):
    named = {"name": "queue", "get_if_exists": True}
    rayshot.Queue(actor_options=named).put("a")
    rayshot.Queue().put("b")
    assert rayshot.Queue(actor_options=named).size() == 1
    assert rayshot.Queue().empty()


def test_an_item_goes_to_the_next_one_if_the_first_is_gone(cluster, system):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    first, second = worker("first", queue), worker("second", queue)
    reply = first.do.remote("get")
    cluster.settle()
    second.do.tell("get")
    cluster.settle()
    process = actor(cluster, "queue").run.instance._process
    process.cell.owed.forget({"first"})
    queue.put("a")
    assert read(second) == ["a"]
    assert reply is not None


def test_who_has_ended_in_the_cut_takes_nothing_behind_a_rollback(cluster, system):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    trainer = Trainer.options(name="trainer").remote(queue)
    trainer.fit.tell()
    cluster.settle()
    rayshot.kill(trainer)
    cluster.settle()
    assert "trainer" in system.snapshot().manifest.ended
    assert instance(cluster, "queue").getters, "its question is in the cut"
    cluster.die(actor(cluster, "queue"))
    await_life(cluster, system, 2)
    queue.put("a")
    assert (queue.size(), system.dead_letters()) == (1, [])


def test_a_lock_is_held_by_one_and_waited_for_in_order(cluster, system):
    lock, opened = rayshot.Lock(), rayshot.Event()
    first, second = worker("first", lock, opened), worker("second", lock, opened)
    first.guarded.tell("one")
    cluster.settle()
    second.guarded_async.tell("two")
    cluster.settle()
    assert lock.locked()
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=1.0)
    opened.set()
    cluster.settle()
    assert (read(first), read(second), lock.locked()) == (["one"], ["two"], False)
    assert lock.acquire(timeout=-1)
    lock.release()
    with pytest.raises(RuntimeError, match="nobody holds it"):
        lock.release()


def test_a_semaphore_has_so_many_places(cluster, system):
    semaphore = rayshot.Semaphore(2)
    assert semaphore.acquire()
    assert semaphore.acquire()
    waiting = worker("waiting", semaphore)
    waiting.do.tell("acquire")
    waiting.do_async.tell("acquire_async", 1.0)
    cluster.settle()
    semaphore.release(1)
    cluster.schedule.pass_s(3.0)
    assert read(waiting) == [True, False]
    waiting.do_async.tell("release_async", 3)
    assert read(waiting) == [True, False, None]
    assert [semaphore.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]
    with pytest.raises(ValueError, match="-1 places"):
        rayshot.Semaphore(-1)


def test_an_event_lets_all_go_on(cluster, system):
    event = rayshot.Event()
    assert not event.is_set()
    assert not event.wait(timeout=0.5)
    waiting = [worker(f"waiting {n}", event) for n in range(2)]
    waiting[0].do.tell("wait")
    waiting[1].do_async.tell("wait_async")
    cluster.settle()
    event.set()
    assert [read(one) for one in waiting] == [[True], [True]]
    assert (event.is_set(), event.wait()) == (True, True)
    event.clear()
    assert not event.is_set()


def test_who_waits_in_a_queue_that_is_shut_down_learns_that(cluster, system):
    queue = rayshot.Queue()
    waiting, taken = worker("waiting", queue), queue.actor.get.remote()
    waiting.do.tell("get")
    cluster.settle()
    queue.shutdown(force=True)
    assert read(waiting) == [ActorExited]
    with pytest.raises(ActorExited):
        door.get(taken)


def test_a_call_waits_for_nobody_while_many_wait_at_a_queue(cluster, system):
    queue = rayshot.Queue()
    assert queue.empty()
    waiting = [queue.actor.get.remote() for _ in range(40)]
    began_s = cluster.schedule.now_s
    for number in range(40):
        queue.put(number)
    assert cluster.schedule.now_s < began_s + 0.4
    assert sorted(item for _, item in map(door.get, waiting)) == [*range(40)]


def test_a_queue_is_an_actor_that_answers_late():
    assert QueueActor.__rayshot_answers_late__


def test_what_was_put_is_there_though_who_put_it_is_gone(cluster, system):
    queue = rayshot.Queue(1, actor_options={"name": "queue"})
    queue.put("first")
    gone = worker("gone", queue)
    gone.put_and_leave.tell("second")
    cluster.settle()
    cluster.schedule.pass_s(3.0)
    assert (queue.get(), queue.get(), queue.size()) == ("first", "second", 0)


def test_what_a_program_put_is_there_behind_a_rollback_in_which_nobody_takes_anything(cluster, system):
    queue = rayshot.Queue(2, actor_options={"name": "queue"})
    others, bystander = worker("others", queue), worker("bystander")
    system.snapshot()
    for number in range(2):
        queue.put(number)
    for _ in range(2):
        others.put_and_stay.tell("of an actor")
    process = actor(cluster, "queue").run.instance._process
    cluster.settle()
    assert process.cell.instance.qsize() == 2
    cluster.die(actor(cluster, "bystander"))
    await_life(cluster, system, 2)
    cluster.schedule.pass_s(40.0)
    found = [queue.get() for _ in range(4)]
    assert sorted(map(str, found)) == ["0", "1", "of an actor", "of an actor"]
    assert bystander is not None


def test_who_polls_leaves_nothing_in_the_state(cluster, system):
    queue, event = rayshot.Queue(1, actor_options={"name": "queue"}), rayshot.Event(actor_options={"name": "event"})
    queue.put(0)
    for _ in range(20):
        event.wait(timeout=0.1)
        with pytest.raises(ray.util.queue.Full):
            queue.put("b", timeout=0.1)
    event.actor.wait.tell()
    assert not event.is_set()
    assert len(instance(cluster, "event").waiters) <= 1
    assert len(instance(cluster, "queue").putters) <= 1


NAN, INF = float("nan"), float("inf")


def test_wrong_arguments_are_refused_as_threading_refuses_them(system):
    semaphore, queue, event = rayshot.Semaphore(1), rayshot.Queue(), rayshot.Event()
    for wrong in (
        lambda: rayshot.Semaphore(-1),
        lambda: semaphore.release(0),
        lambda: semaphore.acquire(blocking=False, timeout=3),
        lambda: semaphore.acquire(timeout=-0.5),
        lambda: semaphore.acquire(timeout=NAN),
        lambda: event.wait(timeout=NAN),
        lambda: queue.get(timeout=NAN),
    ):
        with pytest.raises(ValueError, match=r"not at least|does not go with"):
            wrong()
    for wrong in (
        lambda: rayshot.Semaphore(1.5),
        lambda: semaphore.release(NAN),
        lambda: semaphore.acquire(timeout="1"),
        lambda: rayshot.Queue("3"),
    ):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("timeout", [INF, 1e10])
def test_a_time_out_may_be_longer_than_a_timer_can_last(system, timeout):
    semaphore, queue, event = rayshot.Semaphore(1), rayshot.Queue(), rayshot.Event()
    event.set()
    queue.put(1, timeout=timeout)
    assert queue.get(timeout=timeout) == 1
    assert semaphore.acquire(timeout=timeout)
    assert event.wait(timeout=timeout)


def test_a_lock_waits_for_ever_at_minus_one_and_an_event_does_not_wait_below_zero(cluster, system):
    lock, event = rayshot.Lock(actor_options={"name": "lock"}), rayshot.Event()
    waiting = worker("waiting", lock)
    assert lock.acquire(timeout=-1)
    waiting.do.tell("acquire", timeout=-1)
    cluster.settle()
    assert len(instance(cluster, "lock").waiters) == 1
    assert not event.wait(timeout=-1)
