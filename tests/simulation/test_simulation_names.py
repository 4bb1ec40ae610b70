"""Actors without names of their own, made by simulated handlers: a rollback makes them again under the same names."""

import rayshot
from rayshot.model.child_names import child_name
from rayshot.simulation import SimulatedSystem, explore
from tests.simulation.workloads import Account

DRIVER = "driver:main"


@rayshot.actor
class Nursery:
    """Makes accounts in plain and async handlers, in a timer and in a reply."""

    def __init__(self):
        self.children = [Account.remote(1)]

    def make(self, name=None):
        self.children.append(Account.options(name=name).remote(1) if name else Account.remote(1))
        return self.children[-1]

    async def make_two(self):
        self.children += [Account.remote(1), Account.remote(1)]

    def make_later(self):
        rayshot.current().after(1.0, self.make)

    def make_when_answered(self):
        self.children[0].read.remote().then(self.make_with)

    def make_with(self, _answer):
        self.make()


def all_kinds(world):
    nursery = world.create(Nursery, name="nursery")
    nursery.make.remote().result()
    nursery.make_two.tell()
    nursery.make_later.tell()
    nursery.make_when_answered.tell()


def expected():
    made_by = [(DRIVER, 1, 0), (DRIVER, 2, 0), (DRIVER, 3, 0), (DRIVER, 3, 1), ("nursery", 1, 0)]
    first = child_name("Account", "nursery", DRIVER, 1, 0)
    return {child_name("Account", "nursery", *one) for one in [*made_by, (first, 1, 0)]}


def the_children_have_their_names(world):
    assert {child.name for child in world.actors["nursery"].children} == expected()
    assert set(world.actors) == {"nursery", *expected()}


def test_constructors_handlers_timers_and_replies_give_the_same_names_in_every_schedule():
    explore(all_kinds, schedules=50, check=the_children_have_their_names)


def test_names_are_the_same_whoever_dies_and_whenever():
    seen = explore(all_kinds, schedules=100, check=the_children_have_their_names, snapshots=2, crashes=2)
    assert seen.rollbacks > 50


def test_a_child_that_the_program_got_before_a_crash_gets_what_was_sent_to_it_after_the_crash():
    world = SimulatedSystem(snapshots=0)
    nursery = world.create(Nursery, name="nursery")
    world.snapshot()
    child = nursery.make.remote().result()
    child.deposit.tell(5)
    assert child.read.remote().result() == 6
    world.crash()
    assert child.name not in world.actors
    child.deposit.tell(10)
    assert child.read.remote().result() == 16
    world.run()
    assert [one.name for one in world.actors["nursery"].children][1:] == [child.name]
    assert world.state(child.name) == {"balance": 16}
    assert not world.dead_letters


def test_a_name_that_was_given_by_hand_is_passed_over_also_when_its_actor_has_ended():
    taken = [child_name("Account", "nursery", DRIVER, number, 0) for number in (2, 3)]
    world = SimulatedSystem(snapshots=0)
    world.create(Account, 100, name=taken[0])
    ended = world.create(Account, 100, name=taken[1])
    rayshot.kill(ended)
    nursery = world.create(Nursery, name="nursery")
    world.run()
    assert taken[1] in world.ended
    made = [nursery.make.remote().result().name for _ in range(2)]
    assert made == [child_name("Account", "nursery", DRIVER, number, 1) for number in (2, 3)]
