"""On Ray, too, programs are told of changed answers, whatever is killed; `tests/fake` has the rules."""

import asyncio
from dataclasses import replace

import pytest
import ray

import rayshot
from rayshot.errors import AnswerChanged
from tests.runtime.healed import HEALS, kill, pid_of, until_it_runs
from tests.runtime.take_over import after_take_over, kill_coordinator
from tests.runtime.wavering import Actor, act_until_told, acted
from tests.waiting import eventually

pytestmark = pytest.mark.ray


@pytest.mark.parametrize("victims", [("wavering",), ("listener",), ("wavering", "listener")])
def test_a_program_is_told_in_whatever_process_the_actor_answers_again(new_system, victims):
    system, heard = new_system(failure=HEALS), []
    system.on_changed_answer(heard.append)
    acted(system)
    kill(system, *victims)
    eventually(lambda: heard, 30)
    (one,) = heard
    assert (one.life, one.actor, one.method, one.then, one.count) == (2, "wavering", "ask", ("listener", "hear"), 1)
    assert one.before != one.now
    assert system.status().changed_answers == 1


def test_a_program_is_told_too_if_the_coordinator_is_killed_with_the_actor(new_system):
    system, heard = new_system(failure=HEALS), []
    system.on_changed_answer(heard.append)
    acted(system)
    kill_coordinator(system, pid_of(system, "wavering"))
    eventually(lambda: heard, 60)
    assert [(one.actor, one.method) for one in heard] == [("wavering", "ask")]


def test_a_plain_actor_is_told_of_its_own_answers_and_the_program_of_its_own(new_system):
    system, heard = new_system(failure=HEALS), []
    system.on_changed_answer(heard.append)
    acted(system)
    actor = Actor.remote()
    ray.get(actor.begin.remote(system.name))
    for _ in range(3):
        ray.get(actor.act.remote())
    kill(system, "wavering")
    until_it_runs(system)
    eventually(lambda: ray.get(actor.heard.remote()) and heard, 30)
    (theirs,) = ray.get(actor.heard.remote())
    assert (theirs.count, theirs.then) == (3, ("listener", "hear"))
    assert sum(one.count for one in heard) == 1
    assert system.status().changed_answers == 4
    ray.kill(actor)


def test_a_plain_task_is_told_of_its_own_answers(new_system, tmp_path):
    system = new_system(failure=HEALS)
    acted(system)
    system.snapshot()
    told = act_until_told.remote(system.name, tmp_path / "began", 60)
    eventually((tmp_path / "began").exists, 60)
    kill(system, "wavering")
    theirs = ray.get(told)
    assert (theirs.life, theirs.actor, theirs.method, theirs.count) == (2, "wavering", "ask", 1)
    assert system.status().changed_answers == 1


def test_a_coroutine_that_acts_is_told_as_any_program(new_system):
    system, heard = new_system(failure=HEALS), []
    system.on_changed_answer(heard.append)
    wavering, listener = acted(system)
    system.snapshot()

    async def act():
        for _ in range(3):
            await wavering.ask.remote()
            listener.hear.tell()

    asyncio.run(act())
    kill(system, "wavering")
    eventually(lambda: heard, 30)
    assert [(one.count, one.then) for one in heard] == [(3, ("listener", "hear"))]


def test_with_stop_all_programs_get_an_error_that_names_the_call(new_system):
    system = new_system(failure=replace(HEALS, on_changed_answer="stop"))
    wavering, listener = acted(system)
    kill(system, "wavering")
    eventually(lambda: system.status().state == "stopped", 30)
    for ask in (system.snapshot, listener.hear.tell, lambda: ray.get(wavering.ask.remote())):
        with pytest.raises(AnswerChanged, match=r"message \d+ to 'wavering' \(.ask\).* sent listener.hear") as raised:
            ask()
        assert raised.value.evidence["actor"] == "wavering"


def test_with_stop_the_system_stays_stopped_when_its_coordinator_is_killed_behind_that_and_a_resume_goes_on(new_system):
    failure = replace(HEALS, on_changed_answer="stop")
    system = new_system(failure=failure)
    acted(system)
    kill(system, "wavering")
    eventually(lambda: system.status().state == "stopped", 30)
    kill_coordinator(system)
    assert eventually(lambda: after_take_over(system.status), 60).state == "stopped"
    with pytest.raises(AnswerChanged, match=r"wavering"):
        rayshot.attach(system.name).snapshot()
    resumed = rayshot.resume(system.name, storage=system.storage, begin=acted, failure=failure)
    assert ray.get(resumed.get_actor("wavering").steady.remote()) == "always"
    kill_coordinator(resumed)
    assert eventually(lambda: after_take_over(resumed.status), 60).state == "running"
    resumed.shutdown()
