"""A place that was given to a handler which waits first: it goes on before a snapshot, however deep it waits."""

import asyncio

import pytest

import rayshot
from tests.fake.system import process_of, read


@rayshot.actor(capture="inline", max_concurrency=8)
class Gate:
    """Its loop lets one in for each token, and is parked again in the same step."""

    def __init__(self):
        self.places, self.released, self.entered = asyncio.Semaphore(0), 0, []

    async def open(self, tokens):
        async for _ in rayshot.loop(tokens.get):
            rayshot.current().snapshot()
            self.released += 1
            self.places.release()

    @rayshot.waits_first
    async def enter(self, number):
        await self.places.acquire()
        self.entered.append(number)

    @rayshot.waits_first
    async def enter_deeply(self, number):
        await asyncio.wait_for(
            asyncio.shield(asyncio.shield(asyncio.shield(asyncio.create_task(self.places.acquire())))), 100
        )
        self.entered.append(number)

    async def read(self):
        return self.entered


@pytest.mark.parametrize("method", ["enter", "enter_deeply"])
def test_who_was_given_a_place_has_taken_it_when_a_snapshot_comes(cluster, system, method):
    tokens = rayshot.Queue(actor_options={"name": "tokens"})
    gate = Gate.options(name="gate").remote()
    assert read(gate) == []
    gate.open.tell(tokens)
    for number in range(2):
        getattr(gate, method).tell(number)
    cluster.settle()
    assert len(process_of(cluster, "gate").cell.parking.handlers) == 3
    tokens.put("token")
    cluster.settle()
    snapshot = system.snapshots()[-1]
    state = snapshot.states()["gate"]
    assert (state["released"], state["entered"]) == (1, [0])
