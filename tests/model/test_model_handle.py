"""Handles: names that send, wherever they are pickled, copied or compared."""

import copy
import pickle

import pytest

from rayshot.errors import StaleHandle, SystemStopped, UnknownMethod
from rayshot.format.codec import Codec
from rayshot.model.handle import ActorHandle, Method
from rayshot.model.port import provide_port
from tests.model.world import World


def test_a_handle_sends_tells_in_order(world):
    bob = world.handle("bob", ["deposit"])
    bob.deposit.tell(1)
    bob.deposit.tell(2, note="late")
    assert bob.name == "bob"
    assert world.messages("bob") == [("deposit", (1,)), ("deposit", (2,))]
    assert world.codec.decode_tell(world.sent["bob"][1])[2] == {"note": "late"}


def test_tells_and_calls_of_one_handle_share_a_channel(world):
    bob = world.handle("bob")
    bob.deposit.tell(1)
    bob.read.remote()
    bob.deposit.tell(2)
    assert [method for method, _ in world.messages("bob")] == ["deposit", "read", "deposit"]


@pytest.mark.acceptance("G24")
def test_an_unknown_method_is_refused_at_the_call_with_those_there_are(world):
    bob = world.handle("bob", ["deposit", "read"])
    with pytest.raises(UnknownMethod, match="'bob' has no method 'withdraw'; it has deposit, read") as raised:
        bob.withdraw.tell(1)
    assert raised.value.evidence == {"actor": "bob", "method": "withdraw"}
    assert not hasattr(bob, "withdraw")
    assert hasattr(bob, "deposit")
    assert world.sent.get("bob", []) == []


def test_a_handle_shows_the_methods_that_it_knows(world):
    assert {"deposit", "read", "name"} <= set(dir(world.handle("bob", ["deposit", "read"])))
    assert "name" in dir(world.handle("bob"))


def test_a_handle_that_does_not_know_the_methods_leaves_the_check_to_the_receiver(world):
    world.handle("bob").withdraw.tell(1)
    assert world.messages("bob") == [("withdraw", (1,))]


def test_a_method_is_not_called_directly(world):
    with pytest.raises(TypeError, match=r"use \.deposit\.tell\(\.\.\.\) or \.deposit\.remote\(\.\.\.\)"):
        world.handle("bob").deposit(1)
    assert world.sent.get("bob", []) == []


@pytest.mark.parametrize("name", ["__len__", "__array__", "__await__", "__deepcopy__", "__call__"])
def test_a_dunder_name_is_no_method_of_an_actor(world, name):
    for handle in (world.handle("bob"), world.handle("bob", ["deposit"])):
        with pytest.raises(AttributeError, match=rf"'{name}'.*plain names.*rayshot help porting#dunder-methods"):
            getattr(handle, name)


@pytest.mark.acceptance("O7")
@pytest.mark.parametrize("name", ["_actor_id", "_ray_actor_id"])
def test_what_rays_handles_have_is_no_method_of_an_actor(world, name):
    for handle in (world.handle("bob"), world.handle("bob", ["deposit"])):
        with pytest.raises(UnknownMethod, match=rf"'{name}'.*handle\.name.*rayshot help porting#actor-id"):
            getattr(handle, name)
    getattr(world.handle("bob", [name]), name).tell()
    assert world.messages("bob") == [(name, ())]


def test_a_handle_of_another_system_sends_nothing(world):
    alien = ActorHandle("shop", "bob", None, world)
    with pytest.raises(StaleHandle, match=r"shop/bob.*'bank'"):
        alien.deposit.tell(1)
    with pytest.raises(StaleHandle, match=r"shop/bob"):
        world.handle("carol").meet.tell(alien)
    with pytest.raises(StaleHandle, match=r"shop/bob"):
        alien.name_in("bank")
    assert alien.name_in("shop") == "bob"
    assert not any(world.sent.values())


def test_handles_are_equal_by_system_and_name(world):
    bob, again = world.handle("bob", ["read"]), ActorHandle("bank", "bob", None, None)
    assert bob == again
    assert hash(bob) == hash(again)
    assert bob != world.handle("carol")
    assert bob != ActorHandle("shop", "bob", None, world)
    assert bob != "bob"
    assert {bob: 1}[again] == 1
    bob.read.tell()
    assert bob == again


def test_a_handle_shows_its_system_and_name(world):
    assert repr(world.handle("bob")) == "ActorHandle(bank/bob)"


