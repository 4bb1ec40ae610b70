"""Loops that are refused: a restore could not repeat them, or they would wait for ever."""

import pytest

import rayshot
from rayshot.errors import ConfigError, LoopNotRepeatable, WaitsForHandler
from rayshot.runtime.door import door
from tests.fake.looping import Trainer
from tests.fake.system import read


@pytest.fixture
def trainer(rollouts):
    trainer = Trainer.options(name="trainer").remote(rollouts)
    assert read(trainer) == []
    return trainer


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("ask_above", "above the rayshot.loop something was sent"),
        ("tell_above", "above the rayshot.loop something was sent"),
        ("set_a_timer_above", "set for later"),
        ("call_it", "calls .call_it: a restore begins with that"),
        ("not_in_for", "write it as `for item in"),
    ],
)
def test_what_a_restore_would_not_repeat_is_refused_at_the_first_pass(trainer, method, said):
    with pytest.raises(LoopNotRepeatable, match=said):
        door.get(getattr(trainer, method).remote())


def test_a_class_with_a_loop_that_cannot_begin_anew_is_refused_when_it_is_decorated():
    class Counter:
        def count(self):
            number = 0
            for step in rayshot.loop(self.steps.get):
                number += step
                self.note(number)

    with pytest.raises(LoopNotRepeatable, match="number lives across the top of the loop"):
        rayshot.actor(Counter)


@pytest.mark.parametrize("what", [(5,), (len,), (rayshot.Queue.get,)])
def test_a_loop_takes_calls_only(trainer, what):
    with pytest.raises(ConfigError, match="give a method of a handle"):
        door.get(trainer.wrong.remote(what))


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e10, "1"])
def test_a_loop_waits_for_a_time_that_can_come(trainer, seconds):
    """A wait of a thread, which may be no longer than three hundred years, would end the system."""
    with pytest.raises(ConfigError, match="give seconds, 0 or more, at most"):
        door.get(trainer.wrong.remote((), every=seconds))


def test_a_loop_over_a_method_of_its_own_actor_is_refused(trainer):
    with pytest.raises(WaitsForHandler, match=r"waits for its own \.read, and handles nothing else while it loops"):
        door.get(trainer.wait_for_itself.remote(trainer))


def test_a_loop_over_a_queue_that_was_shut_down_is_refused(trainer):
    with pytest.raises(ConfigError, match="was shut down"):
        door.get(trainer.fit_behind_its_end.remote())
