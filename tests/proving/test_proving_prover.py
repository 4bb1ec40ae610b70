"""A prover loads recorded states in scratch processes, and says proved, refuted or not proved."""

import os
import signal
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest
from grpc import RpcError

from rayshot.model.specification import ActorSpecification
from rayshot.proving.prover import spread
from rayshot.proving.trial import PROVED, SETUP_HOOK, Trial
from rayshot.runtime.door.plain_handles import plain_handle
from tests.processes import runs
from tests.proving import kinds
from tests.proving.conftest import record_actor
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance("S2")


@pytest.fixture
def prove_actor(prover):
    """Proves the state of this object as that of an actor."""

    def prove(actor):
        recorded = record_actor(actor)
        file = spread(recorded.parts, "/dev/shm")
        try:
            specification = ActorSpecification.of(type(actor), {}).pack()
            return prover.ask(Trial("alice", specification, recorded.sizes), file)
        finally:
            os.close(file)

    return prove


@pytest.mark.parametrize("value", [kinds.Plain(), [np.arange(1000)] * 2, {"a": [kinds.Plain()]}])
def test_what_loads_is_proved(ask, value):
    assert ask(value) == PROVED


@pytest.mark.parametrize(
    "error", [TypeError("t"), AttributeError("a"), KeyError("k"), AssertionError("v"), IndexError(9)]
)
def test_what_raises_the_same_error_of_its_own_twice_is_refuted_with_its_path(ask, error):
    answer = ask([0, {"deep": kinds.Refusing(error)}])
    assert (answer.word, answer.error) == ("refuted", type(error).__name__)
    assert answer.path == "alice['state']['value'][1]['deep']"


def test_what_only_the_registry_of_the_living_process_has_is_refuted(ask):
    assert ask(kinds.Registered("one")).reason == "KeyError: 'one'"
    assert ask(kinds.Registered("one")).word == "refuted"


@pytest.mark.sampled("more cases of one kind", keeps=3)
@pytest.mark.parametrize(
    "error",
    [OSError(5, "gone"), ConnectionError(), MemoryError(), EOFError(), ImportError("x"), RuntimeError(), RpcError("x")],
)
def test_an_error_of_the_outside_or_of_an_unknown_kind_says_nothing(ask, error):
    assert ask(kinds.Refusing(error)).word == "unproved"


def test_an_error_of_its_own_that_an_error_of_the_outside_caused_says_nothing(ask):
    assert ask(kinds.Disconnected()).reason == "ValueError: no connection"
    assert ask(kinds.Disconnected()).word == "unproved"


def test_an_error_that_comes_through_ray_says_nothing(ask):
    answer = ask(kinds.Namespaced())
    assert (answer.word, answer.error) == ("unproved", "AttributeError")
    assert answer.reason.endswith("it asks Ray, which is not here")


def test_what_a_setup_hook_may_have_made_says_nothing(ask, prover):
    there = prover._surroundings
    prover._surroundings = there._replace(environment={**there.environment, SETUP_HOOK: "hook"})
    answer = ask(kinds.Registered("one"))
    assert answer.word == "unproved"
    assert answer.reason.startswith("KeyError: 'one'; a worker_process_setup_hook ran where the actor is")
    assert ask(kinds.Plain()) == PROVED


@pytest.mark.parametrize("hold", [lambda own: {own}, lambda own: {("a", own): 1}, lambda own: OrderedDict({own: 1})])
def test_an_actor_that_is_a_key_in_its_own_state_is_proved_unless_its_class_takes_the_state_itself(prove_actor, hold):
    assert prove_actor(kinds.Member("alice", hold)) == PROVED
    assert prove_actor(kinds.Choosy("alice", hold)).word == "refuted"


def test_a_copy_of_what_has_the_actor_as_a_key_is_refuted(prove_actor):
    assert prove_actor(kinds.Member("alice", lambda own: Counter([own]))).word == "refuted"


def test_a_file_that_the_living_object_has_locked_says_nothing_and_stays_locked(ask, tmp_path):
    held = kinds.Locked(str(tmp_path / "lock"))
    answer = ask(held)
    assert answer.word == "unproved"
    assert answer.error == "BlockingIOError"


@pytest.mark.parametrize(
    ("kind", "why"),
    [(kinds.Hanging, "it took longer than 0.5 s to load"), (kinds.Deadly, "the process that had to load died")],
)
def test_what_hangs_or_kills_its_process_is_not_proved_and_the_next_one_is(ask, prover, kind, why):
    answer, pid = ask(kind(), load_s=0.5), prover.pid
    assert (answer.word, answer.reason) == ("unproved", why)
    assert ask(kinds.Plain()) == PROVED
    assert prover.pid == pid


def test_what_takes_too_much_memory_is_not_proved(ask):
    assert ask(kinds.Hungry()).error == "MemoryError"


def test_what_begins_a_thread_is_proved(ask):
    assert ask(kinds.Threaded()) == PROVED


@pytest.mark.parametrize("rest", [[], [kinds.Refusing(ValueError("v"))]])
def test_what_deletes_a_file_when_it_goes_deletes_nothing_of_the_living_object(ask, tmp_path, rest):
    held = kinds.Folder(str(tmp_path / "file"))
    ask([held, *rest])
    assert Path(held.path).exists()


def test_the_handle_of_a_plain_ray_actor_is_proved_and_what_uses_it_is_not(ask):
    handle = plain_handle(b"", False, "a cluster", "an actor", "shop.Side", "side", "shop")
    assert ask([handle, handle.note]) == PROVED
    assert ask(kinds.Calling(handle)).word == "unproved"


def test_a_prover_that_died_makes_way_for_a_fresh_one_in_the_same_trial(ask, prover):
    ask(kinds.Plain())
    for awaited in (True, False):
        pid = prover.pid
        os.kill(pid, signal.SIGKILL)
        if awaited:
            prover._process.wait()
        assert ask(kinds.Plain()) == PROVED
        assert prover.pid not in {pid, None}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_state_that_kills_the_prover_itself_is_not_tried_for_ever(ask, prover, tmp_path, earlier):
    for _ in range(earlier):
        ask(kinds.Plain())
    answer = ask(kinds.Murderous(str(tmp_path / "kills")))
    assert (answer.word, answer.reason) == ("unproved", "the process that proves states died")
    assert len((tmp_path / "kills").read_text()) == 1 + earlier
    assert ask(kinds.Plain()) == PROVED


def test_a_prover_ends_with_who_asks_it(ask, prover):
    ask(kinds.Plain())
    pid, process = prover.pid, prover._process
    prover._connection.close()
    eventually(lambda: process.poll() is not None)
    assert not runs(pid)


def test_where_no_process_can_be_started_nothing_is_proved(ask, prover):
    prover._surroundings = prover._surroundings._replace(executable="/no/such/python")
    answer = ask(kinds.Plain())
    assert answer.word == "unproved"
    assert "no process can be started" in answer.reason


def test_a_prover_has_neither_ray_nor_a_storage_nor_a_second_thread(ask, prover):
    ask([np.arange(9), kinds.Plain()])
    maps = Path(f"/proc/{prover.pid}/maps").read_text()
    assert "_raylet" not in maps
    assert "obstore" not in maps
    assert len([*Path(f"/proc/{prover.pid}/task").iterdir()]) == 1