def test_a_handle_is_bound_again_by_its_name_to_the_process_that_unpickles_it(world):
    bob = world.handle("bob", ["deposit"])
    bob.deposit.tell(1)
    other = World("carol")
    provide_port(lambda: other)
    pickled = pickle.dumps(bob)
    again = pickle.loads(pickled)
    again.deposit.tell(2)
    assert again == bob
    assert other.messages("bob") == [("deposit", (2,))]
    assert world.messages("bob") == [("deposit", (1,))]
    with pytest.raises(UnknownMethod):
        _ = again.withdraw


def test_a_handle_that_was_used_pickles_to_the_same_bytes(world):
    bob = world.handle("bob", ["read", "deposit", "withdraw"])
    before = pickle.dumps(bob)
    bob.deposit.tell(1)
    bob.read.remote()
    assert pickle.dumps(bob) == before
    assert copy.deepcopy(bob) == copy.copy(bob) == bob


def test_a_handle_in_a_flat_message_travels_as_its_name(world):
    world.handle("carol").meet.tell(world.handle("bob"), 1)
    (message,) = world.sent["carol"]
    assert b"ActorHandle" not in message
    _, (bob, one), _ = world.codec.decode_tell(message)
    assert (bob, one) == (world.handle("bob"), 1)
    bob.deposit.tell(5)
    assert world.messages("bob") == [("deposit", (5,))]


def test_handles_deep_inside_a_message_are_bound_and_shared(world):
    bob = world.handle("bob")
    world.handle("carol").meet.tell({"friends": [bob, bob]})
    _, (kept,), _ = world.codec.decode_tell(world.sent["carol"][0])
    assert kept == {"friends": [bob, bob]}
    assert kept["friends"][0] is kept["friends"][1]


def test_a_handle_that_was_read_outside_of_a_system_says_so_when_it_is_used():
    provide_port(lambda: None)
    bob = pickle.loads(pickle.dumps(ActorHandle("of nobody", "bob", frozenset({"deposit"}), None)))
    assert bob.name == "bob"
    with pytest.raises(SystemStopped, match=r"rayshot\.init"):
        bob.deposit.tell(1)


# Methods kept and sent ----------------------------------------------------------------------------------------------


@pytest.mark.acceptance("S7")
@pytest.mark.parametrize("bound", [lambda bob: bob.deposit.tell, lambda bob: bob.deposit.remote])
def test_a_method_of_a_handle_sends_from_the_process_that_unpickles_it(world, bound):
    bob = world.handle("bob", ["deposit"])
    pickled = pickle.dumps([bound(bob), bob.deposit])
    there = World("carol")
    provide_port(lambda: there)
    call, method = pickle.loads(pickled)
    assert there.sent == {}, "a state that is being loaded opens no channels"
    call(1)
    method.tell(2)
    assert there.messages("bob") == [("deposit", (1,)), ("deposit", (2,))]
    assert pickle.dumps([call, method]) == pickled
    assert world.sent.get("bob", []) == []


@pytest.mark.acceptance("S7")
def test_a_method_keeps_its_options_and_its_refusals(world):
    provide_port(lambda: world)
    read = pickle.loads(pickle.dumps(world.handle("bob", ["read"]).read.options(num_returns=0)))
    assert read.remote() is None
    assert copy.copy(read).remote() is None
    assert copy.deepcopy(read).remote() is None
    with pytest.raises(TypeError, match="a method of an actor is not called"):
        read()
    assert not hasattr(read, "bound")
    assert len(world.messages("bob")) == 3


@pytest.mark.acceptance("S7")
def test_a_method_of_an_actor_of_another_system_says_so_when_it_is_used(world):
    provide_port(lambda: world)
    method = pickle.loads(pickle.dumps(Method.again(ActorHandle("shop", "bob", None, None), "read", 1, durable=False)))
    with pytest.raises(StaleHandle, match="another system"):
        method.tell()


@pytest.mark.acceptance("S7")
def test_a_message_with_a_method_mentions_its_actor(world):
    bob = world.handle("bob", ["deposit"])
    named = []
    codec = Codec(ActorHandle, lambda handle: named.append(handle.name) or handle.name, world.handle)
    codec.tell("subscribe", (bob.deposit,))
    codec.tell("subscribe", (bob.deposit.tell,))
    assert named == ["bob", "bob"]
