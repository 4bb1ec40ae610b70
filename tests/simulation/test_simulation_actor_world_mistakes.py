"""What a simulated world does with mistakes: handles of another world, handlers that raise what they should not."""

import pytest

import rayshot
from rayshot.errors import ActorDied, ActorExited, ConfigError, StaleHandle
from rayshot.simulation import SimulatedSystem
from tests.simulate.small_case import SmallCase
from tests.simulation.workloads import Account, Asker, Sneaky, Strict


@rayshot.actor
class Leaver:
    """Raises what ends programs."""

    def __init__(self):
        self.left = 0

    def leave(self, code):
        self.left += 1
        raise SystemExit(code)

    def read(self):
        return self.left

    def interrupt(self):
        raise KeyboardInterrupt

    def end(self):
        rayshot.current().exit()


# Handles of another world ---------------------------------------------------------------------------


def test_a_handle_of_another_world_is_refused_as_an_argument():
    here, there = SimulatedSystem(), SimulatedSystem()
    alice, bob = here.create(Account, 1, name="alice"), there.create(Account, 1, name="bob")
    with pytest.raises(StaleHandle, match="another world"):
        alice.transfer.tell(bob, 1)
    with pytest.raises(StaleHandle):
        here.create(Account, bob)


def test_a_handle_of_another_world_is_refused_inside_a_handler():
    here, there = SimulatedSystem(), SimulatedSystem()
    Sneaky.handle = there.create(Account, 1, name="bob")
    here.create(Sneaky, name="sneaky").sneak.tell()
    here.run()
    assert "StaleHandle" in here.dead_letters[0].error
    there.run()
    assert there.state("bob")["balance"] == 1


def test_a_branch_refuses_the_handles_of_the_world_that_it_comes_from():
    world = SimulatedSystem()
    alice = world.create(Account, 1, name="alice")
    branch = world.branch()
    with pytest.raises(StaleHandle, match="get_actor"):
        branch.get_actor("alice").transfer.tell(alice, 1)
    branch.get_actor("alice").transfer.tell(branch.get_actor("alice"), 1)
    branch.run()


# Handlers -------------------------------------------------------------------------------------------


@pytest.mark.acceptance("O4")
def test_a_handler_that_leaves_python_ends_its_actor_as_on_ray():
    world = SimulatedSystem()
    leaver, other = world.create(Leaver, name="leaver"), world.create(Leaver, name="other")
    leaver.leave.tell(0)
    waiting = other.leave.remote(3)
    world.run()
    assert world.actors == {}
    with pytest.raises(ActorExited, match=r"'other' ended, its handler \.leave left"):
        waiting.result()


@pytest.mark.acceptance("O4")
@pytest.mark.parametrize("seed", range(20))
def test_an_actor_that_is_killed_ends_behind_what_was_sent_before_whatever_crashes(seed):
    world = SimulatedSystem(seed, snapshots=2, crashes=1)
    worker = world.create(Leaver, name="worker")
    with world:
        before = worker.read.remote()
        rayshot.kill(worker)
        rayshot.kill(worker)
    world.run()
    assert before.result() == 0
    assert world.actors == {}


def test_an_interrupt_in_a_handler_reaches_whoever_runs_the_world():
    world = SimulatedSystem()
    world.create(Leaver).interrupt.tell()
    with pytest.raises(KeyboardInterrupt):
        world.run()


def test_a_step_whose_failure_is_the_systems_says_what_was_done():
    world = SimulatedSystem()
    strict = world.create(Strict, name="strict")
    world.run()
    strict.fail.tell()
    with pytest.raises(ActorDied) as caught:
        world.step()
    step = caught.value.evidence["step"]
    assert (step.handled.method, step.handled.receiver) == ("fail", "strict")
    assert "ValueError: on purpose" in step.error
    assert world.step() is None


def test_nothing_continues_with_a_call_that_became_a_dead_letter_as_on_ray():
    world = SimulatedSystem()
    asker, leaver = world.create(Asker, name="asker"), world.create(Leaver, name="leaver")
    leaver.end.tell()
    world.run()
    asker.ask.tell(leaver, "end")
    world.run()
    assert world.state("asker") == {"heard": []}
    assert [(letter.receiver, letter.sender) for letter in world.dead_letters] == [("leaver", "asker")]


# Choices and cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", [5, object(), "ab", [-1], [True], [0.5]])
def test_what_are_no_choices_is_refused(choices):
    with pytest.raises(ConfigError):
        SimulatedSystem(choices=choices)


@pytest.mark.parametrize("seed", [None, 1.5, "x"])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(ConfigError, match="seed"):
        SimulatedSystem(seed)


def test_a_choice_that_is_none_of_those_to_choose_from_is_refused():
    class Wild:
        def choose(self, count):
            return count

    with pytest.raises(ConfigError, match=r"Wild\.choose"):
        SimulatedSystem(choices=Wild())


def test_the_choices_of_a_source_of_ones_own_are_kept():
    class First:
        def choose(self, count):
            return 0

    world = SimulatedSystem(choices=First())
    world.create(Account, 1).deposit.tell(1)
    world.run()
    assert world.choices
    assert not any(world.choices)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ({"sends": {"p": ("q",), "q": ()}, "relays": {"p": ("q",), "q": ("p",)}}, "cycle"),
        ({"sends": {"p": ("p",)}, "relays": {"p": ("p",)}}, "cycle"),
        ({"sends": {"p": ("q",), "q": ()}, "duplicated": -1}, "duplicated"),
        ({"sends": {"p": ("q",), "q": ()}, "aborts": 1.5}, "aborts"),
        ({"sends": {"p": ("q",), "q": ()}, "at_once": frozenset({"luck"})}, "luck"),
        ({"sends": {"aligned": ()}}, "aligned"),
        ({"sends": {"p q": ()}}, "p q"),
    ],
)
def test_a_small_case_without_end_or_sense_is_refused(case, why):
    with pytest.raises(ConfigError, match=why):
        SmallCase(**case)
