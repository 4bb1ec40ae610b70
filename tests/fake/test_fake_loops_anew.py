"""The test mode in which each pass of a loop has its own frame: what is wrong with a loop is seen without a kill."""

import weakref

import pytest

import rayshot
from rayshot.errors import ConfigError
from rayshot.runtime.opening.start import check_arguments
from tests.fake.looping import Trainer, instance
from tests.fake.system import actor, await_life, process_of, read


@pytest.fixture(params=["kept", "anew"])
def loops(request):
    """What becomes of the frame at the top of a pass."""
    return request.param


class Local:
    """Something that a frame holds."""


@rayshot.actor(capture="inline")
class Collector(Trainer):
    locals_ = ()

    def collect(self):
        batch = []
        for rollout in rayshot.loop(self.rollouts.get):
            batch.append(rollout)
            if len(batch) == 2:
                self.trained.append(tuple(batch))
                batch.clear()

    def hold(self):
        local = Local()
        Collector.locals_ = (*Collector.locals_, weakref.ref(local))
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append((rollout, local is not None))

    async def hold_async(self):
        local = Local()
        Collector.locals_ = (*Collector.locals_, weakref.ref(local))
        async for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append((rollout, local is not None))

    def send_above_later(self):
        if self.trained:
            self.slots.actor.put.tell("sent")
        for rollout in rayshot.loop(self.rollouts.get):
            self.trained.append(rollout)


def collector_of(rollouts, *more):
    collector = Collector.options(name="collector").remote(rollouts, *more)
    assert read(collector) == []
    return collector


def test_a_method_that_collects_above_its_loop_gives_other_results_when_it_is_begun_anew(cluster, rollouts, loops):
    collector_of(rollouts).collect.tell()
    for number in range(4):
        rollouts.put(number)
    cluster.settle()
    assert instance(cluster, "collector").trained == ([(0, 1), (2, 3)] if loops == "kept" else [])


@pytest.mark.parametrize("method", ["hold", "hold_async"])
def test_a_frame_that_is_thrown_away_lets_go_of_all_that_it_held(cluster, rollouts, method, loops):
    Collector.locals_ = ()
    getattr(collector_of(rollouts), method).tell()
    for number in range(5):
        rollouts.put(number)
    cluster.settle()
    assert len(Collector.locals_) == (1 if loops == "kept" else 7), "one for the first top, and one for each pass"
    assert sum(of() is not None for of in Collector.locals_) == 1


def test_what_is_sent_above_a_loop_only_behind_a_pass_is_found_when_it_is_begun_anew(cluster, system, rollouts, loops):
    slots = rayshot.Queue(actor_options={"name": "slots"})
    collector_of(rollouts, slots).send_above_later.tell()
    rollouts.put(1)
    cluster.settle()
    found = ["LoopNotRepeatable" in letter.error for letter in system.dead_letters()]
    assert found == ([] if loops == "kept" else [True])


def test_a_restart_and_each_new_life_keep_how_frames_are_treated(cluster, system, loops):
    assert system._identity.loops == loops
    trainer = Trainer.options(name="trainer").remote(None)
    assert read(trainer) == []
    system.snapshot()
    cluster.die(actor(cluster, "trainer"))
    await_life(cluster, system, 2)
    assert process_of(cluster, "trainer").identity.loops == loops


@pytest.mark.parametrize("loops", ["new", None, True, "chosen"])
def test_another_word_for_what_becomes_of_frames_is_refused(loops):
    with pytest.raises(ConfigError, match="give 'kept' or 'anew'"):
        check_arguments("bank", None, None, trace=False, loops=loops)
