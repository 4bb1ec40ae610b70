"""Queues and locks on Ray: drivers, plain tasks, plain actors and actors of the system use the same objects."""

import pytest
import ray

import rayshot
from tests.runtime.queueing import Plain, Squarer, take

pytestmark = pytest.mark.ray


def test_tasks_plain_actors_actors_and_the_program_share_a_queue(system):
    given, squared, lock = rayshot.Queue(2), rayshot.Queue(), rayshot.Lock()
    squarer = Squarer.remote(given, squared)
    squarer.work.tell(6)
    plain = Plain.remote(given, lock)
    brought = [plain.bring.remote(number) for number in range(3)]
    for number in range(3, 6):
        given.put(number)
    ray.get(brought)
    taken = [ray.get(take.remote(squared)), *(squared.get() for _ in range(5))]
    assert sorted(taken) == [0, 1, 4, 9, 16, 25]
    assert (given.size(), squared.size(), lock.locked()) == (0, 0, False)


def test_many_wait_at_a_queue_and_each_gets_one_item(system):
    queue = rayshot.Queue()
    waiting = [queue.actor.get.remote() for _ in range(20)]
    assert queue.size() == 0
    for number in range(20):
        queue.put(number)
    assert sorted(item for _, item in ray.get(waiting)) == [*range(20)]
