"""Programs that do what chance says, in a system that goes back when chance says so; on the fake."""

import random

import pytest

import rayshot
from rayshot.errors import ActorExited, SystemRecovering
from rayshot.runtime.driver import session
from tests.fake.schedule import Choices
from tests.fake.threads import TIME, Thread
from tests.runtime.going_back import DIED, Thing, going_back, outcome


@pytest.fixture
def world(monkeypatch):
    with going_back("alice", "bob") as world:
        yield world
        monkeypatch.undo()  # before what it patched is put back


@pytest.mark.parametrize("seed", range(10))
def test_what_threads_tell_while_the_system_goes_back_again_and_again_is_neither_lost_nor_told_twice(
    world, monkeypatch, seed
):
    monkeypatch.setattr(session, "RECOVERY_WAIT_S", 60.0)
    chance, count = random.Random(seed), 300
    handles = [world.handle(name) for name in ("alice", "bob")]

    def tell(thread):
        for number in range(count):
            for handle in handles:
                handle.take.tell(number, thread)
                TIME.sleep(0)
            if number % 30 == 0:
                Thing.options(name=f"made-{thread}-{number}").remote(number).take.tell(thread)

    world.cluster.schedule.choose = Choices.of_seed(seed)
    threads = [Thread(tell, (thread,)) for thread in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for _ in range(chance.randrange(50)):
            world.cluster.schedule.step(world.cluster.schedule.now_s)
        for host in list(world.hosts.values()):
            for _ in range(min(len(host.process.mailbox), chance.randrange(500))):
                host.handle_next()
        chance.choice([world.commit, world.roll_back, world.tell_news, lambda: None])()
    world.settle()
    for thread in range(3):
        for name in ("alice", "bob"):
            handled = [number for _, number, of in world.handled(name) if of == thread]
            assert handled == list(range(count))
        for number in range(0, count, 30):
            assert world.contents(f"made-{thread}-{number}") == [number, thread]


EVENTS = 10
"""A call is some events: it comes, has a thread, is answered, and heard."""


class Play:
    """A program that does what chance says, in a system that goes back when chance says so.

    `told` has what it sent to each actor, and which answers it had seen before, as (actor, number) of the calls.
    """

    def __init__(self, world, seed):
        self.world, self.chance = world, random.Random(seed)
        self.told = {name: [] for name in world.hosts}
        self.handles = {name: world.handle(name) for name in world.hosts}
        self.calls, self.seen, self.count, self.killed = [], set(), 0, set()

    def run(self, steps):
        deeds = [self.tell, self.call, self.see, self.make, self.kill, self.world.commit, self.fail, self.tell_news]
        weights = [8, 6, 6, 1, 0.3, 1, 0.7, 2]
        for _ in range(steps):
            if self.chance.random() < 0.6:
                self.let_happen()
            else:
                self.chance.choices(deeds, weights)[0]()
        self.begin()
        self.world.settle()

    def let_happen(self):
        world = self.world
        busy = [host for host in world.hosts.values() if host.process and host.process.mailbox]
        if busy and self.chance.random() < 0.4:
            self.chance.choice(busy).handle_next()
        for _ in range(self.chance.randrange(EVENTS)):
            if world.events:
                world.happen(self.chance.randrange(len(world.events)))

    def tell_news(self):
        self.world.tell_news()

    def note(self, name, entry):
        self.told[name].append((entry, frozenset(self.seen)))

    def some(self):
        return self.chance.choice(list(self.handles))

    def tell(self):
        name, self.count = self.some(), self.count + 1
        mentioned = [self.handles[self.some()]] if self.chance.random() < 0.3 else []
        try:
            self.handles[name].take.tell(self.count, *mentioned)
        except ActorExited:
            assert name in self.killed
        else:
            self.note(name, self.count)

    def call(self):
        name, self.count = self.some(), self.count + 1
        try:
            ref = self.handles[name].take.remote(self.count)
        except SystemRecovering:
            assert self.world.port.life.rolls_back  # the call would have waited for the news
            return
        if isinstance(outcome(ref), ActorExited):
            assert name in self.killed
            return
        self.note(name, self.count)
        self.calls.append((ref, name, len(self.told[name]), self.count))

    def see(self):
        for ref, name, number, value in self.calls:
            if outcome(ref) == value:
                self.seen.add((name, number))

    def make(self):
        self.count += 1
        own = {} if self.chance.random() < 0.5 else {"name": f"thing-{self.count}"}
        try:
            handle = Thing.options(**own).remote(self.count)
        except SystemRecovering:
            assert own, "only who makes an actor with a name waits for the news"
            assert self.world.port.life.rolls_back
            return
        self.told[handle.name] = []
        self.handles[handle.name] = handle
        self.note(handle.name, self.count)

    def kill(self):
        name = self.some()
        rayshot.kill(self.handles[name])
        self.killed.add(name)
        self.note(name, "end")

    def fail(self):
        """The system begins to go back, or is there."""
        if self.world.running:
            self.world.stop()
        else:
            self.begin()

    def begin(self):
        if not self.world.running:
            names = list(self.world.hosts)
            self.world.begin(*self.chance.sample(names, self.chance.randrange(len(names) + 1)))

    # What must be true in the end -----------------------------------------------------------------------------

    def check(self):
        world = self.world
        places = {(name, number): place for place, (name, number, _) in enumerate(world.history)}
        for name, entries in self.told.items():
            wanted = [entry for entry, _ in entries]
            if "end" in wanted:
                wanted = wanted[: wanted.index("end") + 1]
            assert world.contents(name) == wanted, name
            for number, (_, before) in enumerate(entries[: len(wanted)], 1):
                for call in before:
                    answered = places.get(call, len(places))  # it may not have been handled at all
                    assert answered < places[name, number], f"{name} {number} came before the answer of {call}"
        for ref, name, number, value in self.calls:
            found = outcome(ref)
            assert found == value or isinstance(found, (ActorExited, DIED)), f"{name} {number}: {found}"

    def check_rest(self):
        """After one more snapshot nothing is kept."""
        self.world.commit()
        self.world.settle()
        session = self.world.session
        assert session.budget.used == 0
        assert session.machine._calls._numbers == {}
        assert session.calls._fetched_again == {}
        assert list(session.creations._retained) == []
        for name, host in self.world.hosts.items():
            assert name in self.world.ended or host.process.outcomes == {}, f"{name} keeps outcomes of nobody"


@pytest.mark.sampled("more cases of one kind", keeps=117)
@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_each_actor_handles_what_it_was_told_once_and_in_order_in_the_life_that_survives(world, seed):
    play = Play(world, seed)
    play.run(250)
    play.check()
    play.check_rest()
