"""No reply is called lost that an actor owes: its call is neither in flight nor answered, and may be answered later."""

import asyncio

import pytest

import rayshot
from rayshot.properties import judge, lost_reply
from rayshot.properties.global_state import GlobalState
from rayshot.properties.replies import waits
from tests.fake.looping import Trainer
from tests.fake.system import read


@rayshot.actor(capture="inline", max_concurrency=10)
class Shelf:
    """Who takes waits first, or asks a queue and waits."""

    def __init__(self):
        self.things, self.put_in = [], asyncio.Event()

    @rayshot.waits_first
    async def take(self):
        await self.put_in.wait()
        return self.things.pop()

    async def loop(self, queue):
        async for self.things in rayshot.loop(queue.get):
            break

    async def put(self, thing):
        self.things.append(thing)
        self.put_in.set()

    async def leave(self):
        rayshot.current().exit()


@rayshot.actor(capture="inline")
class Asker:
    """Awaits answers in its state, in each way."""

    def __init__(self):
        self.found = []

    def go_on(self, other, method, *args):
        getattr(other, method).remote(*args).then(self.note, on_error=self.note_error)

    def keep(self, other, method, *args):
        self.reply = getattr(other, method).remote(*args)

    def gather(self, other, method, *args):
        rayshot.gather([getattr(other, method).remote(*args)]).then(self.note, on_error=self.note_error)

    def pass_on(self, other, method, *args):
        return getattr(other, method).remote(*args)

    def note(self, found):
        self.found.append(found)

    def note_error(self, error):
        self.found.append(type(error).__name__)

    def read(self):
        return self.found


@pytest.fixture
def asker(system):
    asker = Asker.options(name="asker").remote()
    assert read(asker) == []
    return asker


def unanswered(cluster, rollouts, kind):
    """An actor, its method, and arguments, with which a call is not answered as long as nothing else happens."""
    if kind == "deferred":
        return rollouts.actor, "get"
    if kind == "of a loop":
        return Trainer.options(name="trainer").remote(rollouts), "fit"
    if kind == "passed on":
        return Asker.options(name="between").remote(), "pass_on", rollouts.actor, "get"
    shelf = Shelf.options(name="shelf").remote()
    return (shelf, "take") if kind == "waits first" else (shelf, "loop", rollouts)


KINDS = ("deferred", "of a loop", "passed on", "waits first", "of a loop beside others")


@pytest.mark.parametrize("how", ["go_on", "keep", "gather"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_reply_is_lost_whose_call_an_actor_has_begun_and_will_answer(cluster, system, rollouts, asker, kind, how):
    getattr(asker, how).tell(*unanswered(cluster, rollouts, kind))
    cluster.schedule.pass_s(1.0)
    snapshot = system.snapshot()
    found = {wait.where for wait in waits(GlobalState(snapshot)) if wait.caller == "asker"}
    assert found == {"owed"}
    assert judge(lost_reply(), snapshot).holds is False
