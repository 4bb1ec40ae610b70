"""Locks and queues of asyncio in a state: they come back, and take the loop of who waits next."""

import asyncio

import pytest

from rayshot.errors import StateNotSerializable
from rayshot.format.pickling import dump_state, load_state
from rayshot.inert.reader import read

pytestmark = pytest.mark.acceptance("O5")


async def used():
    """All of them after somebody waited, so that they know a loop."""
    state = asyncio.Semaphore(1), asyncio.Queue(), asyncio.Event(), asyncio.Condition()
    semaphore, queue, event, condition = state

    async def use():
        async with semaphore:
            await asyncio.sleep(0)

    async def wait():
        async with condition:
            await condition.wait()

    async def bring():
        await asyncio.sleep(0)
        event.set()
        queue.put_nowait(1)
        queue.put_nowait(2)
        async with condition:
            condition.notify()

    await asyncio.gather(use(), use(), queue.get(), event.wait(), wait(), bring())
    assert all(one._loop is asyncio.get_running_loop() for one in state)
    return state


async def use_again(semaphore, queue, event, condition):
    await event.wait()
    async with semaphore, condition:
        assert await queue.get() == 2
    await asyncio.wait_for(asyncio.gather(queue.get(), queue.put(3)), 5)


def test_locks_and_queues_that_were_waited_for_come_back_without_their_loop():
    state = asyncio.run(used())
    pickled = dump_state(list(state), "alice")
    loaded = load_state(pickled.stream, pickled.buffers)
    assert all(one._loop is None for one in loaded)
    asyncio.run(use_again(*loaded))
    assert "_queue=deque([2])" in repr(read(pickled.stream, [])[1])


def test_a_lock_for_which_somebody_waits_is_pickled_without_who_waits():
    async def wait():
        lock = asyncio.Lock()
        await lock.acquire()
        task = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
        pickled = dump_state({"lock": lock}, "alice")
        task.cancel()
        return load_state(pickled.stream, pickled.buffers)["lock"]

    lock = asyncio.run(wait())
    assert (lock.locked(), len(lock._waiters)) == (True, 0)


def test_the_path_to_a_loop_ends_there():
    loop = asyncio.new_event_loop()
    with pytest.raises(StateNotSerializable, match=r"^alice\['loops'\]\[0\] cannot be captured: it is an event loop"):
        dump_state({"loops": [loop]}, "alice")
    loop.close()
