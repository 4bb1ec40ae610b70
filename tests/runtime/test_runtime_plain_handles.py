"""Handles of plain Ray actors, Ray's queues and pools in states and messages: elsewhere they say what is missing."""

import copy
import json
import re
import subprocess
import sys

import pytest
import ray

from rayshot.errors import SnapshotAborted, StaleHandle
from rayshot.format.pickling import dump_message, dump_state, load_message, load_state
from rayshot.inert import reader
from rayshot.inert.jsonable import jsonable
from rayshot.runtime.door import plain_handles
from rayshot.runtime.door.plain_handles import PlainHandle, plain_handle
from rayshot.runtime.door.references import know_references
from tests.runtime.sides import Desk, ForkingDesk, Side
from tests.runtime.test_runtime_references import restore

PLACES = {
    "handle": "desk.handle",
    "options": "desk.listed[0]",
    "method": "desk.methods['of']._actor",
    "queue": "desk.queue.actor",
    "pool": "desk.pool._idle_actors[0]",
    "old": "desk.old",
    "killed": "desk.killed",
    "named": "desk.named",
    "old named": "desk.old_named",
}
ELSEWHERE = (b"", False, "a cluster", "an actor", "shop.Side", "", "")


@pytest.fixture
def side(cluster):
    know_references()
    side = Side.remote()
    assert ray.get(side.note.remote()) == "noted"
    return side


def through_a_state(value):
    pickled = dump_state({"kept": value}, "desk")
    return load_state(pickled.stream, pickled.buffers)["kept"]


def through_a_message(value):
    return load_message(*dump_message("take", (value,), {})[:2])[1][0]


# In the cluster of the actor --------------------------------------------------------------------------------------


@pytest.mark.ray
@pytest.mark.parametrize("through", [through_a_state, through_a_message])
def test_in_its_cluster_a_handle_is_made_again(side, through):
    assert through(side) == side
    assert ray.get(through(side.note).remote()) == "noted"


@pytest.mark.ray
def test_a_handle_of_another_cluster_is_not_made_even_where_ray_would_make_one(side):
    """Classes that travel by value keep their ids in Ray, and ids of actors begin anew in each cluster."""
    make, fields = plain_handles._reduce(side)
    assert make(*fields) == side
    assert isinstance(make(*fields[:2], "another cluster", *fields[3:]), PlainHandle)


@pytest.mark.ray
def test_a_restore_in_the_same_cluster_has_the_handle_itself(system, new_system, side):
    desk = Desk.options(name="desk").remote()
    desk.keep.tell(side)
    assert ray.get(desk.use.remote("handle")) == {"handle": "noted"}
    snapshot = system.snapshot()
    kept = snapshot.states()["desk"]["handle"]
    assert kept.class_name == "ray.actor.ActorHandle"
    assert kept["class"] == "tests.runtime.sides.Side"
    assert kept["actor"] == side._actor_id.hex()
    assert ray.get(restore(new_system, system).get_actor("desk").use.remote("handle")) == {"handle": "noted"}


@pytest.mark.ray
def test_a_handle_whose_class_ray_has_forgotten_is_one_that_says_so(side, monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(plain_handles, "make_handle", refuse)
    assert isinstance(through_a_state(side), PlainHandle)


@pytest.mark.ray
def test_a_class_that_captures_by_fork_captures_inline_while_it_holds_a_handle(system, side):
    desk = ForkingDesk.options(name="desk").remote()
    desk.keep.tell([side])
    with pytest.raises(SnapshotAborted, match=r"desk\['state'\]\['handle'\]\[0\] is the handle of a plain Ray actor"):
        system.snapshot()
    for _ in range(2):
        assert system.snapshot().states()["desk"]["handle"][0]["class"] == "tests.runtime.sides.Side"


# In another cluster -----------------------------------------------------------------------------------------------


def run(step, folder):
    """What `tests/runtime/plain_handles.py` finds, in a cluster of its own."""
    command = [sys.executable, "-m", "tests.runtime.plain_handles", step, str(folder / "shots")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.wide("slow")
@pytest.mark.ray
def test_in_other_clusters_a_handle_fails_when_it_is_used_and_a_named_actor_is_looked_up_then(tmp_path):
    told, used = run("first", tmp_path)
    assert told == ["noted"]
    assert used == {"handle": "noted", "options": "noted", "method": "noted", "queue": 0, "named": "noted"}
    for _ in range(2):
        (told,), used, named = run("again", tmp_path)
        assert told.startswith("StaleHandle: a value in a message to desk is the handle of a plain Ray actor")
        for kind, place in PLACES.items():
            why = "no actor here is named 'side' in namespace 'sides'" if "named" in kind else "it has no name"
            said = f"StaleHandle: {re.escape(place)} is the handle of .* and {why}: .*on_restore"
            assert re.match(said, used[kind]), used[kind]
        assert named == {"named": "noted", "old named": "noted"}


@pytest.mark.parametrize("through", [through_a_state, through_a_message, copy.copy, copy.deepcopy])
def test_what_stands_for_a_handle_can_be_kept_copied_compared_and_pickled_again(through):
    stands = plain_handle(*ELSEWHERE)
    back = through(stands)
    assert back == stands
    assert back.__reduce__() == (plain_handle, ELSEWHERE)
    assert back != plain_handle(*ELSEWHERE[:3], "another", *ELSEWHERE[4:])
    assert {back: 1}[stands] == 1
    assert hasattr(back, "note")
    assert not hasattr(back, "__len__")
    assert repr(back) == "PlainHandle(shop.Side, an actor)"
    assert through(back.note)._name == "note"


@pytest.mark.parametrize("use", ["remote", "options", "bind"])
def test_every_use_of_what_stands_for_a_handle_says_what_to_do(use):
    stands = plain_handle(*ELSEWHERE)
    with pytest.raises(
        StaleHandle, match=r"a plain Ray actor of shop\.Side .* it has no name: \.note cannot be called"
    ):
        getattr(stands.note, use)()
    with pytest.raises(StaleHandle, match=r"\.__ray_terminate__ cannot be called"):
        stands.__ray_terminate__.remote()
    with pytest.raises(StaleHandle, match=r"\.kill cannot be called"):
        ray.kill(stands)


def test_a_handle_of_an_older_snapshot_is_read_by_the_name_that_it_has_there(monkeypatch):
    stands, older = plain_handle(*ELSEWHERE), "rayshot.runtime.ray.plain_handles"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, older, sys.modules[plain_handle.__module__])
        patch.setattr(plain_handle, "__module__", older)
        stream = dump_state([stands], "desk").stream
    assert b"rayshot.runtime.ray" in stream
    assert load_state(stream) == [stands]
    assert reader.read(stream)[0].state["class"] == "shop.Side"


def test_the_inert_reader_shows_the_class_and_the_name_of_a_handle():
    shown = jsonable(reader.read(dump_state([plain_handle(*ELSEWHERE)], "desk").stream))
    assert shown == [
        {"$class": "ray.actor.ActorHandle", "actor": "an actor", "class": "shop.Side", "name": "", "namespace": ""}
    ]
